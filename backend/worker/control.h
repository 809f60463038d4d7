/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: shared memory that the server hands us and takes back, and the limits that it
 * keeps the books of (backend/server/limits/account.h): we ask before we allocate.
 */
#pragma once

#include "backend/worker/worker.h"

/*
 * Handles everything that waits on the control socket. Returns 0, -EPIPE where
 * the server is gone, or another -errno.
 */
int worker_control_drain(struct worker *w);
/* The same, once something has come. */
int worker_control_wait(struct worker *w);

/*
 * `size` bytes of the device; 0: only to be counted among its users. worker_reserve() before they
 * are taken, then worker_taken(), or worker_unreserve() where they could not be had.
 *
 * A server with limits is asked before. One without any only writes down what its contexts have,
 * for other servers' limits: it is told afterwards, so that what no driver gives is in nobody's
 * way. Both wait for the answer, and return APIR_OK, or another status with why[APIR_WHY_SIZE] set.
 * Messages about blobs are handled meanwhile.
 */
enum apir_status worker_reserve(struct worker *w, uint32_t device, uint64_t size, char *why);
enum apir_status worker_taken(struct worker *w, uint32_t device, uint64_t size, char *why);
void worker_unreserve(struct worker *w, uint32_t device, uint64_t size);
/* What was taken. */
void worker_release(struct worker *w, uint32_t device, uint64_t size);

/* Lowers both to what the limits leave. */
void worker_room(struct worker *w, uint32_t device, uint64_t *io_free, uint64_t *io_total);

/* Which of the turns is the device's (turn.h): *ret_number, APIR_TURNS_MAX: none. Waits for the
 * answer. And: what the status page says of them has changed. Both return 0 or -errno: the server
 * is gone. */
int worker_control_turn(struct worker *w, uint32_t device, uint64_t *ret_number);
int worker_control_moved(struct worker *w, uint32_t device);

/*
 * Of a worker that tries the devices before it has a context. The server knows which one is at
 * fault for whatever comes, and reads what is printed from here on as the reason; and that all of
 * them compute. Both return 0 or -errno: the server is gone.
 */
int worker_control_try(struct worker *w, const char *device);
int worker_control_tried(struct worker *w, uint32_t devices);
