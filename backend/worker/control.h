/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: shared memory that the server hands us and takes back, and the limits that it
 * keeps the books of (backend/server/limits/account.h): we ask before we allocate.
 */
#ifndef APIR_WORKER_CONTROL_H
#define APIR_WORKER_CONTROL_H

#include "backend/worker/worker.h"

/*
 * Handles everything that waits on the control socket. Returns 0, -EPIPE where
 * the server is gone, or another -errno.
 */
int worker_control_drain(struct worker *w);
/* The same, once something has come. */
int worker_control_wait(struct worker *w);

/*
 * Asks the server for `size` bytes of the device; 0: only to be counted among its users. Before
 * anything else is asked, worker_granted() must be called for this one.
 *
 * Where the server has limits, this waits for the answer. A server without any refuses nothing for
 * being too much; it only writes down what we take, which other servers' limits count, and it may
 * do so while we take it. Both return APIR_OK, or another status with why[APIR_WHY_SIZE] set.
 * Messages about blobs are handled meanwhile.
 */
enum apir_status worker_reserve(struct worker *w, uint32_t device, uint64_t size, char *why);
enum apir_status worker_granted(struct worker *w, uint32_t device, char *why);
void worker_release(struct worker *w, uint32_t device, uint64_t size);

/* Lowers both to what the limits leave. */
void worker_room(struct worker *w, uint32_t device, uint64_t *io_free, uint64_t *io_total);

#endif
