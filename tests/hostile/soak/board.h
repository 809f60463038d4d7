/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the soak's clients and its driver share: a page of histograms, mapped by all of them. A
 * client counts how long each of its requests took, in the phase that the driver says it is.
 */
#ifndef APIR_SOAK_BOARD_H
#define APIR_SOAK_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#define BOARD_ENV "SOAK_BOARD" /* the file's path */
/* Of a client of the classes' soak: its place among all, and when it was started, as now_us counts.
 */
#define BOARD_PLACE_ENV "SOAK_PLACE"
#define BOARD_BEGAN_ENV "SOAK_BEGAN"

/* A client's exit status: the host has refused it, and its stderr has why. */
#define SOAK_REFUSED 3

enum {
    BOARD_PHASES = 256,
    BOARD_NO_PHASE = BOARD_PHASES, /* in between: nothing is counted */
    BOARD_BUCKETS = 400,
    BOARD_PLACES = 64,
};

/* A bucket ends 5% above the one before, so that percentiles are right within that. */
#define BOARD_STEP 1.05

struct board {
    _Atomic uint32_t phase;
    _Atomic uint64_t requests[BOARD_PHASES][BOARD_BUCKETS]; /* by time taken */
    _Atomic uint64_t first[BOARD_BUCKETS];                  /* from a start to a right result */
    _Atomic uint64_t held[BOARD_PLACES]; /* of the device by each client, at least: bytes */
};

/* The bucket of a duration, and where a bucket ends, in microseconds. */
static inline double board_bucket_end(int bucket)
{
    double end = 1;
    for (int i = 0; i < bucket; i++)
        end *= BOARD_STEP;
    return end;
}

static inline int board_bucket(double us)
{
    int bucket = 0;
    for (double end = 1; end < us && bucket < BOARD_BUCKETS - 1; end *= BOARD_STEP)
        bucket++;
    return bucket;
}

#endif
