/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "protocol/crowd.h"

#define LONG_AFTER_BOOT UINT64_C(1000000000000) /* ns */
#define LATE            (APIR_CROWD_LATE_NS + 1)

/* A look that ends at *now, which moves on by what it takes. */
static bool look(struct apir_crowd *crowd, uint64_t *now, uint64_t took_ns)
{
    *now += took_ns;
    return apir_crowd_note(crowd, *now - took_ns, *now);
}

/* Looks that are late until a rest begins; returns how many that takes. */
static unsigned crowd_found(struct apir_crowd *crowd, uint64_t *now, uint64_t took_ns)
{
    unsigned n = 1;
    while (!look(crowd, now, took_ns))
        n++;
    return n;
}

TEST(core_that_comes_back_at_once_is_looked_on)
{
    struct apir_crowd crowd = {0};
    uint64_t now = LONG_AFTER_BOOT;
    assert_false(apir_crowd_there(&crowd, 0));
    for (int i = 0; i < 1000000; i++)
        assert_false(look(&crowd, &now, APIR_CROWD_LATE_NS));
    assert_false(apir_crowd_there(&crowd, now));
}

TEST(who_loses_much_of_its_looking_rests)
{
    struct apir_crowd crowd = {0};
    uint64_t now = LONG_AFTER_BOOT;
    assert_int_equal(crowd_found(&crowd, &now, 1000000), 4);
    assert_true(apir_crowd_there(&crowd, now));
    assert_true(apir_crowd_there(&crowd, now + APIR_CROWD_REST_NS - 1));
    assert_false(apir_crowd_there(&crowd, now + APIR_CROWD_REST_NS));
    /* However long one is. */
    crowd = (struct apir_crowd){0};
    assert_int_equal(crowd_found(&crowd, &now, UINT64_C(10000000000)), 3);
    /* Eight programs on two cores: one look in three hundred is late, by 200 us or more. */
    crowd = (struct apir_crowd){0};
    unsigned n = 0;
    do {
        for (int i = 0; i < 300; i++)
            assert_false(look(&crowd, &now, 20000));
        n++;
    } while (!look(&crowd, &now, 200000));
    assert_true(n < 40);
}

TEST(who_is_late_now_and_then_looks_on)
{
    struct apir_crowd crowd = {0};
    uint64_t now = LONG_AFTER_BOOT;
    /* 500 us late, ten times a second. */
    for (int i = 0; i < 1000; i++) {
        assert_false(look(&crowd, &now, 500000));
        for (int k = 0; k < 1000; k++)
            assert_false(look(&crowd, &now, APIR_CROWD_LATE_NS));
    }
    /* The machine stops for a while, several times in a second. */
    for (int i = 0; i < 10; i++) {
        assert_false(look(&crowd, &now, 200000000));
        for (int k = 0; k < 1000; k++)
            assert_false(look(&crowd, &now, APIR_CROWD_LATE_NS));
    }
}

TEST(rest_is_long_if_a_look_is_late_again_soon_after_one)
{
    struct apir_crowd crowd = {0};
    uint64_t now = LONG_AFTER_BOOT, rest = APIR_CROWD_REST_NS;
    (void)crowd_found(&crowd, &now, 1000000);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(crowd.until_ns - now, rest);
        rest = APIR_CROWD_LONG_REST_NS;
        now = crowd.until_ns;
        for (int k = 0; k < 300; k++)
            assert_false(look(&crowd, &now, 20000));
        assert_true(look(&crowd, &now, 200000));
    }
    /* Later than that: others may have come again. */
    now = crowd.until_ns + APIR_CROWD_REST_NS;
    assert_true(look(&crowd, &now, LATE));
    assert_int_equal(crowd.until_ns - now, APIR_CROWD_REST_NS);
    /* Much looked in time: they have gone. */
    now = crowd.until_ns;
    for (int k = 0; k < 1000; k++)
        assert_false(look(&crowd, &now, APIR_CROWD_LATE_NS));
    assert_false(look(&crowd, &now, 1000000));
    assert_false(apir_crowd_there(&crowd, now));
}

TEST(rest_is_not_prolonged_by_who_is_late_in_it)
{
    struct apir_crowd crowd = {0};
    uint64_t now = LONG_AFTER_BOOT;
    (void)crowd_found(&crowd, &now, 1000000);
    const uint64_t until = crowd.until_ns;
    for (int i = 0; i < 100; i++)
        assert_false(look(&crowd, &now, LATE));
    assert_int_equal(crowd.until_ns, until);
}
