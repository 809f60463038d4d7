/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare A B: are two records equal bit for bit? Exit 0 if so, 1 if not (the first difference is
 * printed), 2 if there is nothing to compare.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/parity/record.h"

/* A record that would equal any broken run proves nothing. */
static bool is_degenerate(const struct record *r, const char *path)
{
    for (size_t row = 0; row < record_rows(r); row++) {
        const float *x = record_row(r, row);
        float lowest = x[0], highest = x[0];
        for (uint32_t i = 0; i < r->n_vocab; i++) {
            if (!isfinite(x[i])) {
                printf("%s: row %zu, token %" PRIu32 ": %g\n", path, row, i, (double)x[i]);
                return true;
            }
            lowest = fminf(lowest, x[i]);
            highest = fmaxf(highest, x[i]);
        }
        if (!(highest > lowest)) {
            printf("%s: row %zu: all logits are %g\n", path, row, (double)lowest);
            return true;
        }
    }
    return false;
}

static uint32_t bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    return u;
}

static bool same_tokens(const struct record *a, const struct record *b)
{
    for (size_t i = 0; i < record_rows(a); i++) {
        if (a->tokens[i] == b->tokens[i])
            continue;
        printf("token %zu of %zu (%s): %" PRId32 " against %" PRId32 "\n", i, record_rows(a),
               i < a->n_prompt ? "prompt" : "generated", a->tokens[i], b->tokens[i]);
        return false;
    }
    return true;
}

static bool same_logits(const struct record *a, const struct record *b)
{
    size_t different = 0, rows = 0;
    double worst = 0;

    for (size_t row = 0; row < record_rows(a); row++) {
        const float *x = record_row(a, row), *y = record_row(b, row);
        if (memcmp(x, y, a->n_vocab * sizeof(*x)) == 0)
            continue;
        rows++;
        for (uint32_t i = 0; i < a->n_vocab; i++) {
            if (bits(x[i]) == bits(y[i]))
                continue;
            if (different++ == 0)
                printf("first difference: %s row %zu, token %" PRIu32 ": %.9g (%08" PRIx32
                       ") against %.9g (%08" PRIx32 ")\n",
                       row < a->n_prompt ? "prompt" : "generation",
                       row < a->n_prompt ? row : row - a->n_prompt, i, (double)x[i], bits(x[i]),
                       (double)y[i], bits(y[i]));
            worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
        }
    }
    if (different)
        printf("%zu of %zu logits differ, in %zu of %zu rows, by at most %g\n", different,
               record_rows(a) * a->n_vocab, rows, record_rows(a), worst);
    return different == 0;
}

int main(int argc, char **argv)
{
    struct record r[2] = {0};

    if (argc != 3) {
        fprintf(stderr, "usage: compare RECORD RECORD\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        if (record_load(&r[i], argv[i + 1]) < 0) {
            fprintf(stderr, "compare: %s: %s\n", argv[i + 1], strerror(errno));
            return 2;
        }
    }
    if (r[0].n_vocab != r[1].n_vocab || r[0].n_prompt != r[1].n_prompt ||
        r[0].n_gen != r[1].n_gen) {
        fprintf(stderr, "compare: the runs had other sizes\n");
        return 2;
    }

    bool same = !is_degenerate(&r[0], argv[1]) && !is_degenerate(&r[1], argv[2]);
    same &= same_tokens(&r[0], &r[1]);
    same &= same_logits(&r[0], &r[1]);
    if (memcmp(&r[0].perplexity, &r[1].perplexity, sizeof(double)) != 0) {
        printf("perplexity: %.17g against %.17g\n", r[0].perplexity, r[1].perplexity);
        same = false;
    }
    if (same) {
        printf("equal: %zu rows of %" PRIu32 " logits, hash %016" PRIx64, record_rows(&r[0]),
               r[0].n_vocab, record_hash(&r[0]));
        if (r[0].perplexity > 0)
            printf(", perplexity %.17g", r[0].perplexity);
        printf("\n");
    }
    record_fini(&r[0]);
    record_fini(&r[1]);
    return same ? 0 : 1;
}
