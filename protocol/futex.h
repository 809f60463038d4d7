/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping on a word of shared memory. Not FUTEX_PRIVATE: who waits and who wakes are different
 * processes, on the same page.
 */
#ifndef APIR_PROTOCOL_FUTEX_H
#define APIR_PROTOCOL_FUTEX_H

#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Wakes `most` of those who wait: how many there are is the other side's choice, and the call is as
 * long as they are many. */
static inline void apir_futex_wake(uint32_t *word, int most)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
}

/* Returns at once where the word is not `seen` any more. */
static inline void apir_futex_wait(uint32_t *word, uint32_t seen, const struct timespec *limit)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, limit, NULL, 0);
}

#endif
