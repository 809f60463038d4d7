/* SPDX-License-Identifier: Apache-2.0 */
/* How long the host is likely to take, in ns: client_wait sleeps or looks by it. */
#pragma once

#include <stdint.h>

/*
 * `known` is what something has lately taken, 0: nothing yet. Down at once, up slowly: what we
 * overslept must not count as work.
 */
static inline void expect_learn(uint64_t *known, uint64_t took)
{
    if (*known == 0 || took < *known)
        *known = took;
    else
        *known += (took - *known) / 16;
}

/* Of so many bytes, of which nothing is known: 4 GB/s is slow for all we know. */
static inline uint64_t expect_bytes(uint64_t size)
{
    return size / 4;
}

/* Below, it is the waiting and not the bytes that takes the time. */
#define EXPECT_LEARN_MIN (512u << 10)

/* Where `mib_ns` has been learned of a MiB (0: it has not). What was slow once, because the host
 * had other work, is no reason to sleep for longer than for what is not known. Sizes up to 2^43. */
static inline uint64_t expect_known_bytes(uint64_t mib_ns, uint64_t size)
{
    const uint64_t most = expect_bytes(size);
    if (mib_ns == 0 || mib_ns > expect_bytes(1u << 20))
        return most;
    return mib_ns * (size >> 10) >> 10;
}

static inline void expect_learn_bytes(uint64_t *mib_ns, uint64_t size, uint64_t took)
{
    if (size >= EXPECT_LEARN_MIN)
        expect_learn(mib_ns, (took << 10) / (size >> 10) | 1);
}
