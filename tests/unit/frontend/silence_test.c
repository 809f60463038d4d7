/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/link/silence.h"

#include "tests/lib/unit.h"

#define MS    UINT64_C(1000000)
#define LIMIT (15000 * MS)

/* Looks every `step` until `until`; the last verdict but those that go on, or SILENCE_GOES_ON. */
static enum silence_verdict wait_quietly(struct silence *s, uint64_t *now, uint64_t step,
                                         uint64_t until, unsigned *ret_asked)
{
    while (*now < until) {
        *now += step;
        switch (silence_look(s, *now, false, LIMIT)) {
        case SILENCE_OVER:
            return SILENCE_OVER;
        case SILENCE_ASK:
            ++*ret_asked;
            break;
        case SILENCE_GOES_ON:
            break;
        }
    }
    return SILENCE_GOES_ON;
}

static void who_hears_nothing_asks_and_gives_up_at_the_limit(void **state)
{
    (void)state;
    struct silence s;
    unsigned asked = 0;
    uint64_t now = 1000 * MS;
    silence_begin(&s, now);
    assert_int_equal(wait_quietly(&s, &now, 50 * MS, now + 250 * MS, &asked), SILENCE_GOES_ON);
    assert_int_equal(asked, 0);
    assert_int_equal(wait_quietly(&s, &now, 50 * MS, now + 50 * MS, &asked), SILENCE_GOES_ON);
    assert_int_equal(asked, 1);
    assert_int_equal(wait_quietly(&s, &now, 50 * MS, 1000 * MS + LIMIT, &asked), SILENCE_GOES_ON);
    assert_int_equal(asked, 15);
    assert_int_equal(wait_quietly(&s, &now, 50 * MS, now + 50 * MS, &asked), SILENCE_OVER);
}

static void a_sign_begins_anew(void **state)
{
    (void)state;
    struct silence s;
    unsigned asked = 0;
    uint64_t now = 0;
    silence_begin(&s, now);
    for (unsigned i = 1; i <= 4; i++) {
        assert_int_equal(wait_quietly(&s, &now, 50 * MS, now + LIMIT, &asked), SILENCE_GOES_ON);
        assert_int_equal(silence_look(&s, ++now, true, LIMIT), SILENCE_GOES_ON);
        assert_int_equal(asked, 15 * i);
    }
}

/* One who looks all the time counts as well as one who sleeps. */
static void short_looks_add_up(void **state)
{
    (void)state;
    struct silence s;
    unsigned asked = 0;
    uint64_t now = 0;
    silence_begin(&s, now);
    assert_int_equal(wait_quietly(&s, &now, MS / 10, LIMIT, &asked), SILENCE_GOES_ON);
    assert_int_equal(wait_quietly(&s, &now, MS / 10, LIMIT + MS, &asked), SILENCE_OVER);
}

/* Stopped, suspended, or on a machine without a core to spare: the host may be as late. */
static void time_in_which_we_did_not_run_is_nobodys_silence(void **state)
{
    (void)state;
    struct silence s;
    unsigned asked = 0;
    uint64_t now = 0;
    silence_begin(&s, now);
    assert_int_equal(wait_quietly(&s, &now, SILENCE_LATE_NS + 1, 100 * LIMIT, &asked),
                     SILENCE_GOES_ON);
    assert_int_equal(asked, 0);
    /* In the middle of a question, too. */
    assert_int_equal(wait_quietly(&s, &now, 50 * MS, now + LIMIT, &asked), SILENCE_GOES_ON);
    now += 10 * LIMIT;
    assert_int_equal(silence_look(&s, now, false, LIMIT), SILENCE_GOES_ON);
    assert_int_equal(wait_quietly(&s, &now, 50 * MS, now + 50 * MS, &asked), SILENCE_OVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(who_hears_nothing_asks_and_gives_up_at_the_limit),
        UNIT(a_sign_begins_anew),
        UNIT(short_looks_add_up),
        UNIT(time_in_which_we_did_not_run_is_nobodys_silence),
    };
    return cmocka_run_group_tests_name("silence", tests, NULL, NULL);
}
