/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a guest names by number: found, or refused with a reason. Every handler that takes such a
 * number from a message asks here first.
 */
#pragma once

#include "backend/worker/worker.h"

/* Why a context becomes FATAL. */
extern const char worker_bad_reply[], worker_bad_device[], worker_bad_buffer[], worker_bad_range[],
    worker_bad_region[], worker_bad_stream[];

#define WORKER_BUFFER_INDEX(id) ((id) & (APIR_BUFFERS_MAX - 1))

/* The buffer with this id, or NULL. */
struct worker_buffer *worker_buffer_find(struct worker *w, uint32_t id);

/* The blob with this id (not the ring), mapped, or NULL. */
struct worker_blob *worker_blob_find(struct worker *w, uint32_t id);

/*
 * `size` bytes at `offset` of `blob` (not the ring), or NULL where that is not
 * wholly inside one. The guest may write there at any time: copy before checking.
 */
void *worker_region(struct worker *w, uint32_t blob, uint64_t offset, uint64_t size);

/*
 * A private copy of a payload in *ret_copy, to be freed; NULL there: no memory. Returns NULL, or
 * the reason for FATAL.
 */
const char *worker_payload_copy(struct worker *w, uint32_t blob, uint64_t offset, uint64_t size,
                                void **ret_copy);

/* A reply place (APIR_REPLY_SIZE bytes), or NULL. */
void *worker_reply(struct worker *w, uint32_t offset);

/* Puts the answer to a message there, which has been checked. Returns NULL, as a handler does. */
const char *worker_answer(struct worker *w, uint32_t offset, const void *answer, size_t size);
