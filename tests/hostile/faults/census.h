/* SPDX-License-Identifier: Apache-2.0 */
/* What a host holds, counted: nothing of a client that has ended stays. */
#ifndef APIR_FAULTS_CENSUS_H
#define APIR_FAULTS_CENSUS_H

#include <stdint.h>

#include "tests/lib/host.h"

enum census_item {
    CENSUS_VMM_FDS,
    CENSUS_VMM_THREADS,
    CENSUS_VMM_BLOBS, /* mappings and descriptors of shared memory */
    CENSUS_SERVER_FDS,
    CENSUS_SERVER_THREADS,
    CENSUS_SERVER_BLOBS,
    CENSUS_WORKERS,
    CENSUS_ZOMBIES,
    CENSUS_FILES, /* in its folders and in /dev/shm */
    CENSUS_COUNTED,
    /* In KiB, and so not the same twice. */
    CENSUS_VMM_RSS = CENSUS_COUNTED,
    CENSUS_SERVER_RSS,
    CENSUS_ITEMS,
};

struct census {
    long value[CENSUS_ITEMS];
};

const char *census_name(enum census_item item);
/* A process's line of /proc/PID/status that begins like that, or 0. */
long census_kib(pid_t pid, const char *what);
void census_take(const struct host *h, struct census *ret_census);
/* The same once that many workers live and nothing has changed for a while. */
void census_settle(const struct host *h, long workers, struct census *ret_census);
/*
 * Waits for at most limit_ms until no counted item is above `before`. Returns how many too many
 * there are in all, each named on stderr after `what`.
 */
long census_leaks(const struct host *h, const struct census *before, int64_t limit_ms,
                  const char *what);

#endif
