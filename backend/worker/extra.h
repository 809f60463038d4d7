/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of a device's extra types: weights in layouts that only the host's kernels know.
 *
 * In such a buffer lies what the host's own conversion of whole tensors has written there, and
 * nothing else: no message reads or writes single bytes, and a graph may name exactly the tensors
 * that were converted, for the ops that have kernels for them. So whatever a layout holds, sizes
 * and offsets included, is the host's own word.
 */
#pragma once

#include "backend/worker/worker.h"

/* Why a context becomes FATAL. */
extern const char worker_bad_extra[];

/* What a new buffer of the extra type begins with; NULL: no memory. */
struct worker_extra *worker_extra_new(uint32_t type);
/* Forgets all tensors of the buffer. */
void worker_extra_clear(struct worker *w, struct worker_buffer *b);
/* Frees b->extra. */
void worker_extra_free(struct worker *w, struct worker_buffer *b);

/* The next `size` bytes of the tensor that is coming; with the last one it is converted. The caller
 * has waited for what may use the buffer. */
const char *worker_extra_put(struct worker *w, struct worker_buffer *b, uint64_t offset,
                             const void *data, uint64_t size);

/* Whether t, at this offset of the buffer, is a tensor there. */
bool worker_extra_has(const struct worker *w, const struct worker_buffer *b,
                      const struct apir_tensor *t, uint64_t offset);
