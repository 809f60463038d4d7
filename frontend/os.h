/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The little of an operating system that the plug-in needs, on raw system calls:
 * it is linked against no C library, so that one file loads on glibc old and new
 * and on musl, and starts no thread and registers no handler in its host process.
 */
#ifndef APIR_FRONTEND_OS_H
#define APIR_FRONTEND_OS_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "protocol/atomic.h"

static inline uint64_t os_now_ns(void)
{
    struct timespec ts = { 0, 0 };
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void os_sleep_ns(uint64_t ns)
{
    struct timespec ts = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    nanosleep(&ts, NULL);
}

static inline void os_yield(void)
{
    syscall(SYS_sched_yield);
}

/* Waits until *word is no longer `seen`, a wake-up, or the time-out. */
static inline void os_futex_wait(uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
    struct timespec ts = { (time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u) };
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &ts, NULL, 0);
}

/* 0 free, 1 held, 2 held with waiters. Not recursive. */
struct os_lock {
    uint32_t word;
};

static inline void os_lock_acquire(struct os_lock *l)
{
    uint32_t seen = 0;
    if (__atomic_compare_exchange_n(&l->word, &seen, 1u, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(&l->word, 2u, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2u, NULL, NULL, 0);
}

static inline void os_lock_release(struct os_lock *l)
{
    if (__atomic_exchange_n(&l->word, 0u, __ATOMIC_RELEASE) == 2)
        syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
