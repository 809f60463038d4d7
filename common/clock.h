/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t apir_clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Of CLOCK_MONOTONIC, as all deadlines are. */
static inline uint64_t apir_now_ns(void)
{
    return apir_clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t apir_now_ms(void)
{
    return apir_now_ns() / 1000000;
}
