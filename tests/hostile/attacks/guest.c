/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/attacks/attack.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "protocol/atomic.h"

void guest_show(struct guest *g, uint64_t tail)
{
    apir_store_release64(&g->ring.header->tail, tail);
    g->ring.published = g->ring.tail;
    const struct apir_doorbell bell = {.magic = APIR_DOORBELL_MAGIC, .op = APIR_DOORBELL_KICK};
    if (g->transport.doorbell(&g->transport, &bell))
        not_stopped("the test server takes no doorbell");
}

void guest_use_blob(struct guest *g, uint32_t id)
{
    blob_register(g, id, 0);
    put_forget(g, id);
    guest_must_run(g, "BLOB_FORGET");
}

void guest_set(struct guest *g, uint32_t buffer, uint64_t offset, const void *data, size_t size)
{
    guest_must_run(g, "before SET"); /* the arena may be in use */
    memcpy(guest_arena(g), data, size);
    put_transfer(g, APIR_MSG_SET, 0, buffer, offset, size, 1, 0);
    guest_must_run(g, "SET");
}

void guest_get(struct guest *g, uint32_t buffer, uint64_t offset, void *data, size_t size)
{
    guest_must_run(g, "before GET");
    memset(guest_arena(g), 0x77, size);
    put_transfer(g, APIR_MSG_GET, STREAM, buffer, offset, size, 1, 0);
    guest_must_run(g, "GET");
    memcpy(data, guest_arena(g), size);
}

void guest_copy(struct guest *g, uint32_t from, uint64_t from_offset, uint32_t to,
                uint64_t to_offset, uint64_t size)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_COPY,
                                    .u.copy = {.src_buffer = from,
                                               .src_offset = from_offset,
                                               .dst_buffer = to,
                                               .dst_offset = to_offset,
                                               .size = size}});
}

uint8_t guest_byte(uint32_t buffer, uint64_t offset)
{
    return (uint8_t)(offset * 31 + buffer * 101 + (offset >> 8));
}

static uint8_t remembered[BUFFERS + 1][MEMORY];

void guest_remember(struct guest *g)
{
    for (uint32_t b = 1; b <= BUFFERS; b++)
        guest_get(g, b, 0, remembered[b], MEMORY);
}

void guest_remember_as(uint32_t buffer, uint64_t offset, const void *bytes, size_t size)
{
    memcpy(remembered[buffer] + offset, bytes, size);
}

void guest_unchanged(struct guest *g)
{
    static uint8_t now[MEMORY];
    for (uint32_t b = 1; b <= BUFFERS; b++) {
        guest_get(g, b, 0, now, MEMORY);
        for (uint32_t i = 0; i < MEMORY; i++) {
            if (now[i] != remembered[b][i])
                not_stopped("byte %u of buffer %u has changed", i, b);
        }
    }
}

/* ---- a context --------------------------------------------------------------------------- */

void guest_connect_bare(struct guest *g)
{
    struct apir_error err = {0};
    *g = (struct guest){.transport = {.fd = -1}};
    if (transport_vtest_open(&g->transport, attack_socket(), &err))
        not_stopped("%s", err.msg);
    /* A program must not wait as long as that; a test on a busy machine may. */
    const struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    WANT(setsockopt(g->transport.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
}

void guest_connect(struct guest *g)
{
    guest_connect_bare(g);
    guest_attach(g);
}

static void buffers_fill(struct guest *g)
{
    static uint8_t bytes[MEMORY];
    for (uint32_t b = 1; b <= BUFFERS; b++) {
        for (uint32_t i = 0; i < MEMORY; i++)
            bytes[i] = guest_byte(b, i);
        guest_alloc(g, b, MEMORY);
        guest_set(g, b, 0, bytes, MEMORY);
    }
}

void guest_fill(struct guest *g, uint64_t arena)
{
    guest_blob(g, 1, arena);
    guest_greet(g);
    stream_new(g, STREAM, 0);
    buffers_fill(g);
}

void guest_open_sized(struct guest *g, uint64_t arena)
{
    guest_connect(g);
    guest_fill(g, arena);
}

void guest_open(struct guest *g)
{
    guest_open_sized(g, ARENA);
}

/* ---- the test server's own protocol ------------------------------------------------------ */

static bool vtest_send(struct guest *g, const void *data, size_t size)
{
    const uint8_t *p = data;
    while (size) {
        ssize_t n = send(g->transport.fd, p, size, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

void vtest_put(struct guest *g, uint32_t command, const uint32_t *payload, uint32_t dwords)
{
    const uint32_t header[2] = {dwords, command};
    /* One that has hung up is noticed where its answer is missed. */
    if (vtest_send(g, header, sizeof(header)))
        vtest_send(g, payload, dwords * sizeof(*payload));
}

bool vtest_answer(struct guest *g, uint32_t command, uint32_t *ret_payload, uint32_t dwords)
{
    uint32_t header[2];
    const size_t size = dwords * sizeof(*ret_payload);
    if (recv(g->transport.fd, header, sizeof(header), MSG_WAITALL) != sizeof(header))
        return false;
    WANT(header[0] == dwords && header[1] == command);
    return recv(g->transport.fd, ret_payload, size, MSG_WAITALL) == (ssize_t)size;
}

void vtest_submit(struct guest *g, const void *bytes, uint32_t size, uint32_t ring, uint32_t sync,
                  uint64_t value)
{
    enum { FRONT = 9 }; /* how many batches, and one of them */
    static uint32_t msg[FRONT + (1u << 18)];
    const uint32_t dwords = size / 4;
    WANT(dwords + 3 <= 1u << 18);
    memset(msg, 0, sizeof(uint32_t) * FRONT);
    msg[0] = 1;
    msg[1] = 1; /* flag: the ring's number counts */
    msg[2] = FRONT;
    msg[3] = dwords;
    msg[4] = FRONT + dwords;
    msg[5] = sync ? 1 : 0;
    msg[6] = ring;
    memcpy(msg + FRONT, bytes, size);
    const uint32_t syncs[3] = {sync, (uint32_t)value, (uint32_t)(value >> 32)};
    memcpy(msg + FRONT + dwords, syncs, sizeof(syncs));
    vtest_put(g, VTEST_SUBMIT_CMD2, msg, FRONT + dwords + (sync ? 3 : 0));
}

void expect_refused(struct guest *g, const char *reason)
{
    expect_fatal(g, reason);
    refused("%s", guest_reason(g));
}

void end_refused(struct guest *g, const char *reason)
{
    expect_refused(g, reason);
    guest_close(g);
}

void message_fatal_changed(const struct apir_msg *m, size_t at, const void *bytes, size_t size,
                           const char *reason)
{
    struct guest g;
    guest_open(&g);
    guest_put_changed(&g, m, at, bytes, size);
    end_refused(&g, reason);
}

void message_fatal(const struct apir_msg *m, const char *reason)
{
    message_fatal_changed(m, 0, NULL, 0, reason);
}
