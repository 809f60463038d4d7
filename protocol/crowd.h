/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether others want the core of who waits for the other side.
 *
 * Who waits first looks, which is quicker than to sleep and be woken, and between two looks offers
 * its core to others (sched_yield). Another thread that takes it computes until the end of its time
 * slice, often for milliseconds, even one that is SCHED_IDLE, and nobody looks meanwhile. A sleeper
 * that is woken need not wait for the end of that slice. So who comes late to its next look sleeps
 * for a while where it would have looked.
 *
 * Only where both sides are in one kernel and wake each other by a futex. To wake the other side of
 * a VM takes longer: with an emulated CPU, much longer than all else (docs/bench.md has both).
 *
 * Each waiting process has one; any of its threads may call these at any time. Times are of
 * CLOCK_MONOTONIC.
 */
#ifndef APIR_PROTOCOL_CROWD_H
#define APIR_PROTOCOL_CROWD_H

#include <stdbool.h>
#include <stdint.h>

/* Late: an interrupt takes less, a time slice more. */
#define APIR_CROWD_LATE_NS 100000u
/* How long nobody looks: a rest. After it a look may cost a time slice again, some percent of the
 * rest. The next rest is the long one if a look is late within APIR_CROWD_REST_NS after this one:
 * then others compute all the time (together-8 of `make bench-all` is faster by that). */
#define APIR_CROWD_REST_NS      100000000u
#define APIR_CROWD_LONG_REST_NS 1600000000u

struct apir_crowd {
    uint64_t until_ns; /* others want the core up to then, as far as is known; at first 0 */
};

static inline bool apir_crowd_there(const struct apir_crowd *crowd, uint64_t now_ns)
{
    return now_ns < __atomic_load_n(&crowd->until_ns, __ATOMIC_RELAXED);
}

/* After looking and a yield, with the times before and after both. True: it took too long. */
static inline bool apir_crowd_note(struct apir_crowd *crowd, uint64_t before_ns, uint64_t after_ns)
{
    const bool late = after_ns - before_ns > APIR_CROWD_LATE_NS;
    const uint64_t until = __atomic_load_n(&crowd->until_ns, __ATOMIC_RELAXED);
    /* In a rest: another thread was late, too. Two that note it at once leave either's rest. */
    if (late && after_ns >= until) {
        const uint64_t rest =
            after_ns - until < APIR_CROWD_REST_NS ? APIR_CROWD_LONG_REST_NS : APIR_CROWD_REST_NS;
        __atomic_store_n(&crowd->until_ns, after_ns + rest, __ATOMIC_RELAXED);
    }
    return late;
}

#endif
