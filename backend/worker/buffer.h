/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of a device, some of which lie in shared memory while they are filled. */
#ifndef APIR_WORKER_BUFFER_H
#define APIR_WORKER_BUFFER_H

#include "backend/worker/worker.h"

const char *worker_buffer_share(struct worker *w, const struct apir_msg_buffer_share *m);

/* A graph names it from now on. */
void worker_buffer_use(struct worker_buffer *b);

/* Frees the buffer's memory and its entry. */
void worker_buffer_drop(struct worker *w, struct worker_buffer *b);

/*
 * Takes [data, data + size) of a shared buffer out of the guest's reach, with its
 * present contents: what is about to be checked must not change afterwards. The
 * address stays. 0 or -errno; nothing to do for a buffer that is not shared.
 */
int worker_buffer_privatize(struct worker_buffer *b, const void *data, uint64_t size);

#endif
