/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of what the other side reads next, or has just written, on another core.
 *
 * A line that one core has written and another wants costs the reader a trip into the
 * writer's cache, and the writer another to take it back: with 128 KiB of logits that is
 * most of a token's way. Written past the caches and read as several streams, so that more
 * lines are under way at once, the same takes half the time where the two cores share no
 * cache (AMD Zen 4: 9 us instead of 17 to 22). `floor:` of `make bench-overhead` shows both.
 */
#ifndef APIR_PEER_COPY_H
#define APIR_PEER_COPY_H

#include <stddef.h>

/* dst is in shared memory; whoever sees a release store made after this sees it all. */
void apir_copy_to_peer(void *dst, const void *src, size_t size);

/* src is in shared memory. */
void apir_copy_from_peer(void *dst, const void *src, size_t size);

#endif
