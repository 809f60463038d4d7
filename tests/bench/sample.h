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
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"

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
bool sample_unit_ok(const char *unit);

/* Appends the line. Returns 0 or -errno. All names must be ok. */
int sample_write(FILE *f, const struct sample *s);

/* Tokens per second, or the value (or duration) itself. */
double sample_measure(const struct sample *s);

struct json_object;

/* What the lines of one or more files held. Zero-initialise, and end with samples_fini. */
struct samples {
    struct sample *all;
    size_t n, space;
    struct json_object *facts; /* of the first line {"facts":{...}}, or NULL */
};

/*
 * Adds the lines of `text` (NUL-terminated; `path` names it in messages). A line that is not a
 * sample, or that repeats the case, side, metric and pair of an earlier one, is an error which
 * names its line. Returns 0 or -errno with *err set; what was added before stays.
 */
int samples_parse(struct samples *s, const char *path, const char *text, struct apir_error *err);
/* The same for a file. */
int samples_read(struct samples *s, const char *path, struct apir_error *err);
void samples_fini(struct samples *s);

#endif
