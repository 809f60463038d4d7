/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 to n - 1. The high bits of a product: no number is drawn noticeably more often. */
static size_t draw_index(uint64_t *state, size_t n)
{
    return (size_t)(((draw(state) >> 32) * n) >> 32);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stats_sort(double *x, size_t n)
{
    qsort(x, n, sizeof(*x), compare);
}

double stats_percentile(const double *sorted, size_t n, size_t p)
{
    return sorted[(n * p + 99) / 100 - 1];
}

/* Sorts. */
static double take_median(double *x, size_t n)
{
    stats_sort(x, n);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

double stats_median(const double *x, size_t n)
{
    /* Without memory of its own, so that it cannot fail: the k-th is the one with k below it. */
    double low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        size_t below = 0, equal = 0;
        for (size_t k = 0; k < n; k++) {
            below += x[k] < x[i];
            equal += !(x[k] < x[i]) && !(x[i] < x[k]);
        }
        if (below <= (n - 1) / 2 && (n - 1) / 2 < below + equal)
            low = x[i];
        if (below <= n / 2 && n / 2 < below + equal)
            high = x[i];
    }
    return (low + high) / 2;
}

/* b NULL: the median of a alone. */
static int bootstrap(const double *a, const double *b, size_t n, struct interval *ret_interval)
{
    double *medians = malloc(STATS_RESAMPLES * sizeof(*medians));
    double *drawn = malloc(2 * n * sizeof(*drawn));
    if (!medians || !drawn) {
        free(medians);
        free(drawn);
        return -ENOMEM;
    }
    uint64_t state = STATS_SEED;
    for (size_t r = 0; r < STATS_RESAMPLES; r++) {
        for (size_t i = 0; i < n; i++) {
            size_t k = draw_index(&state, n);
            drawn[i] = a[k];
            drawn[n + i] = b ? b[k] : 0;
        }
        medians[r] = take_median(drawn, n) - (b ? take_median(drawn + n, n) : 0);
    }
    stats_sort(medians, STATS_RESAMPLES);
    /* 2.5% of them below, 2.5% above. */
    size_t tail = STATS_RESAMPLES / 40;
    *ret_interval = (struct interval){
        .median = stats_median(a, n) - (b ? stats_median(b, n) : 0),
        .low = medians[tail],
        .high = medians[STATS_RESAMPLES - 1 - tail],
        .n = n,
    };
    free(medians);
    free(drawn);
    return 0;
}

int stats_interval(const double *x, size_t n, struct interval *ret_interval)
{
    return bootstrap(x, NULL, n, ret_interval);
}

int stats_interval_added(const double *a, const double *b, size_t n, struct interval *ret_interval)
{
    return bootstrap(a, b, n, ret_interval);
}

static bool holds(double x, enum stats_comparison comparison, double target)
{
    switch (comparison) {
    case STATS_AT_LEAST:
        return x >= target;
    case STATS_ABOVE:
        return x > target;
    case STATS_AT_MOST:
        return x <= target;
    case STATS_BELOW:
        break;
    }
    return x < target;
}

enum stats_verdict stats_judge(const struct interval *i, enum stats_comparison comparison,
                               double target)
{
    if (i->is_single)
        return holds(i->median, comparison, target) ? STATS_MET : STATS_MISSED;
    if (i->n < STATS_DECIDING)
        return STATS_UNDECIDED;
    bool low = holds(i->low, comparison, target), high = holds(i->high, comparison, target);
    if (low && high)
        return STATS_MET;
    return low || high ? STATS_UNDECIDED : STATS_MISSED;
}
