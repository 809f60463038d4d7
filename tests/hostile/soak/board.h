/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the soak's clients and its drivers share: a page that is mapped by all of them. A client
 * counts how long each of its requests took, in the phase that the driver says it is.
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

enum board_phase {
    BOARD_GOOD_ALONE,
    BOARD_BESIDE_BAD,
    BOARD_NO_PHASE, /* in between: nothing is counted … */
    BOARD_FIRST =
        BOARD_NO_PHASE, /* … and here, of any phase, a client's start to its first right result */
    BOARD_COUNTS,
};
enum { BOARD_BUCKETS = 400, BOARD_PLACES = 64 };

/* A bucket ends 5% above the one before, so that percentiles are right within that. */
#define BOARD_STEP 1.05

struct board {
    _Atomic uint32_t phase;
    _Atomic uint64_t requests[BOARD_COUNTS][BOARD_BUCKETS]; /* by time taken */
    _Atomic uint64_t held[BOARD_PLACES]; /* of the device by each client, at least: bytes */
};

/* The bucket of a duration in microseconds. */
static inline int board_bucket(double us)
{
    int bucket = 0;
    for (double end = 1; end < us && bucket < BOARD_BUCKETS - 1; end *= BOARD_STEP)
        bucket++;
    return bucket;
}

/* ---- board.c: the driver's end --------------------------------------------------------- */

/* Makes it in this folder, and the variable that leads a client to it. */
struct board *board_make(const char *folder, char setting[128]);
/* Within how many milliseconds this share of the phase's requests was answered. */
double board_share(const struct board *board, enum board_phase phase, double share);
/* What a client has said, to stderr. */
void board_print_log(const char *path);

#endif
