/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a token costs through the plug-in beyond what it costs on the same
 * backend in this process. Host side: libggml-stamp, which computes nothing.
 *
 * Native and remoted blocks of tokens alternate in one process, so that both see
 * the same machine; every token is timed by itself and its stamp checked, which
 * proves that all inputs were there before the graph ran, that it ran once, and
 * that the logits are of this token. Neither preparing inputs nor checking is
 * timed. A wrong stamp ends the program with 1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/ggml_probe.h"
#include "tests/bench/model.h"
#include "tests/bench/sample.h"
#include "tests/bench/stats.h"
#include "tests/bench/traffic.h"

#define BLOCK   500 /* tokens timed in a row before the other side's turn */
#define WARM_UP 50  /* tokens before them that are not: caches, sleeping peers */

static const char usage[] =
    "usage: overhead --stamp LIBRARY [OPTION]...\n"
    "Times tokens on STAMP0 in this process and through the plug-in (GGML_BACKEND_PATH).\n"
    "\n"
    "  --stamp FILE    libggml-stamp.so\n"
    "  --tokens N      timed tokens per variant and side (200000)\n"
    "  --pin CORE      where this process runs from then on\n"
    "  --json FILE     append the last line's figures as samples for `apir-bench report`\n";

struct options {
    const char *stamp, *json;
    size_t tokens;
    size_t pin; /* SIZE_MAX: anywhere */
};

struct side {
    struct model model;
    double *us;                  /* one per timed token */
    double *phase[MODEL_PHASES]; /* what each of its calls took */
    size_t n;
};

/* Percentiles in µs. */
struct figures {
    double p50, p90, p99, max;
};

struct variant {
    const char *name, *what;
    enum model_road road;
};

static const struct variant variants[] = {
    {"sched", "ggml's scheduler, as llama.cpp uses it", MODEL_SCHED},
    {"direct", "the backend's own functions, uid set", MODEL_DIRECT_UID},
    {"no-uid", "the same, uid 0 (ggml before 2026-04)", MODEL_DIRECT},
};

/* One block; false: a wrong stamp. */
static bool block_run(struct side *s, size_t n)
{
    for (size_t i = 0; i < WARM_UP + n; i++) {
        model_prepare(&s->model);
        model_token(&s->model);
        if (!model_check(&s->model))
            return false;
        if (i < WARM_UP)
            continue;
        uint64_t last = s->model.began;
        for (int k = 0; k < MODEL_PHASES; k++) {
            s->phase[k][s->n] = (double)(s->model.ended[k] - last) / 1e3;
            last = s->model.ended[k];
        }
        s->us[s->n++] = (double)(last - s->model.began) / 1e3;
    }
    return true;
}

/* Sorts the samples. */
static struct figures figures_of(double *us, size_t n)
{
    stats_sort(us, n);
    return (struct figures){
        .p50 = stats_percentile(us, n, 50),
        .p90 = stats_percentile(us, n, 90),
        .p99 = stats_percentile(us, n, 99),
        .max = us[n - 1],
    };
}

/* How much the pairs differ among themselves: the quartiles of added p50. */
static void pairs_print(struct side *native, struct side *remoted)
{
    size_t n = native->n / BLOCK;
    double *added = malloc((n + 1) * sizeof(*added));
    for (size_t i = 0; added && i < n; i++)
        added[i] = figures_of(remoted->us + i * BLOCK, BLOCK).p50 -
                   figures_of(native->us + i * BLOCK, BLOCK).p50;
    if (added && n) {
        stats_sort(added, n);
        printf(
            "  %zu pairs of %d tokens: added p50 %.2f us in the lowest, %.2f / %.2f / %.2f at the"
            " quartiles, %.2f in the highest\n",
            n, BLOCK, added[0], added[n / 4], added[n / 2], added[n * 3 / 4], added[n - 1]);
    }
    free(added);
}

static void row_print(const char *name, struct figures f)
{
    printf("  %-8s p50 %8.2f  p90 %8.2f  p99 %8.2f  max %9.2f us\n", name, f.p50, f.p90, f.p99,
           f.max);
}

/* In which of the four calls the time goes: medians. */
static void phases_print(struct side *native, struct side *remoted)
{
    static const char *const names[MODEL_PHASES] = {"set inputs", "compute", "get", "synchronize"};
    for (int k = 0; k < MODEL_PHASES; k++)
        printf("  %-12s native %6.2f  remoted %6.2f us\n", names[k],
               figures_of(native->phase[k], native->n).p50,
               figures_of(remoted->phase[k], remoted->n).p50);
}

/* What a steady token sends. Not timed: decoding would stand in the way. */
static bool traffic_measure(struct side *remoted, double *ret_beyond)
{
    struct traffic t;
    enum { TOKENS = 1000 };
    if (!traffic_find(&t)) {
        fprintf(stderr, "overhead: this process has no ring\n");
        return false;
    }
    traffic_start(&t);
    for (int i = 0; i < TOKENS; i++) {
        model_prepare(&remoted->model);
        model_token(&remoted->model);
        if (!model_check(&remoted->model) || !traffic_count(&t))
            return false;
    }
    traffic_print(&t, TOKENS, stdout);
    *ret_beyond = (double)t.beyond / (double)(int)TOKENS;
    return true;
}

/* Returns false on a wrong stamp; *ret_added and *ret_beyond: the result. */
static bool measure(const struct options *o, struct side *native, struct side *remoted,
                    struct figures *ret_added, double *ret_beyond)
{
    for (size_t done = 0; done < o->tokens; done += BLOCK) {
        /* Who goes first alternates too. */
        for (size_t turn = 0; turn < 2; turn++) {
            const bool is_native = ((done / BLOCK + turn) & 1) == 0;
            if (!block_run(is_native ? native : remoted, BLOCK))
                return false;
        }
    }
    pairs_print(native, remoted);
    struct figures a = figures_of(native->us, native->n);
    struct figures b = figures_of(remoted->us, remoted->n);
    *ret_added = (struct figures){b.p50 - a.p50, b.p90 - a.p90, b.p99 - a.p99, b.max - a.max};
    row_print("native", a);
    row_print("remoted", b);
    row_print("added", *ret_added);
    phases_print(native, remoted);
    return traffic_measure(remoted, ret_beyond);
}

static bool side_init(struct side *s, size_t n)
{
    memset(s, 0, sizeof(*s));
    bool ok = (s->us = malloc(n * sizeof(*s->us))) != NULL;
    for (int k = 0; k < MODEL_PHASES; k++)
        ok = (s->phase[k] = malloc(n * sizeof(*s->us))) != NULL && ok;
    return ok;
}

static void side_fini(struct side *s)
{
    free(s->us);
    for (int k = 0; k < MODEL_PHASES; k++)
        free(s->phase[k]);
}

static bool variant_run(const struct options *o, const struct variant *v, size_t uid_offset,
                        struct figures *ret_added, double *ret_beyond)
{
    struct side native, remoted;
    printf("%s: %s\n", v->name, v->what);
    /* Both, so that both can be ended. */
    bool ok = side_init(&native, o->tokens);
    ok = side_init(&remoted, o->tokens) && ok;
    ok = ok && model_init(&native.model, "STAMP0", v->road, uid_offset) &&
         model_init(&remoted.model, "APIR0", v->road, uid_offset) &&
         measure(o, &native, &remoted, ret_added, ret_beyond);
    if (ok) {
        model_fini(&native.model);
        model_fini(&remoted.model);
    }
    side_fini(&native);
    side_fini(&remoted);
    fflush(stdout);
    return ok;
}

static int options_parse(struct options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"stamp", required_argument, NULL, 's'}, {"tokens", required_argument, NULL, 't'},
        {"pin", required_argument, NULL, 'p'},   {"json", required_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 's':
            o->stamp = optarg;
            break;
        case 't':
            o->tokens = strtoul(optarg, NULL, 10);
            break;
        case 'p':
            o->pin = strtoul(optarg, NULL, 10) % CPU_SETSIZE;
            break;
        case 'j':
            o->json = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            return -EINVAL;
        }
    }
    o->tokens = (o->tokens + BLOCK - 1) / BLOCK * BLOCK;
    return o->stamp && o->tokens && optind == argc ? 0 : -EINVAL;
}

/* Returns 0 or -errno. */
static int samples_append(const char *path, struct figures added, double beyond)
{
    const struct sample all[] = {
        {"overhead", "apir", "added-p50", "us", SAMPLE_NO_PAIR, 0, added.p50},
        {"overhead", "apir", "added-p99", "us", SAMPLE_NO_PAIR, 0, added.p99},
        {"overhead", "apir", "bytes", "B/token", SAMPLE_NO_PAIR, 0, beyond},
    };
    FILE *f = fopen(path, "ae");
    if (!f)
        return -errno;
    int ret = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && ret == 0; i++)
        ret = sample_write(f, &all[i]);
    if (fclose(f) != 0 && ret == 0)
        ret = -errno;
    return ret;
}

int main(int argc, char **argv)
{
    struct options o = {.pin = SIZE_MAX, .tokens = 200000};
    if (options_parse(&o, argc, argv) < 0) {
        fputs(usage, stderr);
        return 2;
    }
    ggml_backend_load_all();
    if (!ggml_backend_load(o.stamp)) {
        fprintf(stderr, "overhead: %s cannot be loaded\n", o.stamp);
        return 1;
    }
    struct ggml_layout layout;
    char why[256];
    if (ggml_probe_layout(dlsym, RTLD_DEFAULT, &layout, why, sizeof(why)) < 0) {
        fprintf(stderr, "overhead: %s\n", why);
        return 1;
    }
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (o.pin != SIZE_MAX) {
        CPU_SET(o.pin, &cores);
        sched_setaffinity(0, sizeof(cores), &cores);
    }
    struct figures headline = {0};
    double beyond = 0;
    bool any = false;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        const struct variant *v = &variants[i];
        if (v->road != MODEL_DIRECT && !layout.cgraph_uid) {
            printf("%s: this ggml's graphs have no uid\n", v->name);
            continue;
        }
        struct figures added = {0};
        double bytes = 0;
        if (!variant_run(&o, v, layout.cgraph_uid, &added, &bytes))
            return 1;
        if (!any) { /* the first of the table that this ggml can do */
            headline = added;
            beyond = bytes;
        }
        any = true;
    }
    if (any && o.json) {
        int ret = samples_append(o.json, headline, beyond);
        if (ret < 0) {
            fprintf(stderr, "overhead: --json %s: %s\n", o.json, strerror(-ret));
            return 1;
        }
    }
    if (any)
        printf("overhead: p50 %.2f us, p99 %.2f us, %.0f bytes/token\n", headline.p50, headline.p99,
               beyond);
    return any ? 0 : 2;
}
