/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/link/silence.h"

#include "tests/lib/unit.h"

#define MS    UINT64_C(1000000)
#define LIMIT (15000 * MS)

/* One who waits, and what has come of it. */
static struct {
    struct silence silence;
    uint64_t now;
    unsigned asked;
} w;

static void begin(uint64_t now)
{
    w.now = now;
    w.asked = 0;
    silence_begin(&w.silence, now);
}

/* Looks every `step` until `until`: it is over by then, or goes on. */
static void wait_quietly(uint64_t step, uint64_t until, enum silence_verdict want)
{
    enum silence_verdict verdict = SILENCE_GOES_ON;
    while (w.now < until && verdict != SILENCE_OVER) {
        w.now += step;
        verdict = silence_look(&w.silence, w.now, false, LIMIT);
        w.asked += verdict == SILENCE_ASK;
    }
    assert_int_equal(verdict == SILENCE_OVER, want == SILENCE_OVER);
}

TEST(who_hears_nothing_asks_and_gives_up_at_the_limit)
{
    begin(1000 * MS);
    wait_quietly(50 * MS, w.now + 250 * MS, SILENCE_GOES_ON);
    assert_int_equal(w.asked, 0);
    wait_quietly(50 * MS, w.now + 50 * MS, SILENCE_GOES_ON);
    assert_int_equal(w.asked, 1);
    wait_quietly(50 * MS, 1000 * MS + LIMIT, SILENCE_GOES_ON);
    assert_int_equal(w.asked, 15);
    wait_quietly(50 * MS, w.now + 50 * MS, SILENCE_OVER);
}

TEST(a_sign_begins_anew)
{
    begin(0);
    for (unsigned i = 1; i <= 4; i++) {
        wait_quietly(50 * MS, w.now + LIMIT, SILENCE_GOES_ON);
        assert_int_equal(silence_look(&w.silence, ++w.now, true, LIMIT), SILENCE_GOES_ON);
        assert_int_equal(w.asked, 15 * i);
    }
}

/* One who looks all the time counts as well as one who sleeps. */
TEST(short_looks_add_up)
{
    begin(0);
    wait_quietly(MS / 10, LIMIT, SILENCE_GOES_ON);
    wait_quietly(MS / 10, LIMIT + MS, SILENCE_OVER);
}

/* Stopped, suspended, or on a machine without a core to spare: the host may be as late. */
TEST(time_in_which_we_did_not_run_is_nobodys_silence)
{
    begin(0);
    wait_quietly(SILENCE_LATE_NS + 1, 100 * LIMIT, SILENCE_GOES_ON);
    assert_int_equal(w.asked, 0);
    /* In the middle of a question, too. */
    wait_quietly(50 * MS, w.now + LIMIT, SILENCE_GOES_ON);
    w.now += 10 * LIMIT;
    assert_int_equal(silence_look(&w.silence, w.now, false, LIMIT), SILENCE_GOES_ON);
    wait_quietly(50 * MS, w.now + 50 * MS, SILENCE_OVER);
}
