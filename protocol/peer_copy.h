/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of what the other side reads next, or has just written, on another core.
 *
 * A line that one core has written and another wants costs the reader a trip into the
 * writer's cache, and the writer another to take it back. Written past the caches, lines go
 * by way of memory. Which is faster depends on where the two cores are: with 128 KiB the
 * writer takes 14 us or more through caches and 4 past them where the cores share none (AMD
 * Zen 4, two chiplets), but 10 and 20 where they share one (Intel Xeon, 5th generation).
 * The reader's times differ by less (3 us through and 6 past; 10 and 12). So the writer tries
 * both now and then, and goes by its own time.
 *
 * Read as several streams, more lines are under way at once.
 */
#ifndef APIR_PEER_COPY_H
#define APIR_PEER_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a writer knows of the way to its reader; all zero at first. One thread's. */
struct apir_peer {
    bool past;         /* past the caches is the way */
    uint32_t steps;    /* copies so far */
    uint64_t least[2]; /* cycles per KiB in this trial: the present way, the other */
};

/*
 * Copies a step of a result (4 KiB and up are part of trials). dst is in shared memory; whoever
 * sees a release store made after this sees it all.
 */
void apir_copy_to_peer(struct apir_peer *peer, void *dst, const void *src, size_t size);

/*
 * Lines that we have read and the other side writes next: out of all caches, so that it need not
 * have them taken out of ours. Worth it where the way is past the caches, and nobody waits for us.
 * Nothing where the processor cannot.
 */
void apir_lines_give_back(const void *p, size_t size);

/* src is in shared memory. */
void apir_copy_from_peer(void *dst, const void *src, size_t size);

#endif
