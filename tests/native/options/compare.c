/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options-compare [--nmse X] A B: are two records the same? Exit 0 if so, 1 if not (the first
 * difference is printed), 2 if there is nothing to compare.
 *
 * Without --nmse every value must be the same bit for bit. With it, the normalised mean square
 * error of each item of floats may be X.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/native/options/record.h"

static float value(const struct record_item *item, uint32_t i)
{
    float x;
    memcpy(&x, &item->values[i], sizeof(x));
    return x;
}

/* An item that would equal that of any broken run proves nothing. */
static bool is_degenerate(const struct record_item *item, const char *path)
{
    if (item->n == 0) {
        printf("%s: %s is empty\n", path, item->name);
        return true;
    }
    if (item->kind != RECORD_FLOATS)
        return false;
    float lowest = value(item, 0), highest = value(item, 0);
    for (uint32_t i = 0; i < item->n; i++) {
        const float x = value(item, i);
        if (!isfinite(x)) {
            printf("%s: %s, value %" PRIu32 " is %g\n", path, item->name, i, (double)x);
            return true;
        }
        lowest = fminf(lowest, x);
        highest = fmaxf(highest, x);
    }
    /* One value, as a rank is, can only not be zero. */
    if (item->n == 1 ? highest != 0 : highest > lowest)
        return false;
    printf("%s: all values of %s are %g\n", path, item->name, (double)lowest);
    return true;
}

static bool is_float(const struct record_item *item)
{
    return item->kind == RECORD_FLOATS || item->kind == RECORD_MASKED;
}

/* NaN agrees with nothing. */
static double nmse(const struct record_item *a, const struct record_item *b)
{
    double error = 0, size = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const double x = (double)value(a, i), y = (double)value(b, i);
        /* Masked logits are infinite on both sides. */
        if (a->values[i] == b->values[i] && !isfinite(x))
            continue;
        error += (x - y) * (x - y);
        size += x * x;
    }
    return size > 0 ? error / size : error;
}

static void show_difference(const struct record_item *a, const struct record_item *b)
{
    uint32_t different = 0, first = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->values[i] != b->values[i] && different++ == 0)
            first = i;
    }
    printf("%s: %" PRIu32 " of %" PRIu32 " differ, first the %" PRIu32 ".: ", a->name, different,
           a->n, first);
    if (is_float(a))
        printf("%.9g against %.9g, nmse %.3g\n", (double)value(a, first), (double)value(b, first),
               nmse(a, b));
    else
        printf("%" PRId32 " against %" PRId32 "\n", (int32_t)a->values[first],
               (int32_t)b->values[first]);
}

/* `limit` is 0 where every bit must be the same. */
static bool same_item(const struct record_item *a, const struct record_item *b, double limit,
                      double *worst)
{
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind || a->n != b->n) {
        printf("%s with %" PRIu32 " values against %s with %" PRIu32 "\n", a->name, a->n, b->name,
               b->n);
        return false;
    }
    if (memcmp(a->values, b->values, a->n * sizeof(*a->values)) == 0)
        return true;
    if (limit > 0 && is_float(a)) {
        const double error = nmse(a, b);
        *worst = fmax(*worst, error);
        if (error <= limit)
            return true;
    }
    show_difference(a, b);
    return false;
}

static bool same(const struct record *a, const struct record *b, char **paths, double limit)
{
    uint64_t values = 0;
    double worst = 0;

    for (size_t i = 0; i < a->n && i < b->n; i++) {
        if (is_degenerate(&a->items[i], paths[0]) || is_degenerate(&b->items[i], paths[1]) ||
            !same_item(&a->items[i], &b->items[i], limit, &worst))
            return false;
        values += a->items[i].n;
    }
    if (a->n != b->n) {
        printf("%zu items against %zu\n", a->n, b->n);
        return false;
    }
    if (worst > 0)
        printf("%zu items, %" PRIu64 " values, nmse %.2g at most\n", a->n, values, worst);
    else
        printf("equal: %zu items, %" PRIu64 " values\n", a->n, values);
    return true;
}

int main(int argc, char **argv)
{
    struct record r[2] = {0};
    double limit = 0;

    if (argc == 5 && strcmp(argv[1], "--nmse") == 0) {
        limit = strtod(argv[2], NULL);
        argv += 2;
        argc -= 2;
    }
    if (argc != 3) {
        fprintf(stderr, "usage: options-compare [--nmse X] RECORD RECORD\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        if (record_load(&r[i], argv[i + 1]) < 0) {
            fprintf(stderr, "options-compare: %s: %s\n", argv[i + 1], strerror(errno));
            return 2;
        }
        if (r[i].n == 0) {
            fprintf(stderr, "options-compare: %s has no items\n", argv[i + 1]);
            return 2;
        }
    }
    bool ok = same(&r[0], &r[1], argv + 1, limit);
    record_fini(&r[0]);
    record_fini(&r[1]);
    return ok ? 0 : 1;
}
