/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the context's shared memory: known to a device, or given back. */
#pragma once

#include "backend/worker/worker.h"

/* Gives back what the server has taken away (worker_control_drain). Waits for all streams where a
 * device may be copying from it. */
void worker_blobs_reap(struct worker *w);

/*
 * The arena as this device sees it, for copies that the device makes itself. NULL: it cannot, or
 * there is no arena. The first call shows the arena to the device. The buffer is ours and is freed
 * with the arena at any later message: copies must have ended before the caller returns.
 */
struct host_buffer *worker_arena_seen(struct worker *w, uint32_t device);
