/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a word of memory that is shared: who waits and who wakes may be different processes.
 */
#pragma once

#include <stdint.h>
#include <time.h>

/* Wakes `most` of those who wait: how many there are is the other side's choice, and the call is as
 * long as they are many. */
void apir_futex_wake(uint32_t *word, int most);

/* Returns at once where the word is not `seen` any more. The word may be one that we can only read.
 */
void apir_futex_wait(const uint32_t *word, uint32_t seen, const struct timespec *limit);
