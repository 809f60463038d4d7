/* SPDX-License-Identifier: Apache-2.0 */
/* Room in the arena for what messages carry, and reads that come while the program goes on. */
#pragma once

#include "frontend/link/client.h"

/* Arena room for `size` bytes; waits for it. NULL: lost, or more than there is. */
struct client_block *client_block_locked(struct client *c, uint64_t size);
static inline void *client_block_data(struct client *c, const struct client_block *b)
{
    return c->arena + b->offset;
}

/* The same, where there is room at once; NULL: lost, or a wait is needed. */
struct client_block *client_block_try_locked(struct client *c, uint64_t size);

/*
 * Copies what a GET of `size` bytes brings into the held block to dst, while it arrives, and ends
 * the hold. If the host is lost, dst is filled as for client_fill_lost. May be called without the
 * lock.
 */
void client_block_read(struct client *c, struct client_block *b, void *dst, uint64_t size,
                       uint32_t type, uint64_t expect_ns);

/* Ends the hold on a block; may be called without the lock. */
void client_block_release(struct client_block *b);

/* enum apir_status of a graph of this stream that has failed; APIR_OK: none since it was cleared.
 * What is complete shows here what has become of the graphs before it. */
uint32_t client_stream_status(const struct client *c, uint32_t stream);
void client_stream_clear(struct client *c, uint32_t stream);

/* Queues a read into r.block (held, `until` set); the queue never overflows. */
void client_read_defer_locked(struct client *c, const struct client_read *r);
/* Where the deferred read of the stream that ends at `upto` begins to arrive; `upto` where that
 * cannot be told. Whoever waits for it first finishes it with the lock held for microseconds. */
uint64_t client_reads_begin_locked(const struct client *c, uint32_t stream, uint64_t upto);

/* Completes the deferred reads of a stream (0: all; CLIENT_SYNCHRONOUS: those of none) that end at
 * `upto` or before. */
void client_reads_finish_locked(struct client *c, uint32_t stream, uint64_t upto);

/* `size` bytes as a tensor of this type (enum apir_type) reads when its host is gone: NaN where the
 * type has it, else zero. */
void client_fill_lost(void *dst, size_t size, uint32_t type);
