/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether others want the core of who waits for the other side.
 *
 * Who waits first looks, which is quicker than to sleep and be woken, and between two looks offers
 * its core to others (sched_yield). Another thread that takes it computes until the end of its time
 * slice, often for milliseconds, even one that is SCHED_IDLE, and nobody looks meanwhile. A sleeper
 * that is woken need not wait for the end of that slice. So who loses much of its looking that way
 * sleeps for a while where it would have looked.
 *
 * On any machine a look is late now and then: a daemon runs, or a hypervisor has other use for the
 * core. That takes some thousandths of the time spent looking. Where others compute, late looks
 * take a sixth of it and more, so a 64th tells the one from the other. It matters since a token
 * costs some 20 us more while its sides sleep.
 *
 * Only where both sides are in one kernel and wake each other by a futex. To wake the other side of
 * a VM takes longer: with an emulated CPU, much longer than all else.
 * docs/decisions.md, Who is late sleeps.
 *
 * Each waiting process has one; any of its threads may call these at any time. Times are of
 * CLOCK_MONOTONIC.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Late: an interrupt takes less, a time slice more. */
#define APIR_CROWD_LATE_NS 100000u
/* So much of one look's lateness counts: a long one by itself says little. */
#define APIR_CROWD_MOST_NS 1500000u
/* The sum of late looks at which others want the core. Looks in time take a 64th of what they last
 * from it. */
#define APIR_CROWD_LOST_NS 4000000u
#define APIR_CROWD_SHARE   64u
/* How long nobody looks then. After that one late look is enough, unless much was looked before it;
 * and if it comes within APIR_CROWD_REST_NS, the next rest is the long one: others compute all the
 * time (together-8 of `make bench-all` is faster by that). */
#define APIR_CROWD_REST_NS      100000000u
#define APIR_CROWD_LONG_REST_NS 1600000000u

struct apir_crowd {
    uint64_t until_ns; /* others want the core up to then, as far as is known; at first 0 */
    uint64_t lost_ns;  /* the sum; APIR_CROWD_LOST_NS at most */
};

/* Others want the core, as far as is known: who waits sleeps at once. */
static inline bool apir_crowd_there(const struct apir_crowd *crowd, uint64_t now_ns)
{
    return now_ns < __atomic_load_n(&crowd->until_ns, __ATOMIC_RELAXED);
}

/*
 * After looking and a yield, with the times before and after both. True: others want the core, and
 * a rest begins. Of two threads at once either's sum may be lost: it decides who looks and who
 * sleeps, and nothing else.
 */
static inline bool apir_crowd_note(struct apir_crowd *crowd, uint64_t before_ns, uint64_t after_ns)
{
    const uint64_t took = after_ns - before_ns;
    const uint64_t until = __atomic_load_n(&crowd->until_ns, __ATOMIC_RELAXED);
    uint64_t lost = __atomic_load_n(&crowd->lost_ns, __ATOMIC_RELAXED);
    bool begins = false;
    if (took <= APIR_CROWD_LATE_NS) {
        const uint64_t less = took / APIR_CROWD_SHARE;
        if (lost == 0)
            return false;
        lost -= less < lost ? less : lost;
    } else if (after_ns < until) {
        return false; /* in a rest: another thread was late, too */
    } else {
        lost += took < APIR_CROWD_MOST_NS ? took : APIR_CROWD_MOST_NS;
        begins = lost >= APIR_CROWD_LOST_NS;
    }
    if (begins) {
        const uint64_t rest =
            after_ns - until < APIR_CROWD_REST_NS ? APIR_CROWD_LONG_REST_NS : APIR_CROWD_REST_NS;
        lost = APIR_CROWD_LOST_NS;
        __atomic_store_n(&crowd->until_ns, after_ns + rest, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&crowd->lost_ns, lost, __ATOMIC_RELAXED);
    return begins;
}
