/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "protocol/atomic.h"

#define REPLIES_FIRST 4096u /* below lie the streams' places */
#define REPLIES       64u

void (*guest_on_failure)(const char *text);

void guest_fail(const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (guest_on_failure)
        guest_on_failure(text);
    else
        fail_msg("%s", text);
    abort();
}

/* ---- the ring ------------------------------------------------------------------------- */

uint32_t guest_state(const struct guest *g)
{
    return apir_load_acquire32(&g->ring.header->state);
}

const char *guest_reason(const struct guest *g)
{
    return g->ring.header->reason;
}

void guest_flush(struct guest *g)
{
    const struct apir_doorbell bell = {.magic = APIR_DOORBELL_MAGIC, .op = APIR_DOORBELL_KICK};
    if (apir_ring_guest_publish(&g->ring) && g->transport.doorbell(&g->transport, &bell))
        guest_fail("nobody takes a doorbell");
}

bool guest_run(struct guest *g)
{
    guest_flush(g);
    const int64_t end = now_ms() + WAIT_MS;
    while (apir_load_acquire64(&g->ring.header->head) != g->ring.tail) {
        const uint32_t state = guest_state(g);
        if (state == APIR_STATE_FATAL || state == APIR_STATE_LOST)
            return false;
        if (now_ms() > end)
            guest_fail("the worker hangs");
        nap_us(100);
    }
    return true;
}

void guest_must_run(struct guest *g, const char *what)
{
    if (!guest_run(g))
        guest_fail("%s: the context has ended (state %u): %s", what, guest_state(g),
                   guest_reason(g));
}

void guest_put_bytes(struct guest *g, const void *bytes, size_t size)
{
    while (!apir_ring_guest_has_room(&g->ring, size))
        guest_must_run(g, "more messages than the ring holds");
    apir_ring_guest_put(&g->ring, bytes, size);
}

void guest_put_changed(struct guest *g, const struct apir_msg *msg, size_t at, const void *bytes,
                       size_t size)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    const int64_t n = apir_msg_encode(msg, buf, sizeof(buf));
    if (n <= 0 || sizeof(struct apir_msg_header) + at + size > (size_t)n)
        guest_fail("a message that cannot be encoded");
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
    const uint32_t at = REPLIES_FIRST + g->next_reply++ % REPLIES * APIR_REPLY_SIZE;
    memset((uint8_t *)g->ring_blob.map + APIR_RING_HEADER_SIZE + at, 0xff, APIR_REPLY_SIZE);
    return at;
}

const void *guest_reply_at(const struct guest *g, uint32_t offset)
{
    return (const uint8_t *)g->ring_blob.map + APIR_RING_HEADER_SIZE + offset;
}

const void *guest_answer(struct guest *g, const char *what, uint32_t reply)
{
    guest_must_run(g, what);
    return guest_reply_at(g, reply);
}

const void *guest_answer_ok(struct guest *g, const char *what, uint32_t reply)
{
    /* Every answer begins with its status. */
    const struct apir_reply_status *r = guest_answer(g, what, reply);
    if (r->status != APIR_OK)
        guest_fail("%s: status %u", what, r->status);
    return r;
}

void expect_alive(struct guest *g)
{
    const struct apir_msg m = {.code = APIR_MSG_DEVICE_MEMORY,
                               .u.device_memory = {.reply = guest_reply(g)}};
    guest_put(g, &m);
    guest_answer_ok(g, "asked whether it is alive", m.u.device_memory.reply);
}

void expect_fatal(struct guest *g, const char *reason)
{
    if (guest_run(g))
        guest_fail("accepted, instead of: %s", reason);
    if (guest_state(g) != APIR_STATE_FATAL)
        guest_fail("the context is lost: %s", guest_reason(g));
    if (!strstr(guest_reason(g), reason))
        guest_fail("the reason is: %s, instead of: %s", guest_reason(g), reason);
}

/* ---- a context ------------------------------------------------------------------------ */

void guest_attach(struct guest *g)
{
    int rc =
        g->transport.blob_create(&g->transport, APIR_RING_BLOB_ID, APIR_RING_SIZE, &g->ring_blob);
    if (rc)
        guest_fail("no ring: %s", strerror(-rc));
    rc = apir_ring_guest_init(&g->ring, g->ring_blob.map, APIR_RING_SIZE);
    if (rc)
        guest_fail("this ring is not ours: %s", strerror(-rc));
}

void guest_greet(struct guest *g)
{
    const struct apir_msg m = {.code = APIR_MSG_HELLO,
                               .u.hello = {.magic = APIR_HELLO_MAGIC,
                                           .major = APIR_PROTOCOL_MAJOR,
                                           .reply = guest_reply(g)}};
    guest_put(g, &m);
    const struct apir_reply_hello *r = guest_answer_ok(g, "HELLO", m.u.hello.reply);
    if (r->n_devices < 1)
        guest_fail("a worker without a device");
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
    *g = (struct guest){.transport = {.fd = -1}};
}

void guest_blob(struct guest *g, uint32_t id, uint64_t size)
{
    const int err = g->transport.blob_create(&g->transport, id, size, &g->blobs[id]);
    if (err)
        guest_fail("no blob of %llu bytes: %s", (unsigned long long)size, strerror(-err));
}

void guest_blob_end(struct guest *g, uint32_t id)
{
    g->transport.blob_destroy(&g->transport, &g->blobs[id]);
    g->blobs[id] = (struct transport_blob){0};
}

uint8_t *guest_bytes(const struct guest *g, uint32_t id)
{
    return g->blobs[id].map;
}

uint8_t *guest_arena(const struct guest *g)
{
    return guest_bytes(g, 1);
}

/* ---- messages ------------------------------------------------------------------------- */

uint32_t put_register(struct guest *g, uint32_t blob, uint32_t device)
{
    const struct apir_msg m = {.code = APIR_MSG_BLOB_REGISTER,
                               .u.blob_register = {blob, device, guest_reply(g)}};
    guest_put(g, &m);
    return m.u.blob_register.reply;
}

bool blob_register(struct guest *g, uint32_t blob, uint32_t device)
{
    const struct apir_reply_blob *r =
        guest_answer_ok(g, "BLOB_REGISTER", put_register(g, blob, device));
    return r->flags & APIR_BLOB_DIRECT;
}

void put_forget(struct guest *g, uint32_t blob)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_BLOB_FORGET, .u.blob_forget = {blob}});
}

void guest_alloc_on(struct guest *g, uint32_t device, uint32_t buffer, uint64_t size)
{
    const struct apir_msg m = {
        .code = APIR_MSG_BUFFER_ALLOC,
        .u.buffer_alloc = {
            .device = device, .buffer = buffer, .size = size, .reply = guest_reply(g)}};
    guest_put(g, &m);
    guest_answer_ok(g, "BUFFER_ALLOC", m.u.buffer_alloc.reply);
}

void guest_alloc(struct guest *g, uint32_t buffer, uint64_t size)
{
    guest_alloc_on(g, 0, buffer, size);
}

void put_free(struct guest *g, uint32_t buffer)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_BUFFER_FREE, .u.buffer_free = {buffer}});
}

void stream_new(struct guest *g, uint32_t id, uint32_t device)
{
    const struct apir_msg m = {.code = APIR_MSG_STREAM_OPEN,
                               .u.stream_open = {.stream = id,
                                                 .device = device,
                                                 .status = (id - 1) * APIR_REPLY_ALIGN,
                                                 .reply = guest_reply(g)}};
    guest_put(g, &m);
    guest_answer_ok(g, "STREAM_OPEN", m.u.stream_open.reply);
}

void put_stream(struct guest *g, enum apir_msg_code code, uint32_t id)
{
    struct apir_msg m = {.code = code};
    m.u.stream_sync.stream = id; /* CLOSE has the same single field */
    guest_put(g, &m);
}

void put_transfer(struct guest *g, enum apir_msg_code code, uint32_t stream, uint32_t buffer,
                  uint64_t offset, uint64_t size, uint32_t blob, uint64_t blob_offset)
{
    struct apir_msg m = {.code = code};
    m.u.set = (struct apir_msg_set){.stream = stream, /* GET has the same fields */
                                    .buffer = buffer,
                                    .offset = offset,
                                    .size = size,
                                    .blob = blob,
                                    .blob_offset = blob_offset};
    guest_put(g, &m);
}

void put_define(struct guest *g, uint32_t slot, uint64_t offset, size_t size)
{
    guest_put(
        g,
        &(struct apir_msg){
            .code = APIR_MSG_GRAPH_DEF,
            .u.graph_def = {
                .slot = slot, .stream = STREAM, .blob = 1, .blob_offset = offset, .size = size}});
}

void put_exec(struct guest *g, uint32_t slot)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_GRAPH_EXEC,
                                    .u.graph_exec = {.slot = slot, .stream = STREAM}});
}
