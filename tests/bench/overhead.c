/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `overhead`: how much a token costs through the plug-in beyond what it costs on the same
 * backend in this process. Host side: libggml-stamp, which computes nothing.
 *
 * Native and remoted blocks of tokens alternate in one process, so that both see
 * the same machine; every token is timed by itself and its stamp checked, which
 * proves that all inputs were there before the graph ran, that it ran once, and
 * that the logits are of this token. Neither preparing inputs nor checking is
 * timed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/ggml_probe.h"
#include "tests/bench/apir_bench.h"
#include "tests/bench/model.h"
#include "tests/bench/stats.h"
#include "tests/bench/traffic.h"

#define BLOCK   500 /* tokens timed in a row before the other side's turn */
#define WARM_UP 50  /* tokens before them that are not: caches, sleeping peers */

struct side {
    struct model model;
    double *us;                  /* one per timed token */
    double *phase[MODEL_PHASES]; /* what each of its calls took */
    size_t n;
};

/* Percentiles in µs; of what was added, and the bytes of a token that are neither input nor logits.
 */
struct figures {
    double p50, p90, p99, max;
    double beyond;
};

static const struct variant {
    const char *name, *what;
    enum model_road road;
} variants[] = {
    {"sched", "ggml's scheduler, as llama.cpp uses it", MODEL_SCHED},
    {"direct", "the backend's own functions, uid set", MODEL_DIRECT_UID},
    {"no-uid", "the same, uid 0 (ggml before 2026-04)", MODEL_DIRECT},
};

static void block_run(struct side *s)
{
    for (size_t i = 0; i < WARM_UP + BLOCK; i++) {
        model_prepare(&s->model);
        model_token(&s->model);
        model_check(&s->model);
        if (i < WARM_UP)
            continue;
        uint64_t last = s->model.began;
        for (int k = 0; k < MODEL_PHASES; k++) {
            s->phase[k][s->n] = (double)(s->model.ended[k] - last) / 1e3;
            last = s->model.ended[k];
        }
        s->us[s->n++] = (double)(last - s->model.began) / 1e3;
    }
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
    double *added = allocate(n, sizeof(double));
    for (size_t i = 0; i < n; i++)
        added[i] = figures_of(remoted->us + i * BLOCK, BLOCK).p50 -
                   figures_of(native->us + i * BLOCK, BLOCK).p50;
    stats_sort(added, n);
    printf("  %zu pairs of %d tokens: added p50 %.2f us in the lowest, %.2f / %.2f / %.2f at the"
           " quartiles, %.2f in the highest\n",
           n, BLOCK, added[0], added[n / 4], added[n / 2], added[n * 3 / 4], added[n - 1]);
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
static double traffic_measure(struct side *remoted)
{
    struct traffic t;
    enum { TOKENS = 1000 };
    traffic_find(&t);
    for (int i = 0; i < TOKENS; i++) {
        model_prepare(&remoted->model);
        model_token(&remoted->model);
        model_check(&remoted->model);
        traffic_count(&t);
    }
    traffic_print(&t, TOKENS, stdout);
    return (double)t.beyond / (double)(int)TOKENS;
}

static struct figures measure(size_t tokens, struct side *native, struct side *remoted)
{
    for (size_t done = 0; done < tokens; done += BLOCK) {
        /* Who goes first alternates too. */
        for (size_t turn = 0; turn < 2; turn++) {
            const bool is_native = ((done / BLOCK + turn) & 1) == 0;
            block_run(is_native ? native : remoted);
        }
    }
    pairs_print(native, remoted);
    struct figures a = figures_of(native->us, native->n);
    struct figures b = figures_of(remoted->us, remoted->n);
    struct figures added = {b.p50 - a.p50, b.p90 - a.p90, b.p99 - a.p99, b.max - a.max, 0};
    row_print("native", a);
    row_print("remoted", b);
    row_print("added", added);
    phases_print(native, remoted);
    added.beyond = traffic_measure(remoted);
    return added;
}

static void side_init(struct side *s, size_t n, const char *device, enum model_road road,
                      size_t uid_offset)
{
    *s = (struct side){.us = allocate(n, sizeof(double))};
    for (int k = 0; k < MODEL_PHASES; k++)
        s->phase[k] = allocate(n, sizeof(double));
    model_init(&s->model, device, road, uid_offset);
}

static void side_fini(struct side *s)
{
    model_fini(&s->model);
    free(s->us);
    for (int k = 0; k < MODEL_PHASES; k++)
        free(s->phase[k]);
}

static struct figures variant_run(const struct variant *v, size_t tokens, size_t uid_offset)
{
    struct side native, remoted;
    printf("%s: %s\n", v->name, v->what);
    side_init(&native, tokens, "STAMP0", v->road, uid_offset);
    side_init(&remoted, tokens, "APIR0", v->road, uid_offset);
    const struct figures added = measure(tokens, &native, &remoted);
    side_fini(&native);
    side_fini(&remoted);
    fflush(stdout);
    return added;
}

void command_overhead(const struct options *o)
{
    const size_t tokens = ((size_t)o->tokens + BLOCK - 1) / BLOCK * BLOCK;
    struct ggml_layout layout;
    struct figures added = {0};
    bool any = false;
    char why[256];
    ggml_backend_load_all();
    if (!o->stamp || !ggml_backend_load(o->stamp))
        fail("--stamp FILE: ggml cannot load %s; make all builds it", o->stamp ? o->stamp : "it");
    if (ggml_probe_layout(dlsym, RTLD_DEFAULT, &layout, why, sizeof(why)) < 0)
        fail("%s", why);
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        const struct variant *v = &variants[i];
        if (v->road != MODEL_DIRECT && !layout.cgraph_uid) {
            printf("%s: this ggml's graphs have no uid\n", v->name);
            continue;
        }
        const struct figures now = variant_run(v, tokens, layout.cgraph_uid);
        if (!any) /* the first of the table that this ggml can do is what counts */
            added = now;
        any = true;
    }
    sample_write(o, "added-p50", NO_PAIR, added.p50, "us");
    sample_write(o, "added-p99", NO_PAIR, added.p99, "us");
    sample_write(o, "bytes", NO_PAIR, added.beyond, "B/token");
    printf("overhead: p50 %.2f us, p99 %.2f us, %.0f bytes/token\n", added.p50, added.p99,
           added.beyond);
}
