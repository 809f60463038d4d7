/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest that writes to the ring what no plug-in would, over any transport. What does not work
 * here fails the test, and every wait has a time-out.
 */
#ifndef APIR_TEST_GUEST_H
#define APIR_TEST_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/link/transport.h"
#include "protocol/messages.h"
#include "protocol/ring.h"
#include "tests/lib/clock.h"
#include "tests/lib/server_fixture.h"

#define STREAM  1u /* the one that graphs run on; its status is at offset 0 of the reply area */
#define ARENA   (1u << 20)
#define WAIT_MS patient_ms(20000)

struct guest {
    struct fixture f; /* with its context: of a guest with a server of its own (worker_guest.h) */
    struct fixture_context c;
    struct transport transport;
    struct apir_ring_guest ring;
    struct transport_blob ring_blob;
    struct transport_blob blobs[APIR_BLOBS_MAX]; /* 1: the arena */
    uint32_t next_reply;
};

/* What a failure is in this program; it does not return. NULL: cmocka's. */
extern void (*guest_on_failure)(const char *text);
_Noreturn void guest_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The ring, over a transport that is open: no HELLO. */
void guest_attach(struct guest *g);
/* HELLO, and its answer. */
void guest_greet(struct guest *g);
/* Unmaps all of it and closes the transport; the host ends the context. */
void guest_close(struct guest *g);

/* The host gives it a blob, which is mapped; and takes it away. */
void guest_blob(struct guest *g, uint32_t id, uint64_t size);
void guest_blob_end(struct guest *g, uint32_t id);
/* A blob's memory; NULL: there is no such blob. */
uint8_t *guest_bytes(const struct guest *g, uint32_t id);
/* That of blob 1. */
uint8_t *guest_arena(const struct guest *g);

uint32_t guest_state(const struct guest *g);
const char *guest_reason(const struct guest *g);

/* One message; waits for room. */
void guest_put(struct guest *g, const struct apir_msg *msg);
/* Any bytes, a multiple of 8: what the encoder would refuse. */
void guest_put_bytes(struct guest *g, const void *bytes, size_t size);
/* The encoded message with the bytes at `at` (counted behind its header) changed. */
void guest_put_changed(struct guest *g, const struct apir_msg *msg, size_t at, const void *bytes,
                       size_t size);
/* Shows to the worker what has been put, and wakes it if it sleeps. */
void guest_flush(struct guest *g);
/* Until all of it is done (true), or the context has ended. */
bool guest_run(struct guest *g);
/* The same, where the context must not end. */
void guest_must_run(struct guest *g, const char *what);

/* A place for an answer, filled with 0xff, and how to look at it. */
uint32_t guest_reply(struct guest *g);
const void *guest_reply_at(const struct guest *g, uint32_t offset);
/* The answer to what was put last; guest_answer_ok: its status must be APIR_OK. */
const void *guest_answer(struct guest *g, const char *what, uint32_t reply);
const void *guest_answer_ok(struct guest *g, const char *what, uint32_t reply);

/* The worker is in its right mind: it answers. All that came before was refused politely, or done.
 */
void expect_alive(struct guest *g);
/* What was put ends the context for this reason (a part of it). */
void expect_fatal(struct guest *g, const char *reason);

/* ---- messages: put_* only puts one (and returns where its answer will be), the others wait */

/* Returns whether the device takes the blob itself. */
bool blob_register(struct guest *g, uint32_t blob, uint32_t device);
uint32_t put_register(struct guest *g, uint32_t blob, uint32_t device);
void put_forget(struct guest *g, uint32_t blob);

/* On device 0. */
void guest_alloc(struct guest *g, uint32_t buffer, uint64_t size);
void guest_alloc_on(struct guest *g, uint32_t device, uint32_t buffer, uint64_t size);
void put_free(struct guest *g, uint32_t buffer);

void stream_new(struct guest *g, uint32_t id, uint32_t device);
/* SYNC or CLOSE. */
void put_stream(struct guest *g, enum apir_msg_code code, uint32_t id);
/* SET or GET; stream 0: at once. */
void put_transfer(struct guest *g, enum apir_msg_code code, uint32_t stream, uint32_t buffer,
                  uint64_t offset, uint64_t size, uint32_t blob, uint64_t blob_offset);

/* GRAPH_DEF of what lies at `offset` of the arena. */
void put_define(struct guest *g, uint32_t slot, uint64_t offset, size_t size);
void put_exec(struct guest *g, uint32_t slot);

#endif
