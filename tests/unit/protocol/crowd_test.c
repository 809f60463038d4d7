/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "protocol/crowd.h"

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
    const uint64_t after = 1000 + APIR_CROWD_LATE_NS + 1;
    assert_true(apir_crowd_note(&crowd, 1000, after));
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

TEST(rests_get_longer_while_looks_are_late_soon_after_them)
{
    struct apir_crowd crowd = {0};
    uint64_t now = UINT64_C(1000000000000), rest = APIR_CROWD_REST_NS;
    assert_int_equal(late_at(&crowd, now), rest);
    for (int i = 0; i < 10; i++) {
        now += rest + rest - 1;
        rest = 2 * rest < APIR_CROWD_REST_LONGEST_NS ? 2 * rest : APIR_CROWD_REST_LONGEST_NS;
        assert_int_equal(late_at(&crowd, now), rest);
    }
    assert_int_equal(rest, APIR_CROWD_REST_LONGEST_NS);
    /* As long without one: the next is short again. */
    assert_int_equal(late_at(&crowd, now + 2 * rest), APIR_CROWD_REST_NS);
}

TEST(rest_is_not_prolonged_by_who_is_late_in_it)
{
    struct apir_crowd crowd = {0};
    const uint64_t now = UINT64_C(1000000000000);
    assert_int_equal(late_at(&crowd, now), APIR_CROWD_REST_NS);
    assert_int_equal(late_at(&crowd, now + 1), APIR_CROWD_REST_NS - 1);
}
