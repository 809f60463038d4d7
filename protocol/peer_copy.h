/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of what the other side reads next, or has just written, on another core.
 *
 * A line that one core has written and another wants costs the reader a trip into the
 * writer's cache, and the writer another to take it back. Written past the caches, lines go
 * by way of memory. Which is faster depends on where the two cores are. On AMD Zen 4 the writer
 * of 128 KiB takes 3 us through caches and 7 past them where a line goes there and back in
 * 0.05 us, 12 and 5 where that takes 0.11 us, and 60 and 5 where it takes 0.5 us; on an Intel
 * Xeon of the 5th generation 10 and 20. The reader's times differ by less (4 us through and 7
 * past; 7 and 6). So the writer tries both now and then, and goes by its own time.
 *
 * The reader asks for lines some way ahead, also where the processor would not by itself: in
 * the next page. That takes 3 us off 10 to 13 past the caches.
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

/* What we copy out of shared memory while the other side still writes there. */
struct apir_copy {
    void *dst;
    const void *src; /* in shared memory */
    size_t at;       /* bytes copied so far; 0 at first */
    size_t asked;    /* bytes that the processor has been asked for; 0 at first */
};

/*
 * Copies more of it: some KiB, then look how much is there by now. `there`: bytes from src's
 * beginning on that may be read, at least those copied so far.
 */
void apir_copy_ahead(struct apir_copy *c, size_t there);

/* Much at once, from or to shared memory. */
void apir_copy_bulk(void *dst, const void *src, size_t size);

#endif
