/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "protocol/crowd.h"

#define LONG_AFTER_BOOT UINT64_C(1000000000000) /* ns: more than any rest after none */

TEST(core_that_comes_back_at_once_is_looked_on)
{
    struct apir_crowd crowd = {0};
    assert_false(apir_crowd_there(&crowd, 0));
    assert_false(apir_crowd_note(&crowd, 1000, 1000));
    assert_false(apir_crowd_note(&crowd, 1000, 1000 + APIR_CROWD_LATE_NS));
    assert_false(apir_crowd_there(&crowd, 1000 + APIR_CROWD_LATE_NS));
}

TEST(core_that_comes_back_late_is_not_looked_on_for_a_while)
{
    struct apir_crowd crowd = {0};
    const uint64_t before = LONG_AFTER_BOOT, after = before + APIR_CROWD_LATE_NS + 1;
    assert_true(apir_crowd_note(&crowd, before, after));
    assert_true(apir_crowd_there(&crowd, after));
    assert_true(apir_crowd_there(&crowd, after + APIR_CROWD_REST_NS - 1));
    assert_false(apir_crowd_there(&crowd, after + APIR_CROWD_REST_NS));
    /* One that was not late, from another thread say, does not end that sooner. */
    assert_false(apir_crowd_note(&crowd, after, after + 1));
    assert_true(apir_crowd_there(&crowd, after + 1));
}

/* Notes a look that is late at a time; returns how long the rest is that follows. */
static uint64_t late_at(struct apir_crowd *crowd, uint64_t after)
{
    assert_true(apir_crowd_note(crowd, after - APIR_CROWD_LATE_NS - 1, after));
    return crowd->until_ns - after;
}

TEST(rest_is_long_if_a_look_is_late_again_soon_after_one)
{
    struct apir_crowd crowd = {0};
    uint64_t now = LONG_AFTER_BOOT, rest = APIR_CROWD_REST_NS;
    assert_int_equal(late_at(&crowd, now), rest);
    for (int i = 0; i < 3; i++) {
        now += rest + APIR_CROWD_REST_NS - 1;
        rest = APIR_CROWD_LONG_REST_NS;
        assert_int_equal(late_at(&crowd, now), rest);
    }
    /* Some time without one: the next is short again. */
    assert_int_equal(late_at(&crowd, now + rest + APIR_CROWD_REST_NS), APIR_CROWD_REST_NS);
}

TEST(rest_is_not_prolonged_by_who_is_late_in_it)
{
    struct apir_crowd crowd = {0};
    const uint64_t now = LONG_AFTER_BOOT;
    assert_int_equal(late_at(&crowd, now), APIR_CROWD_REST_NS);
    assert_int_equal(late_at(&crowd, now + 1), APIR_CROWD_REST_NS - 1);
}
