/* SPDX-License-Identifier: Apache-2.0 */
/* The order of measured values. */
#ifndef APIR_BENCH_STATS_H
#define APIR_BENCH_STATS_H

#include <stddef.h>

/* Ascending. */
void stats_sort(double *values, size_t n);
/* Of n sorted values, n > 0: the smallest that at least p percent do not exceed. */
double stats_percentile(const double *sorted, size_t n, size_t p);
/* The mean of both middle values where n is even. n is at least 1; sorts. */
double stats_median(double *x, size_t n);

#endif
