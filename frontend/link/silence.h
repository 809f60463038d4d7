/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of a host's silence, for one wait. Silence alone ends a session, so only that time
 * counts in which the host owed us a sign and we ourselves were run in time: on a machine that is
 * busy, stopped or asleep the host may be as late as we are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Nobody who waits goes without a look for longer than this by his own choice. */
#define SILENCE_STEP_NS 50000000u
/* Who comes back later than this was held up: the time since the last look does not count. */
#define SILENCE_LATE_NS (3 * SILENCE_STEP_NS)
#define SILENCE_ASK_NS  300000000u /* of quiet: then we ask whether the host is there */
/* Without an answer we ask again: that a connection is closed shows when something is written to
 * it. */
#define SILENCE_AGAIN_NS 1000000000u

enum silence_verdict {
    SILENCE_GOES_ON,
    SILENCE_ASK,  /* ask the host for a sign now */
    SILENCE_OVER, /* it has been silent for longer than the limit */
};

struct silence {
    uint64_t looked; /* when we last did */
    uint64_t ns;     /* that counts, since the wait began or we heard of the host */
    uint64_t asked;  /* what ns was when we last asked; 0: we have not since */
};

static inline void silence_begin(struct silence *s, uint64_t now)
{
    *s = (struct silence){.looked = now};
}

/* `heard`: of the host, since the last look. Clocks are CLOCK_MONOTONIC, which stands while the
 * machine is suspended. */
static inline enum silence_verdict silence_look(struct silence *s, uint64_t now, bool heard,
                                                uint64_t limit_ns)
{
    const uint64_t away = now - s->looked;
    s->looked = now;
    if (heard)
        s->ns = s->asked = 0;
    else if (away <= SILENCE_LATE_NS)
        s->ns += away;
    if (s->ns > limit_ns)
        return SILENCE_OVER;
    if (s->ns - s->asked < (s->asked ? SILENCE_AGAIN_NS : SILENCE_ASK_NS))
        return SILENCE_GOES_ON;
    s->asked = s->ns;
    return SILENCE_ASK;
}
