/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/futex.h"

#include <os/clock.h>
#include <stddef.h>

#define NS_PER_S 1000000000ull
#define SHARED   1u /* between processes */

/* Of macOS 14.4 and later. From <os/os_sync_wait_on_address.h>, which cross compilers lack. */
int os_sync_wait_on_address_with_timeout(void *word, uint64_t seen, size_t size, uint32_t flags,
                                         os_clockid_t clock, uint64_t timeout_ns);
int os_sync_wake_by_address_any(void *word, size_t size, uint32_t flags);
int os_sync_wake_by_address_all(void *word, size_t size, uint32_t flags);

/* One, or all there are: there is no call for a number of them. */
void apir_futex_wake(uint32_t *word, int most)
{
    if (most == 1)
        (void)os_sync_wake_by_address_any(word, sizeof(*word), SHARED);
    else
        (void)os_sync_wake_by_address_all(word, sizeof(*word), SHARED);
}

void apir_futex_wait(const uint32_t *word, uint32_t seen, const struct timespec *limit)
{
    /* It does not write through the address; the interface lacks the const. */
    (void)os_sync_wait_on_address_with_timeout(
        (void *)(uintptr_t)word, seen, sizeof(*word), SHARED, OS_CLOCK_MACH_ABSOLUTE_TIME,
        (uint64_t)limit->tv_sec * NS_PER_S + (uint64_t)limit->tv_nsec);
}
