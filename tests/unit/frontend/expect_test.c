/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/link/expect.h"

#include "tests/lib/unit.h"

#define MIB (UINT64_C(1) << 20)

static void assert_about(uint64_t got, uint64_t want)
{
    if (got < want || got > want + want / 10000 + 1)
        fail_msg("%llu, not %llu", (unsigned long long)got, (unsigned long long)want);
}

TEST(what_was_faster_counts_at_once_and_what_was_slower_slowly)
{
    uint64_t known = 0;
    expect_learn(&known, 1600);
    assert_int_equal(known, 1600);
    expect_learn(&known, 800);
    assert_int_equal(known, 800);
    expect_learn(&known, 2400);
    assert_int_equal(known, 900);
}

TEST(bytes_of_which_nothing_is_known_take_as_long_as_at_4_gb_per_second)
{
    assert_int_equal(expect_bytes(4000000000u), 1000000000);
    assert_int_equal(expect_known_bytes(0, 4 * MIB), expect_bytes(4 * MIB));
}

TEST(bytes_take_as_long_as_the_last_ones)
{
    uint64_t mib_ns = 0;
    expect_learn_bytes(&mib_ns, 4 * MIB, 400000);
    assert_about(expect_known_bytes(mib_ns, MIB), 100000);
    assert_about(expect_known_bytes(mib_ns, MIB / 2), 50000);
    assert_about(expect_known_bytes(mib_ns, 1024 * MIB), 102400000);
    expect_learn_bytes(&mib_ns, MIB / 2, 25000); /* the smallest that tells something */
    assert_about(expect_known_bytes(mib_ns, MIB), 50000);
    expect_learn_bytes(&mib_ns, MIB / 2 - 1, 1);
    assert_about(expect_known_bytes(mib_ns, MIB), 50000);
    expect_learn_bytes(&mib_ns, MIB, 0); /* in no time is not: nothing known */
    assert_int_equal(expect_known_bytes(mib_ns, MIB), 1);
}

/* The host had other work: a wait of this length would be slept through. */
TEST(what_was_slow_once_is_expected_no_longer_than_the_unknown)
{
    uint64_t mib_ns = 0;
    expect_learn_bytes(&mib_ns, 4 * MIB, UINT64_C(2000000000));
    assert_int_equal(expect_known_bytes(mib_ns, 4 * MIB), expect_bytes(4 * MIB));
    expect_learn_bytes(&mib_ns, 4 * MIB, 600000);
    assert_about(expect_known_bytes(mib_ns, 4 * MIB), 600000);
}
