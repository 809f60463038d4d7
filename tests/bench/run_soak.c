/* SPDX-License-Identifier: Apache-2.0 */
/* `soak` and `idle`: one side, and what its processes hold or burn. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/engine.h"
#include "tests/bench/proc.h"

enum {
    CONTEXT = 512, /* when it is full, the cache is emptied */
    STEPS = 10,
    IDLE_TOKENS = 32,
    IDLE_SETTLE_S = 2, /* peers look for work a while before they sleep */
};

struct soak {
    const struct options *o;
    FILE *out;
    struct engine e;
    int used; /* of the context */
};

static int sample_memory(struct soak *s, const char *metric, double mib, int step, int tokens,
                         struct apir_error *err)
{
    return options_sample(s->o, s->out, s->e.side->name, metric,
                          &(struct sample){.pair = step, .n = tokens, .value = mib, .unit = "MiB"},
                          err);
}

/* The worker, and the rest of the host side, which serves other containers as well. */
static int sample_host(struct soak *s, int step, int tokens, struct apir_error *err)
{
    struct proc_tree tree;
    double workers = 0, servers = 0;
    size_t n_workers = 0;
    int ret = proc_tree(s->o->server, &tree, err);
    for (size_t i = 0; ret == 0 && i < tree.n; i++) {
        double mib;
        bool is_worker = strcmp(tree.all[i].name, "apir-worker") == 0;
        ret = proc_memory(tree.all[i].pid, &mib, err);
        n_workers += is_worker;
        if (ret == 0)
            *(is_worker ? &workers : &servers) += mib;
    }
    if (ret == 0 && n_workers != 1)
        ret = apir_error_set(err, ESRCH,
                             "%zu apir-worker processes below %d; there must be one: is it this "
                             "program's server, and its only client?",
                             n_workers, s->o->server);
    if (ret == 0)
        ret = sample_memory(s, "memory-worker", workers, step, tokens, err);
    if (ret == 0)
        ret = sample_memory(s, "memory-servers", servers, step, tokens, err);
    return ret;
}

static int sample_step(struct soak *s, int step, int tokens, struct apir_error *err)
{
    double mib;
    int ret = proc_memory(getpid(), &mib, err);
    if (ret == 0)
        ret = sample_memory(s, "memory-process", mib, step, tokens, err);
    if (ret == 0 && s->o->server)
        ret = sample_host(s, step, tokens, err);
    return ret;
}

static int generate(struct soak *s, int n, struct apir_error *err)
{
    int ret = 0;
    while (n > 0 && ret == 0) {
        if (s->used == CONTEXT) {
            engine_clear(&s->e);
            s->used = 0;
        }
        int now = CONTEXT - s->used < n ? CONTEXT - s->used : n;
        double seconds;
        ret = engine_generate(&s->e, now, NULL, &seconds, err);
        s->used += now;
        n -= now;
    }
    return ret;
}

static int start(struct soak *s, struct apir_error *err)
{
    s->used = CONTEXT;
    int ret = engine_init(&s->e, &s->o->sides[0], err);
    if (ret == 0)
        ret = engine_load(&s->e, s->o, s->o->model, err);
    if (ret == 0)
        ret = engine_open(&s->e, s->o, CONTEXT, err);
    return ret;
}

static int soak_run(struct soak *s, struct apir_error *err)
{
    int ret = sample_step(s, 0, 0, err);
    for (int step = 1, done = 0; step <= STEPS && ret == 0; step++) {
        int to = (int)((int64_t)s->o->tokens * step / STEPS);
        ret = generate(s, to - done, err);
        done = to;
        if (ret == 0)
            ret = engine_check(&s->e, err);
        if (ret == 0)
            ret = sample_step(s, step, done, err);
    }
    return ret;
}

/* CPU seconds of this process, the server and all below it. */
static int cpu_now(const struct options *o, double *ret_seconds, struct apir_error *err)
{
    double sum;
    int ret = proc_cpu(getpid(), &sum, err);
    struct proc_tree tree = {0};
    if (ret == 0 && o->server)
        ret = proc_tree(o->server, &tree, err);
    for (size_t i = 0; ret == 0 && i < tree.n; i++) {
        double seconds;
        ret = proc_cpu(tree.all[i].pid, &seconds, err);
        sum += seconds;
    }
    *ret_seconds = sum;
    return ret;
}

static int sleep_for(double seconds, struct apir_error *err)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    int code;
    while ((code = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t)) == EINTR)
        ;
    return code ? apir_error_sys(err, code, "clock_nanosleep") : 0;
}

static int idle_run(struct soak *s, struct apir_error *err)
{
    double before, after;
    int ret = generate(s, IDLE_TOKENS, err);
    if (ret == 0)
        ret = sleep_for(IDLE_SETTLE_S, err);
    double began = engine_now();
    if (ret == 0)
        ret = cpu_now(s->o, &before, err);
    if (ret == 0)
        ret = sleep_for(s->o->seconds, err);
    if (ret == 0)
        ret = cpu_now(s->o, &after, err);
    if (ret < 0)
        return ret;
    double share = (after - before) / (engine_now() - began);
    /* Still alive: an idle worker that had died would look wonderful. */
    ret = generate(s, IDLE_TOKENS, err);
    if (ret == 0)
        ret = engine_check(&s->e, err);
    if (ret == 0)
        ret = options_sample(
            s->o, s->out, s->e.side->name, "idle",
            &(struct sample){.pair = SAMPLE_NO_PAIR, .value = share, .unit = "core"}, err);
    return ret;
}

static int run(const struct options *o, int (*body)(struct soak *, struct apir_error *),
               struct apir_error *err)
{
    struct soak s = {.o = o, .out = options_open_out(o, err)};
    if (!s.out)
        return -err->code;
    engine_setup(o->verbose);
    int ret = start(&s, err);
    if (ret == 0)
        ret = body(&s, err);
    engine_fini(&s.e);
    engine_teardown();
    if (s.out != stdout)
        fclose(s.out);
    return ret;
}

int command_soak(const struct options *o, struct apir_error *err)
{
    return run(o, soak_run, err);
}

int command_idle(const struct options *o, struct apir_error *err)
{
    return run(o, idle_run, err);
}
