/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The little of an operating system that the plug-in needs, on raw system calls:
 * it is linked against no C library, so that one file loads on glibc old and new
 * and on musl, and starts no thread and registers no handler in its host process.
 */
#pragma once

#include <limits.h>
#include <linux/futex.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "protocol/atomic.h"

static inline uint64_t os_now_ns(void)
{
    struct timespec ts = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void os_sleep_ns(uint64_t ns)
{
    struct timespec ts = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&ts, NULL);
}

/* Cores that this kernel runs on. */
static inline uint32_t os_cores(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

/* What name (in the folder dir) is, a link unfollowed. The C library's function of that name is
 * newer than those that the plug-in may use. 0 or -1. */
static inline int os_stat_link(int dir, const char *name, struct stat *st)
{
    return (int)syscall(SYS_newfstatat, dir, name, st, AT_SYMLINK_NOFOLLOW);
}

static inline void os_yield(void)
{
    syscall(SYS_sched_yield);
}

/* Waits until *word is no longer `seen`, a wake-up, or the time-out. */
static inline void os_futex_wait(uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
    struct timespec ts = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &ts, NULL, 0);
}

/* First come, first served: a thread that holds it for most of its time (a loader) must not
 * keep another one (that generates) out for long. Not recursive. */
struct os_lock {
    uint32_t next;    /* the next who comes gets this number */
    uint32_t serving; /* who has it */
};

static inline void os_lock_acquire(struct os_lock *l)
{
    uint32_t mine = __atomic_fetch_add(&l->next, 1u, __ATOMIC_SEQ_CST), seen;
    while ((seen = __atomic_load_n(&l->serving, __ATOMIC_SEQ_CST)) != mine)
        syscall(SYS_futex, &l->serving, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static inline void os_lock_release(struct os_lock *l)
{
    uint32_t now = __atomic_add_fetch(&l->serving, 1u, __ATOMIC_SEQ_CST);
    /* Who takes a number after this look sees `serving` as it is now. */
    if (__atomic_load_n(&l->next, __ATOMIC_SEQ_CST) != now)
        syscall(SYS_futex, &l->serving, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
