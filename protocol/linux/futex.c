/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/futex.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not FUTEX_PRIVATE: they are on the same page, and not in the same process. */

void apir_futex_wake(uint32_t *word, int most)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
}

void apir_futex_wait(const uint32_t *word, uint32_t seen, const struct timespec *limit)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, limit, NULL, 0);
}
