/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/attacks/attack.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "protocol/atomic.h"

#define REPLIES_FIRST 4096u /* below lie the streams' places */
#define REPLIES       64u

int64_t attack_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void attack_breathe(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* ---- the ring ---------------------------------------------------------------------------- */

uint32_t guest_state(const struct guest *g)
{
    return apir_load_acquire32(&g->ring.header->state);
}

const char *guest_reason(const struct guest *g)
{
    return g->ring.header->reason;
}

static void doorbell(struct guest *g, uint32_t op)
{
    struct apir_doorbell bell = {.magic = APIR_DOORBELL_MAGIC, .op = op};
    if (g->transport.doorbell(&g->transport, &bell))
        not_stopped("the test server takes no doorbell");
}

void guest_flush(struct guest *g)
{
    if (apir_ring_guest_publish(&g->ring))
        doorbell(g, APIR_DOORBELL_KICK);
}

void guest_show(struct guest *g, uint64_t tail)
{
    apir_store_release64(&g->ring.header->tail, tail);
    g->ring.published = g->ring.tail;
    doorbell(g, APIR_DOORBELL_KICK);
}

bool guest_run(struct guest *g)
{
    guest_flush(g);
    int64_t end = attack_now_ms() + WAIT_MS;
    while (apir_load_acquire64(&g->ring.header->head) != g->ring.tail) {
        uint32_t state = guest_state(g);
        if (state == APIR_STATE_FATAL || state == APIR_STATE_LOST)
            return false;
        if (attack_now_ms() > end)
            not_stopped("the worker hangs");
        attack_breathe();
    }
    return true;
}

static void must_run(struct guest *g, const char *what)
{
    if (!guest_run(g))
        not_stopped("%s: the context has ended (state %u): %s", what, guest_state(g),
                    guest_reason(g));
}

void guest_put_bytes(struct guest *g, const void *bytes, size_t size)
{
    while (!apir_ring_guest_has_room(&g->ring, size))
        must_run(g, "more messages than the ring holds");
    apir_ring_guest_put(&g->ring, bytes, size);
}

void guest_put_changed(struct guest *g, const struct apir_msg *msg, size_t at, const void *bytes,
                       size_t size)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    int64_t n = apir_msg_encode(msg, buf, sizeof(buf));
    WANT(n > 0 && sizeof(struct apir_msg_header) + at + size <= (size_t)n);
    if (size)
        memcpy(buf + sizeof(struct apir_msg_header) + at, bytes, size);
    guest_put_bytes(g, buf, (size_t)n);
}

void guest_put(struct guest *g, const struct apir_msg *msg)
{
    guest_put_changed(g, msg, 0, NULL, 0);
}

uint32_t guest_reply(struct guest *g)
{
    uint32_t at = REPLIES_FIRST + g->next_reply++ % REPLIES * APIR_REPLY_SIZE;
    memset((uint8_t *)g->ring_blob.map + APIR_RING_HEADER_SIZE + at, 0xff, APIR_REPLY_SIZE);
    return at;
}

const void *guest_reply_at(const struct guest *g, uint32_t offset)
{
    return (const uint8_t *)g->ring_blob.map + APIR_RING_HEADER_SIZE + offset;
}

/* Every answer begins with its status. */
static void must_answer_ok(struct guest *g, uint32_t reply, const char *what)
{
    must_run(g, what);
    const struct apir_reply_status *r = guest_reply_at(g, reply);
    if (r->status != APIR_OK)
        not_stopped("%s: status %u", what, r->status);
}

/* ---- memory ------------------------------------------------------------------------------ */

void guest_blob(struct guest *g, uint32_t id, uint64_t size)
{
    int err = g->transport.blob_create(&g->transport, id, size, &g->blobs[id]);
    if (err)
        not_stopped("no blob of %llu bytes: %s", (unsigned long long)size, strerror(-err));
}

void guest_use_blob(struct guest *g, uint32_t id)
{
    struct apir_msg m = {.code = APIR_MSG_BLOB_REGISTER,
                         .u.blob_register = {.blob = id, .reply = guest_reply(g)}};
    guest_put(g, &m);
    must_answer_ok(g, m.u.blob_register.reply, "BLOB_REGISTER");
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_BLOB_FORGET, .u.blob_forget = {id}});
    must_run(g, "BLOB_FORGET");
}

uint8_t *guest_arena(struct guest *g)
{
    return g->blobs[1].map;
}

void guest_alloc(struct guest *g, uint32_t buffer, uint64_t size)
{
    struct apir_msg m = {
        .code = APIR_MSG_BUFFER_ALLOC,
        .u.buffer_alloc = {.buffer = buffer, .size = size, .reply = guest_reply(g)}};
    guest_put(g, &m);
    must_answer_ok(g, m.u.buffer_alloc.reply, "BUFFER_ALLOC");
}

void guest_free(struct guest *g, uint32_t buffer)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_BUFFER_FREE, .u.buffer_free = {buffer}});
}

void guest_set(struct guest *g, uint32_t buffer, uint64_t offset, const void *data, size_t size)
{
    must_run(g, "before SET"); /* the arena may be in use */
    memcpy(guest_arena(g), data, size);
    guest_put(g, &(struct apir_msg){
                     .code = APIR_MSG_SET,
                     .u.set = {.buffer = buffer, .offset = offset, .size = size, .blob = 1}});
    must_run(g, "SET");
}

void guest_get(struct guest *g, uint32_t buffer, uint64_t offset, void *data, size_t size)
{
    must_run(g, "before GET");
    memset(guest_arena(g), 0x77, size);
    guest_put(
        g, &(struct apir_msg){
               .code = APIR_MSG_GET,
               .u.get = {
                   .stream = STREAM, .buffer = buffer, .offset = offset, .size = size, .blob = 1}});
    must_run(g, "GET");
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

void guest_remember(struct guest *g)
{
    for (uint32_t b = 1; b <= BUFFERS; b++) {
        if (!g->before[b])
            g->before[b] = malloc(MEMORY);
        WANT(g->before[b]);
        guest_get(g, b, 0, g->before[b], MEMORY);
    }
}

void guest_unchanged(struct guest *g)
{
    static uint8_t now[MEMORY];
    for (uint32_t b = 1; b <= BUFFERS; b++) {
        guest_get(g, b, 0, now, MEMORY);
        for (uint32_t i = 0; i < MEMORY; i++) {
            if (now[i] != g->before[b][i])
                not_stopped("byte %u of buffer %u has changed", i, b);
        }
    }
}

/* ---- a context --------------------------------------------------------------------------- */

void guest_attach(struct guest *g)
{
    int rc =
        g->transport.blob_create(&g->transport, APIR_RING_BLOB_ID, APIR_RING_SIZE, &g->ring_blob);
    if (rc)
        not_stopped("no ring: %s", strerror(-rc));
    rc = apir_ring_guest_init(&g->ring, g->ring_blob.map, APIR_RING_SIZE);
    if (rc)
        not_stopped("this ring is not ours: %s", strerror(-rc));
}

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

void guest_greet(struct guest *g)
{
    struct apir_msg m = {.code = APIR_MSG_HELLO,
                         .u.hello = {.magic = APIR_HELLO_MAGIC,
                                     .major = APIR_PROTOCOL_MAJOR,
                                     .reply = guest_reply(g)}};
    guest_put(g, &m);
    must_answer_ok(g, m.u.hello.reply, "HELLO");
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
    struct apir_msg m = {.code = APIR_MSG_STREAM_OPEN,
                         .u.stream_open = {.stream = STREAM, .reply = guest_reply(g)}};
    guest_put(g, &m);
    must_answer_ok(g, m.u.stream_open.reply, "STREAM_OPEN");
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

void guest_close(struct guest *g)
{
    for (uint32_t i = 1; i < APIR_BLOBS_MAX; i++) {
        if (g->blobs[i].map)
            munmap(g->blobs[i].map, g->blobs[i].size);
    }
    if (g->ring_blob.map)
        munmap(g->ring_blob.map, g->ring_blob.size);
    transport_close(&g->transport);
    for (uint32_t b = 1; b <= BUFFERS; b++)
        free(g->before[b]);
    *g = (struct guest){.transport = {.fd = -1}};
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

void expect_alive(struct guest *g)
{
    struct apir_msg m = {.code = APIR_MSG_DEVICE_MEMORY,
                         .u.device_memory = {.reply = guest_reply(g)}};
    guest_put(g, &m);
    must_answer_ok(g, m.u.device_memory.reply, "after the attack, DEVICE_MEMORY");
}

void expect_fatal(struct guest *g, const char *reason)
{
    bool alive = guest_run(g);
    if (alive)
        not_stopped("accepted, instead of: %s", reason);
    if (guest_state(g) != APIR_STATE_FATAL)
        not_stopped("the context is lost: %s", guest_reason(g));
    if (!strstr(guest_reason(g), reason))
        not_stopped("the reason is: %s, instead of: %s", guest_reason(g), reason);
    refused("%s", guest_reason(g));
}

void message_fatal_changed(const struct apir_msg *m, size_t at, const void *bytes, size_t size,
                           const char *reason)
{
    struct guest g;
    guest_open(&g);
    guest_put_changed(&g, m, at, bytes, size);
    expect_fatal(&g, reason);
    guest_close(&g);
}

void message_fatal(const struct apir_msg *m, const char *reason)
{
    message_fatal_changed(m, 0, NULL, 0, reason);
}
