/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

/* Up to a * at its end. */
static bool metric_matches(const char *metric, const char *pattern)
{
    const size_t size = strcspn(pattern, "*");
    return strncmp(metric, pattern, size) == 0 && (pattern[size] || !metric[size]);
}

bool table_matches(const struct sample *s, const struct key *key)
{
    return strcmp(s->name, key->name) == 0 && strcmp(s->side, key->side) == 0 &&
           metric_matches(s->metric, key->metric);
}

ssize_t table_values(const struct samples *all, const struct key *key, double **ret_values,
                     bool *ret_paired)
{
    double *values = calloc(all->n ? all->n : 1, sizeof(*values));
    size_t n = 0;
    bool paired = false;
    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i < all->n; i++) {
        if (!table_matches(&all->all[i], key))
            continue;
        values[n++] = sample_measure(&all->all[i]);
        paired |= all->all[i].pair != SAMPLE_NO_PAIR;
    }
    *ret_values = values;
    *ret_paired = paired;
    return (ssize_t)n;
}

static const struct sample *find_partner(const struct samples *all, const struct key *key,
                                         const struct sample *of)
{
    size_t size = strlen(key->metric);
    bool prefix = size && key->metric[size - 1] == '*';
    for (size_t i = 0; i < all->n; i++) {
        const struct sample *s = &all->all[i];
        if (s->pair == of->pair && table_matches(s, key) &&
            (!prefix || strcmp(s->metric, of->metric) == 0))
            return s;
    }
    return NULL;
}

ssize_t table_pairs(const struct samples *all, const struct key *a, const struct key *b,
                    bool per_token, double **ret_a, double **ret_b)
{
    cleanup_free double *as = calloc(all->n ? all->n : 1, sizeof(*as));
    cleanup_free double *bs = calloc(all->n ? all->n : 1, sizeof(*bs));
    size_t n = 0;
    if (!as || !bs)
        return -ENOMEM;
    for (size_t i = 0; i < all->n; i++) {
        const struct sample *s = &all->all[i];
        if (s->pair == SAMPLE_NO_PAIR || !table_matches(s, a))
            continue;
        const struct sample *other = find_partner(all, b, s);
        if (!other)
            continue;
        as[n] = per_token ? 1 / sample_measure(s) : sample_measure(s);
        bs[n++] = per_token ? 1 / sample_measure(other) : sample_measure(other);
    }
    *ret_a = steal_pointer(&as);
    *ret_b = steal_pointer(&bs);
    return (ssize_t)n;
}

const struct sample *table_step(const struct samples *all, const struct key *key, int64_t step)
{
    const struct sample *found = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct sample *s = &all->all[i];
        if (table_matches(s, key) &&
            (step >= 0 ? s->pair == step : !found || s->pair > found->pair))
            found = s;
    }
    return found;
}

static struct row *row_of(struct table *t, const struct sample *s)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->rows[i].name, s->name) == 0 && strcmp(t->rows[i].metric, s->metric) == 0)
            return &t->rows[i];
    }
    return NULL;
}

/* NULL: more sides than a row has place for. */
static struct cell *cell_of(struct row *r, const char *side)
{
    for (size_t i = 0; i < r->n_cells; i++) {
        if (strcmp(r->cells[i].side, side) == 0)
            return &r->cells[i];
    }
    if (r->n_cells == OPTIONS_SIDES_MAX)
        return NULL;
    r->cells[r->n_cells].side = side;
    return &r->cells[r->n_cells++];
}

static int cell_fill(struct row *r, struct cell *c, const struct samples *all,
                     struct apir_error *err)
{
    const struct key key = {r->name, c->side, r->metric},
                     native = {r->name, TABLE_NATIVE, r->metric};
    cleanup_free double *values = NULL;
    bool paired;
    ssize_t n = table_values(all, &key, &values, &paired);
    if (n < 0)
        return apir_error_sys(err, ENOMEM, "table");
    c->n = (size_t)n;
    c->median = stats_median(values, c->n);
    if (r->is_course || strcmp(c->side, TABLE_NATIVE) == 0)
        return 0;
    cleanup_free double *a = NULL;
    cleanup_free double *b = NULL;
    n = table_pairs(all, &key, &native, false, &a, &b);
    if (n < 0)
        return apir_error_sys(err, ENOMEM, "table");
    if (n == 0)
        return 0;
    for (ssize_t i = 0; i < n; i++)
        a[i] /= b[i];
    c->has_ratio = true;
    int rc = stats_interval(a, (size_t)n, &c->ratio);
    return rc < 0 ? apir_error_sys(err, -rc, "table") : 0;
}

static int table_add(struct table *t, const struct sample *s, struct apir_error *err)
{
    struct row *r = row_of(t, s);
    if (!r) {
        r = &t->rows[t->n++];
        *r = (struct row){
            .name = s->name,
            .metric = s->metric,
            .unit = s->unit[0] ? s->unit
                    : s->n > 0 ? "t/s"
                               : "s",
        };
    }
    r->is_course |= s->unit[0] && s->n > 0;
    if (!cell_of(r, s->side))
        return apir_error_set(err, E2BIG, "case %s: more than %d sides; report fewer files",
                              r->name, OPTIONS_SIDES_MAX);
    return 0;
}

int table_init(struct table *t, const struct samples *all, struct apir_error *err)
{
    *t = (struct table){.rows = calloc(all->n ? all->n : 1, sizeof(*t->rows))};
    if (!t->rows)
        return apir_error_sys(err, ENOMEM, "table");
    int rc = 0;
    for (size_t i = 0; i < all->n && rc == 0; i++)
        rc = table_add(t, &all->all[i], err);
    for (size_t i = 0; i < t->n && rc == 0; i++) {
        for (size_t k = 0; k < t->rows[i].n_cells && rc == 0; k++)
            rc = cell_fill(&t->rows[i], &t->rows[i].cells[k], all, err);
    }
    return rc;
}

void table_fini(struct table *t)
{
    free(t->rows);
    *t = (struct table){0};
}

static void course_print(const struct table *t, const struct samples *all, FILE *f)
{
    bool any = false;
    for (size_t i = 0; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        for (size_t k = 0; r->is_course && k < r->n_cells; k++) {
            const struct key key = {r->name, r->cells[k].side, r->metric};
            const struct sample *s[] = {table_step(all, &key, 0), table_step(all, &key, 1),
                                        table_step(all, &key, -1)};
            if (!any)
                fputs("\n| case | metric | side | unit | start | first step | last | tokens |\n"
                      "|---|---|---|---|---:|---:|---:|---:|\n",
                      f);
            any = true;
            fprintf(f, "| %s | %s | %s | %s |", r->name, r->metric, key.side, r->unit);
            for (size_t p = 0; p < sizeof(s) / sizeof(s[0]); p++) {
                if (s[p])
                    fprintf(f, " %.2f |", s[p]->value);
                else
                    fputs(" |", f);
            }
            fprintf(f, " %.0f |\n", s[2] ? s[2]->n : 0);
        }
    }
}

void table_print(const struct table *t, const struct samples *all, FILE *f)
{
    fputs("| case | metric | side | median | unit | n | side / native (95% interval) |\n"
          "|---|---|---|---:|---|---:|---|\n",
          f);
    for (size_t i = 0; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        for (size_t k = 0; !r->is_course && k < r->n_cells; k++) {
            const struct cell *c = &r->cells[k];
            fprintf(f, "| %s | %s | %s | %.4g | %s | %zu |", r->name, r->metric, c->side, c->median,
                    r->unit, c->n);
            if (c->has_ratio)
                fprintf(f, " %.4f (%.4f to %.4f) |\n", c->ratio.median, c->ratio.low,
                        c->ratio.high);
            else
                fputs(" |\n", f);
        }
    }
    course_print(t, all, f);
}
