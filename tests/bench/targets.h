/* SPDX-License-Identifier: Apache-2.0 */
/* What the project promises about speed, and whether samples bear it out. */
#ifndef APIR_BENCH_TARGETS_H
#define APIR_BENCH_TARGETS_H

#include "tests/bench/table.h"

enum target_kind {
    TARGET_VALUE,  /* the median of one side's values */
    TARGET_RATIO,  /* side to other, pair by pair; of other's values at most `enough` counts */
    TARGET_ADDED,  /* milliseconds per token: side's median minus other's */
    TARGET_BEYOND, /* the last value of a course minus the last one of other's */
    TARGET_GROWTH, /* the last value of a course minus the one of its first step */
};

struct target {
    const char *name;
    const char *text; /* what is promised, for people */
    enum target_kind kind;
    struct key of, other;
    enum stats_comparison comparison;
    double limit;
    double enough; /* 0: there is no such value */
};

struct judgement {
    bool was_run; /* false: no samples; nothing else is set */
    struct interval found;
    enum stats_verdict verdict;
};

extern const struct target targets[];
extern const size_t targets_n;

/* Returns 0 or -errno with *err set. */
int target_judge(const struct target *t, const struct samples *all, struct judgement *ret_judgement,
                 struct apir_error *err);

/* ">=", ">", "<=" or "<"; "met", "missed", "undecided" or "not run here". */
const char *target_sign(const struct target *t);
const char *target_verdict(const struct judgement *j);

#endif
