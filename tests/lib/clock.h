/* SPDX-License-Identifier: Apache-2.0 */
/* The time that only goes forward, and short waits between two looks at what another process does.
 */
#ifndef APIR_TEST_CLOCK_H
#define APIR_TEST_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline int64_t now_us(void)
{
    return (int64_t)(now_ns() / 1000);
}

static inline int64_t now_ms(void)
{
    return (int64_t)(now_ns() / 1000000);
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
