/* SPDX-License-Identifier: Apache-2.0 */
/* `report`: from samples to results.json, table.md, the chart and the verdicts. */
#define _GNU_SOURCE
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/bench/targets.h"

struct report {
    const struct options *o;
    struct samples samples;
    struct table table;
    struct judgement *judgements; /* one for each of targets[] */
    size_t met, of;
};

static bool is_wanted(const struct report *r, const struct target *t)
{
    return !r->o->targets || strncmp(t->name, r->o->targets, strlen(r->o->targets)) == 0;
}

static void judge_all(struct report *r)
{
    struct apir_error err = {0};
    bool any = false;
    r->judgements = allocate(targets_n, sizeof(*r->judgements));
    for (size_t i = 0; i < targets_n; i++) {
        struct judgement *j = &r->judgements[i];
        if (!is_wanted(r, &targets[i]))
            continue;
        any = true;
        if (target_judge(&targets[i], &r->samples, j, &err) < 0)
            fail("%s", err.msg);
        r->of += j->was_run;
        r->met += j->was_run && j->verdict == STATS_MET;
    }
    if (!any)
        fail("--targets %s: no target's name begins so; leave it out to see all", r->o->targets);
}

/* Of what the samples are: more than one where several runs are reported together. To be put. */
static struct json_object *commits_list(const struct samples *all)
{
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < all->n; i++) {
        bool known = !all->all[i].commit[0];
        for (size_t k = 0; !known && k < json_object_array_length(list); k++)
            known = strcmp(json_object_get_string(json_object_array_get_idx(list, k)),
                           all->all[i].commit) == 0;
        if (!known)
            json_object_array_add(list, json_object_new_string(all->all[i].commit));
    }
    return list;
}

static void facts_print(const struct report *r, FILE *f)
{
    struct json_object *commits = commits_list(&r->samples);
    if (json_object_array_length(commits) > 0)
        fprintf(f, "- commits: %s\n",
                json_object_to_json_string_ext(commits, JSON_C_TO_STRING_SPACED));
    json_object_put(commits);
    if (!r->samples.facts)
        return;
    json_object_object_foreach(r->samples.facts, key, value)
    {
        fprintf(f, "- %s: %s\n", key,
                json_object_is_type(value, json_type_string)
                    ? json_object_get_string(value)
                    : json_object_to_json_string_ext(value, JSON_C_TO_STRING_SPACED));
    }
    fputc('\n', f);
}

static void verdicts_print(const struct report *r, FILE *f)
{
    fputs("\n| target | what | found (95% interval) | wanted | verdict |\n|---|---|---|---|---|\n",
          f);
    for (size_t i = 0; i < targets_n; i++) {
        const struct target *t = &targets[i];
        const struct judgement *j = &r->judgements[i];
        if (!is_wanted(r, t))
            continue;
        fprintf(f, "| %s | %s | ", t->name, t->text);
        if (j->was_run)
            fprintf(f, "%.4g", j->found.median);
        if (j->was_run && !j->found.is_single)
            fprintf(f, " (%.4g to %.4g; n=%zu)", j->found.low, j->found.high, j->found.n);
        fprintf(f, " | %s %.4g | %s |\n", target_sign(t), t->limit, target_verdict(j));
    }
}

static void report_print(const struct report *r, FILE *f)
{
    facts_print(r, f);
    table_print(&r->table, &r->samples, f);
    verdicts_print(r, f);
}

static void add_number(struct json_object *o, const char *key, double value)
{
    json_object_object_add(o, key, json_object_new_double(value));
}

static void add_text(struct json_object *o, const char *key, const char *text)
{
    json_object_object_add(o, key, json_object_new_string(text));
}

static void add_count(struct json_object *o, const char *key, size_t n)
{
    json_object_object_add(o, key, json_object_new_int64((int64_t)n));
}

static struct json_object *interval_json(const struct interval *i)
{
    struct json_object *o = json_object_new_object();
    add_number(o, "median", i->median);
    add_number(o, "low", i->low);
    add_number(o, "high", i->high);
    add_count(o, "n", i->n);
    return o;
}

static struct json_object *rows_json(const struct table *t)
{
    struct json_object *rows = json_object_new_array();
    for (size_t i = 0; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        struct json_object *row = json_object_new_object(), *sides = json_object_new_object();
        add_text(row, "case", r->name);
        add_text(row, "metric", r->metric);
        add_text(row, "unit", r->unit);
        json_object_object_add(row, "course", json_object_new_boolean(r->is_course));
        for (size_t k = 0; k < r->n_cells; k++) {
            const struct cell *c = &r->cells[k];
            struct json_object *side = json_object_new_object();
            add_number(side, "median", c->median);
            add_count(side, "n", c->n);
            if (c->has_ratio)
                json_object_object_add(side, "ratio", interval_json(&c->ratio));
            json_object_object_add(sides, c->side, side);
        }
        json_object_object_add(row, "sides", sides);
        json_object_array_add(rows, row);
    }
    return rows;
}

static struct json_object *targets_json(const struct report *r)
{
    struct json_object *all = json_object_new_array();
    for (size_t i = 0; i < targets_n; i++) {
        const struct target *t = &targets[i];
        const struct judgement *j = &r->judgements[i];
        if (!is_wanted(r, t))
            continue;
        struct json_object *o = json_object_new_object();
        add_text(o, "name", t->name);
        add_text(o, "what", t->text);
        add_text(o, "case", t->of.name);
        add_text(o, "side", t->of.side);
        add_text(o, "metric", t->of.metric);
        add_text(o, "comparison", target_sign(t));
        add_number(o, "target", t->limit);
        if (j->was_run)
            json_object_object_add(o, "found", interval_json(&j->found));
        add_text(o, "verdict", target_verdict(j));
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *samples_json(const struct samples *all)
{
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < all->n; i++) {
        const struct sample *s = &all->all[i];
        struct json_object *o = json_object_new_object();
        add_text(o, "case", s->name);
        add_text(o, "side", s->side);
        add_text(o, "metric", s->metric);
        if (s->pair != SAMPLE_NO_PAIR)
            json_object_object_add(o, "pair", json_object_new_int64(s->pair));
        if (s->n > 0)
            add_number(o, "n", s->n);
        add_number(o, s->unit[0] ? "value" : "seconds", s->value);
        if (s->unit[0])
            add_text(o, "unit", s->unit);
        json_object_array_add(list, o);
    }
    return list;
}

static void results_write(const struct report *r, const char *path)
{
    struct json_object *o = json_object_new_object(), *method = json_object_new_object();
    add_text(o, "schema", "apir-bench-results-1");
    json_object_object_add(o, "facts", json_object_get(r->samples.facts));
    json_object_object_add(o, "commits", commits_list(&r->samples));
    add_text(method, "interval", "percentile bootstrap of the median");
    add_number(method, "coverage", 0.95);
    add_count(method, "resamples", STATS_RESAMPLES);
    add_count(method, "seed", STATS_SEED);
    add_count(method, "deciding", STATS_DECIDING);
    json_object_object_add(o, "method", method);
    json_object_object_add(o, "rows", rows_json(&r->table));
    json_object_object_add(o, "targets", targets_json(r));
    add_count(o, "met", r->met);
    add_count(o, "of", r->of);
    json_object_object_add(o, "samples", samples_json(&r->samples));
    if (json_object_to_file_ext(path, o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED))
        fail("%s: %s", path, json_util_get_last_err());
    json_object_put(o);
}

static void report_write(const struct report *r)
{
    const char *dir = r->o->out;
    char path[PATH_MAX];
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        fail("--out %s: %m", dir);
    snprintf(path, sizeof(path), "%s/results.json", dir);
    results_write(r, path);
    snprintf(path, sizeof(path), "%s/table.md", dir);
    FILE *f = fopen(path, "we");
    if (!f)
        fail("%s: %m", path);
    report_print(r, f);
    if (ferror(f) || fclose(f) != 0)
        fail("%s: %m", path);
    chart_write(&r->table, dir);
}

void command_report(const struct options *o)
{
    struct report r = {.o = o};
    struct apir_error err = {0};
    for (size_t i = 0; i < o->n_list; i++) {
        if (samples_read(&r.samples, o->list[i], &err) < 0)
            fail("%s", err.msg);
    }
    if (r.samples.n == 0)
        fail("no samples in these files; run something first");
    if (table_init(&r.table, &r.samples, &err) < 0)
        fail("%s", err.msg);
    judge_all(&r);
    report_write(&r);
    report_print(&r, stdout);
    printf("\nbench: %zu of %zu targets met\n", r.met, r.of);
    free(r.judgements);
    table_fini(&r.table);
    samples_fini(&r.samples);
}
