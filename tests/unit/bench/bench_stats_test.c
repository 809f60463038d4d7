/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/stats.h"
#include "tests/lib/unit.h"

static void assert_close(double a, double b)
{
    assert_true(a - b < 1e-12 && b - a < 1e-12);
}

TEST(median_is_the_middle_of_any_order)
{
    const double odd[] = {5, 1, 4, 2, 3}, even[] = {4, 1, 3, 2}, same[] = {7, 7, 7, 7},
                 one[] = {-2};
    const double ties[] = {1, 2, 2, 9, 9, 9}, kept[] = {5, 1, 4, 2, 3};
    assert_close(stats_median(odd, 5), 3);
    assert_close(stats_median(even, 4), 2.5);
    assert_close(stats_median(same, 4), 7);
    assert_close(stats_median(one, 1), -2);
    assert_close(stats_median(ties, 6), 5.5);
    assert_memory_equal(odd, kept, sizeof(odd));
}

TEST(interval_of_equal_values_is_a_point)
{
    const double x[] = {3, 3, 3, 3, 3, 3, 3};
    struct interval i;
    assert_int_equal(stats_interval(x, 7, &i), 0);
    assert_close(i.low, 3);
    assert_close(i.median, 3);
    assert_close(i.high, 3);
    assert_int_equal(i.n, 7);
    assert_false(i.is_single);
}

TEST(interval_is_the_same_every_time)
{
    uint64_t seed = 11;
    double x[20];
    for (size_t i = 0; i < 20; i++)
        x[i] = (double)(unit_random(&seed) >> 40);
    struct interval a, b;
    assert_int_equal(stats_interval(x, 20, &a), 0);
    assert_int_equal(stats_interval(x, 20, &b), 0);
    assert_close(a.low, b.low);
    assert_close(a.high, b.high);
    assert_true(a.low < a.median && a.median < a.high);
}

/* Of values between 0 and 1 the median is 0.5: about 95 of 100 intervals must hold it. */
TEST(interval_covers_the_true_median)
{
    enum { SETS = 100, N = 20 };
    uint64_t seed = 5;
    int covered = 0;
    double width = 0;
    for (int s = 0; s < SETS; s++) {
        double x[N];
        for (size_t i = 0; i < N; i++)
            x[i] = (double)(unit_random(&seed) >> 11) / 9007199254740992.0;
        struct interval i;
        assert_int_equal(stats_interval(x, N, &i), 0);
        covered += i.low <= 0.5 && 0.5 <= i.high;
        width += (i.high - i.low) / (double)(int)SETS;
    }
    assert_int_in_range(covered, 89, 99);
    /* Four standard deviations of such a median, which are 0.107 each: no wider than need be. */
    assert_true(width > 0.33 && width < 0.53);
}

TEST(interval_narrows_with_more_values)
{
    uint64_t seed = 3;
    double x[400];
    for (size_t i = 0; i < 400; i++)
        x[i] = (double)(unit_random(&seed) >> 11) / 9007199254740992.0;
    struct interval few, many;
    assert_int_equal(stats_interval(x, 25, &few), 0);
    assert_int_equal(stats_interval(x, 400, &many), 0);
    assert_true(many.high - many.low < (few.high - few.low) / 2);
}

TEST(added_is_the_difference_of_both_medians)
{
    const double b[] = {1, 2, 3, 4, 5, 6, 7}, noisy[] = {9, 3, 6, 5, 8, 7, 4};
    double a[7];
    for (size_t i = 0; i < 7; i++)
        a[i] = b[i] + 5;
    struct interval i;
    /* Drawn together, so what both share takes nothing from the certainty. */
    assert_int_equal(stats_interval_added(a, b, 7, &i), 0);
    assert_close(i.median, 5);
    assert_close(i.low, 5);
    assert_close(i.high, 5);
    assert_int_equal(stats_interval_added(noisy, b, 7, &i), 0);
    assert_close(i.median, 2);
    assert_true(i.low < 2 && i.high > 2);
}

TEST(verdict_follows_the_interval)
{
    static const struct {
        double low, median, high;
        size_t n;
        bool is_single;
        enum stats_comparison comparison;
        double target;
        enum stats_verdict verdict;
    } cases[] = {
        {0.99, 0.995, 1.0, 20, false, STATS_AT_LEAST, 0.98, STATS_MET},
        {0.98, 0.985, 0.99, 20, false, STATS_AT_LEAST, 0.98, STATS_MET},
        {0.97, 0.985, 0.99, 20, false, STATS_AT_LEAST, 0.98, STATS_UNDECIDED},
        {0.95, 0.96, 0.98, 20, false, STATS_AT_LEAST, 0.98, STATS_UNDECIDED},
        {0.95, 0.96, 0.97, 20, false, STATS_AT_LEAST, 0.98, STATS_MISSED},
        {1.0, 1.1, 1.2, 20, false, STATS_ABOVE, 1, STATS_UNDECIDED},
        {1.01, 1.1, 1.2, 20, false, STATS_ABOVE, 1, STATS_MET},
        {0.9, 0.95, 1.0, 20, false, STATS_ABOVE, 1, STATS_MISSED},
        {0.2, 0.3, 0.4, 20, false, STATS_AT_MOST, 0.4, STATS_MET},
        {0.3, 0.35, 0.5, 20, false, STATS_AT_MOST, 0.4, STATS_UNDECIDED},
        {0.41, 0.45, 0.5, 20, false, STATS_AT_MOST, 0.4, STATS_MISSED},
        {0.1, 0.2, 0.3, 20, false, STATS_BELOW, 0.3, STATS_UNDECIDED},
        {0.1, 0.2, 0.29, 20, false, STATS_BELOW, 0.3, STATS_MET},
        /* Five pairs decide nothing, either way. */
        {2, 2, 2, 5, false, STATS_AT_LEAST, 1, STATS_UNDECIDED},
        {0, 0, 0, 5, false, STATS_AT_LEAST, 1, STATS_UNDECIDED},
        {2, 2, 2, 6, false, STATS_AT_LEAST, 1, STATS_MET},
        /* A single figure does. */
        {8.9, 8.9, 8.9, 1, true, STATS_AT_MOST, 10, STATS_MET},
        {10, 10, 10, 1, true, STATS_AT_MOST, 10, STATS_MET},
        {10.1, 10.1, 10.1, 1, true, STATS_AT_MOST, 10, STATS_MISSED},
        {0.005, 0.005, 0.005, 1, true, STATS_BELOW, 0.005, STATS_MISSED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct interval found = {cases[i].median, cases[i].low, cases[i].high, cases[i].n,
                                 cases[i].is_single};
        if (stats_judge(&found, cases[i].comparison, cases[i].target) != cases[i].verdict)
            fail_msg("case %zu", i);
    }
}
