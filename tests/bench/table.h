/* SPDX-License-Identifier: Apache-2.0 */
/* What samples say, a row for each case and metric. */
#ifndef APIR_BENCH_TABLE_H
#define APIR_BENCH_TABLE_H

#include "tests/bench/options.h"
#include "tests/bench/stats.h"

#define TABLE_NATIVE "native" /* the side that others are compared with */

struct cell {
    const char *side;
    size_t n;
    double median; /* in the row's unit */
    bool has_ratio;
    struct interval ratio; /* of this side to native, pair by pair */
};

struct row {
    const char *name, *metric, *unit;
    /* Values over time, not repetitions: pairs are steps, and there are no ratios. */
    bool is_course;
    struct cell cells[OPTIONS_SIDES_MAX];
    size_t n_cells;
};

struct table {
    struct row *rows;
    size_t n;
};

/* Which samples are meant; `metric` may end in * for any rest. */
struct key {
    const char *name, *side, *metric;
};

bool table_matches(const struct sample *s, const struct key *key);

/*
 * Measures of the samples of `key`, to be freed; `ret_paired`: they have pairs. Returns how many,
 * or -ENOMEM.
 */
ssize_t table_values(const struct samples *all, const struct key *key, double **ret_values,
                     bool *ret_paired);

/*
 * The measures of two keys where both have the same pair (and metric, where it ends in *); both
 * arrays are to be freed. With `per_token`, seconds per token instead. Returns how many, or
 * -ENOMEM.
 */
ssize_t table_pairs(const struct samples *all, const struct key *a, const struct key *b,
                    bool per_token, double **ret_a, double **ret_b);

/* The sample of this key with this step, or the one of the last step (step -1); NULL: none. */
const struct sample *table_step(const struct samples *all, const struct key *key, int64_t step);

/* Rows in the order of the samples; strings stay theirs. Returns 0 or -errno with *err set. */
int table_init(struct table *t, const struct samples *all, struct apir_error *err);
void table_fini(struct table *t);

/* Markdown. */
void table_print(const struct table *t, const struct samples *all, FILE *f);

/*
 * DIR/chart.dat, DIR/chart.gp and, where gnuplot is installed, DIR/chart.svg: throughput relative
 * to native. Says on stderr where it could not draw.
 */
void chart_write(const struct table *t, const char *dir);

#endif
