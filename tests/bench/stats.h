/* SPDX-License-Identifier: Apache-2.0 */
/* Medians, bootstrap intervals, and what they say about a target. */
#ifndef APIR_BENCH_STATS_H
#define APIR_BENCH_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STATS_RESAMPLES = 10000,
    STATS_SEED = 1,
    /* The widest interval that n values can give the median covers it with 1 - 2 * 0.5^n: 95% are
     * out of reach with fewer than six, whatever the method. */
    STATS_DECIDING = 6,
};

struct interval {
    double median, low, high;
    size_t n;       /* values or pairs that it rests on */
    bool is_single; /* one figure, without an interval: low and high are the median */
};

/* Ascending. */
void stats_sort(double *values, size_t n);
/* Of n sorted values, n > 0: the smallest that at least p percent do not exceed. */
double stats_percentile(const double *sorted, size_t n, size_t p);
/* The mean of both middle values where n is even. n is at least 1; the order is not changed. */
double stats_median(const double *x, size_t n);

/*
 * 95% percentile bootstrap intervals of the median: STATS_RESAMPLES resamples by a generator that
 * starts at STATS_SEED every time, so the same values always give the same interval. n is at
 * least 1. Both return 0 or -ENOMEM.
 */
int stats_interval(const double *x, size_t n, struct interval *ret_interval);
/* The same of median(a) - median(b), where a[i] and b[i] are drawn together. */
int stats_interval_added(const double *a, const double *b, size_t n, struct interval *ret_interval);

enum stats_comparison { STATS_AT_LEAST, STATS_ABOVE, STATS_AT_MOST, STATS_BELOW };
enum stats_verdict { STATS_MET, STATS_MISSED, STATS_UNDECIDED };

/*
 * Missed: the whole interval is on the wrong side. Undecided: it has both sides, or rests on fewer
 * than STATS_DECIDING pairs. Else met. A single figure is met or missed.
 */
enum stats_verdict stats_judge(const struct interval *i, enum stats_comparison comparison,
                               double target);

#endif
