/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built apir-worker below the built server, with the test as a guest that writes to the ring
 * what no plug-in would. Whatever comes: the context goes on, or becomes FATAL with a reason. A
 * worker that dies by a signal or a sanitizer makes it LOST, and fails the test. So does whatever
 * does not work here, and every wait has a time-out.
 */
#ifndef APIR_TEST_WORKER_GUEST_H
#define APIR_TEST_WORKER_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/graph.h"
#include "protocol/messages.h"
#include "protocol/ring.h"
#include "tests/lib/server_fixture.h"

#define SMALL  65536u
#define ARENA  (1u << 20)
#define STREAM 1u /* the one that graphs run on; stream_new() is the test's */

struct guest {
    struct fixture f;
    struct fixture_context c;
    struct apir_ring_guest ring;
    uint8_t *ring_map;
    uint8_t *blobs[APIR_BLOBS_MAX]; /* mapped; 1: the arena */
    uint64_t sizes[APIR_BLOBS_MAX];
    uint32_t resources[APIR_BLOBS_MAX];
    uint32_t next_resource;
    uint32_t next_reply;
};

/*
 * main() of a program of such tests. `run` runs all of them as a group of that name and returns how
 * many failed: for the CPU; and where Vulkan's loader knows lavapipe, for that, and for both. Or
 * once, for the devices that argv[1] lists as the configuration does: '"Vulkan0", "CPU"'.
 */
int guest_main(int argc, char **argv, const char *name, int (*run)(const char *group));
/* What it is run for. */
bool guest_is_cpu(void);
bool guest_has_two_devices(void);

int64_t guest_now_ms(void);

/* ---- the guest ---------------------------------------------------------------------- */

/* A server and its worker, which has answered HELLO; an arena. */
void guest_open(struct guest *g);
/* Ends all of it, and unmaps what is left of the blobs. */
void guest_close(struct guest *g);

/* The server gives it a blob, which is mapped; and takes it away. */
void blob_new(struct guest *g, uint32_t id, uint64_t size);
void blob_destroy(struct guest *g, uint32_t id);

uint32_t guest_state(const struct guest *g);

/* One message; waits for room. */
void guest_put(struct guest *g, const struct apir_msg *msg);
/* One with a 32-bit field (counted behind the header) set to what the encoder would refuse. */
void guest_put_raw(struct guest *g, const struct apir_msg *msg, size_t field, uint32_t value);
/* Shows to the worker what has been put, and wakes it. */
void guest_flush(struct guest *g);
/* Until all of it is done. False: the context has ended before. */
bool guest_run(struct guest *g);

/* A place for an answer, filled with 0xff, and how to look at it. */
uint32_t guest_reply(struct guest *g);
const void *guest_reply_at(const struct guest *g, uint32_t offset);

/* Everything so far was refused politely or done, and the worker is in its right mind. */
void expect_fine(struct guest *g);
/* What was put ends the context for this reason (a part of it). */
void expect_fatal(struct guest *g, const char *reason);
/* What the buffer holds there is `value`, as read through the arena. */
void expect_bytes(struct guest *g, uint32_t buffer, uint64_t offset, uint64_t size, uint8_t value);

/* ---- messages: put_* only puts one (and returns where its answer will be), the others wait */

/* Returns whether the device takes the blob itself. */
bool blob_register(struct guest *g, uint32_t blob, uint32_t device);
uint32_t put_register(struct guest *g, uint32_t blob, uint32_t device);
void put_forget(struct guest *g, uint32_t blob);

/* On device 0. */
void buffer_new(struct guest *g, uint32_t id, uint64_t size);
void buffer_new_on(struct guest *g, uint32_t device, uint32_t id, uint64_t size);
/* Returns the worker's status. */
uint32_t buffer_share(struct guest *g, uint32_t buffer, uint32_t blob);
uint32_t put_share(struct guest *g, uint32_t buffer, uint32_t blob);
void put_buffer_free(struct guest *g, uint32_t id);

void stream_new(struct guest *g, uint32_t id, uint32_t device);
/* SYNC or CLOSE. */
void put_stream(struct guest *g, enum apir_msg_code code, uint32_t id);
/* EVENT_*; the stream is of RECORD and WAIT only. */
void put_event(struct guest *g, enum apir_msg_code code, uint32_t event, uint32_t stream);
/* SET or GET; stream 0: at once. */
void put_transfer(struct guest *g, enum apir_msg_code code, uint32_t stream, uint32_t buffer,
                  uint64_t offset, uint64_t size, uint32_t blob, uint64_t blob_offset);

/* ---- graphs ------------------------------------------------------------------------- */

enum { LOOKUP_WIDTH = 4, LOOKUP_ROWS = 64 };

/* Contiguous, in the first buffer of its graph; size: of one element. */
struct apir_tensor tensor_at(uint8_t bits, uint16_t op, uint8_t type, uint64_t offset, int64_t ne0,
                             int64_t ne1, uint64_t size);

/*
 * Defines a graph: rows of a table at offset 0 of the buffer, picked by `picks` row numbers at
 * ids_at, to the results' buffer; and the square of the floats beside_at, which may lie on the row
 * numbers.
 */
void put_lookup(struct guest *g, uint32_t slot, uint32_t buffer, uint32_t results, uint64_t ids_at,
                int64_t picks, uint64_t beside_at);
void put_exec(struct guest *g, uint32_t slot);
void put_drop(struct guest *g, uint32_t slot);

/* Row i of the table holds i; the row numbers count down from LOOKUP_ROWS - 1. */
void lookup_fill(uint8_t *memory, uint64_t ids_at, int64_t picks);
/* The results are what these row numbers pick. */
void expect_lookup(struct guest *g, uint32_t results, int64_t picks);

#endif
