/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that only goes forward, short waits between two looks at what another process does, and
 * how long a test is patient (tests/lib/patience.bash has the same for scripts).
 *
 * The machine may have other work, which takes the cores for as long as it likes. So nothing here
 * is judged by how soon it comes: a limit only ends what hangs, and what must be quick is judged by
 * processor time.
 */
#ifndef APIR_TEST_CLOCK_H
#define APIR_TEST_CLOCK_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline int64_t now_us(void)
{
    return (int64_t)(now_ns() / 1000);
}

static inline int64_t now_ms(void)
{
    return (int64_t)(now_ns() / 1000000);
}

/* The processor time of this process, all of its threads together. */
static inline int64_t cpu_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1000000);
}

/* A limit, of which so much would be plenty on a machine of one's own. APIR_PATIENCE says how many
 * times that it is. */
static inline int patient_ms(int ms)
{
    const char *times = getenv("APIR_PATIENCE");
    const int n = times ? atoi(times) : 0;
    return ms * (n > 0 ? n : 10);
}

/* Ends this process, should it hang. */
static inline void alarm_patiently(int seconds)
{
    alarm((unsigned)(patient_ms(seconds * 1000) / 1000));
}

/* For less than a second. */
static inline void nap_us(long us)
{
    const struct timespec t = {.tv_nsec = us * 1000};
    nanosleep(&t, NULL);
}

/* Looks every millisecond until the condition holds, or so much time is over. */
#define WAIT_FOR(condition, limit_ms)                                                              \
    for (const int64_t end_ = now_ms() + (limit_ms); !(condition) && now_ms() < end_;)             \
    nap_us(1000)

#endif
