/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One measured value and its line in a samples file (JSON, one object per line):
 *
 *   {"case":"cpu-135M","side":"native","metric":"tg64","pair":3,"n":64,"seconds":0.81,
 *    "time":"2026-11-25T14:10:00Z","commit":"5e009a9"}
 *   {"case":"overhead","side":"apir","metric":"added-p50","value":8.9,"unit":"us"}
 *
 * A line has either "seconds" or "value" with "unit". "n" is how many tokens these seconds (or,
 * for a course over time, the tokens before this value) were. Lines of several sides with the
 * same "pair" were measured one after the other; a line without it is a single figure. "time" is
 * when it was measured, in UTC, and "commit" what: either may be missing.
 */
#ifndef APIR_BENCH_SAMPLE_H
#define APIR_BENCH_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SAMPLE_NAME_MAX = 47, SAMPLE_UNIT_MAX = 15, SAMPLE_NO_PAIR = -1 };

struct sample {
    char name[SAMPLE_NAME_MAX + 1]; /* the case */
    char side[SAMPLE_NAME_MAX + 1];
    char metric[SAMPLE_NAME_MAX + 1];
    char unit[SAMPLE_UNIT_MAX + 1];   /* of a value; empty: this is a duration */
    int64_t pair;                     /* SAMPLE_NO_PAIR: a single figure */
    double n;                         /* tokens; 0: none were counted */
    double value;                     /* in `unit`, or seconds */
    char time[SAMPLE_NAME_MAX + 1];   /* empty: not known, as the next */
    char commit[SAMPLE_NAME_MAX + 1]; /* as `git describe` calls it */
};

/* Letters, digits and -._: only, 1 to SAMPLE_NAME_MAX of them: such a name needs no quoting. */
bool sample_name_ok(const char *name);

/* Appends the line. Returns 0 or -errno. All names must be ok. */
int sample_write(FILE *f, const struct sample *s);

#endif
