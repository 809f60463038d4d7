/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run of a model gave: named sections of floats, in the order in which they were computed.
 * On disk in the byte order of the machine; both runs are made on the same one.
 */
#ifndef APIR_TESTS_ARCHS_ROWS_H
#define APIR_TESTS_ARCHS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct rows {
    FILE *f;
    bool failed;    /* something could not be written */
    size_t n;       /* values written */
    size_t nonzero; /* finite ones that are not 0 */
};

int rows_create(struct rows *r, const char *path);
void rows_put(struct rows *r, const char *section, const float *x, size_t n);
/* A return code is a section of one value: both runs must fail alike. */
void rows_put_code(struct rows *r, const char *section, int code);
/* Returns 0, or -1 if anything could not be written. */
int rows_close(struct rows *r);

/*
 * Compares two files and prints one line. With a tolerance of 0 they must agree to the last bit;
 * else the normalised mean squared error of each section is at most that. Returns 0 if so.
 */
int rows_compare(const char *native, const char *remoted, double tolerance);

#endif
