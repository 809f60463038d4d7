/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/stats.h"

#include <stdlib.h>

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

double stats_median(double *x, size_t n)
{
    stats_sort(x, n);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}
