/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plug-in of this very process sends, read from the shared ring.
 *
 * The plug-in shows nobody its mapping of the ring, and nothing is added to it
 * for the bench's sake. But it is this process's memory: /proc/self/maps lists
 * it, the ring begins with APIR_RING_MAGIC, `tail` in its header counts every
 * byte ever sent, and the last 512 KiB of messages are still there behind it.
 * So the messages of a token are decoded after the fact, with the protocol's own
 * decoder; the plug-in does nothing different from what it always does.
 */
#ifndef APIR_BENCH_TRAFFIC_H
#define APIR_BENCH_TRAFFIC_H

#include <stdint.h>
#include <stdio.h>

#include "protocol/shm.h"

#define TRAFFIC_CODES 64

struct traffic {
    const struct apir_ring_header *ring; /* mapped by the plug-in */
    uint64_t seen;                       /* tail up to which all is counted */
    /* sums since traffic_find */
    uint64_t ring_bytes; /* all of the command ring */
    uint64_t inputs;     /* bytes of tensor data sent, by either road */
    uint64_t outputs;    /* bytes of tensor data fetched */
    uint64_t beyond;     /* what neither of these explains */
    uint64_t count[TRAFFIC_CODES], bytes[TRAFFIC_CODES]; /* by message code */
};

/* Finds the ring of this process, and counts from here. The caller's backend is synchronized. Where
 * there is no ring, or it does not hold what this protocol sends, the program ends (apir_bench.h).
 */
void traffic_find(struct traffic *t);

/* Counts what was sent since; at most 512 KiB, and nothing is under way. */
void traffic_count(struct traffic *t);

/* One line per message code: how many and how large, per token. */
void traffic_print(const struct traffic *t, uint64_t tokens, FILE *to);

#endif
