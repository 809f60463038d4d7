/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APIR_COMMON_CLOCK_H
#define APIR_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in milliseconds: for deadlines. */
static inline uint64_t apir_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

#endif
