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
    struct engine e;
    int used; /* of the context */
};

static void sample_memory(struct soak *s, const char *metric, double mib, int step, int tokens)
{
    options_sample(s->o, s->e.side->name, metric,
                   (struct sample){.pair = step, .n = tokens, .value = mib, .unit = "MiB"});
}

/* The worker, and the rest of the host side, which serves other containers as well. */
static void sample_host(struct soak *s, int step, int tokens)
{
    const struct proc_tree tree = proc_tree(s->o->server);
    double workers = 0, servers = 0;
    size_t n_workers = 0;
    for (size_t i = 0; i < tree.n; i++) {
        bool is_worker = strcmp(tree.all[i].name, "apir-worker") == 0;
        n_workers += is_worker;
        *(is_worker ? &workers : &servers) += proc_memory(tree.all[i].pid);
    }
    if (n_workers != 1)
        fail("%zu apir-worker processes below %d; there must be one: is it this program's server, "
             "and its only client?",
             n_workers, s->o->server);
    sample_memory(s, "memory-worker", workers, step, tokens);
    sample_memory(s, "memory-servers", servers, step, tokens);
}

static void sample_step(struct soak *s, int step, int tokens)
{
    sample_memory(s, "memory-process", proc_memory(getpid()), step, tokens);
    if (s->o->server)
        sample_host(s, step, tokens);
}

static void generate(struct soak *s, int n)
{
    while (n > 0) {
        if (s->used == CONTEXT) {
            engine_clear(&s->e);
            s->used = 0;
        }
        int now = CONTEXT - s->used < n ? CONTEXT - s->used : n;
        engine_generate(&s->e, now, NULL);
        s->used += now;
        n -= now;
    }
}

static void start(struct soak *s, const struct options *o)
{
    *s = (struct soak){.o = o, .used = CONTEXT};
    engine_setup(o);
    engine_start(&s->e, o, &o->sides[0], o->model, CONTEXT);
}

void command_soak(const struct options *o)
{
    struct soak s;
    start(&s, o);
    sample_step(&s, 0, 0);
    for (int step = 1, done = 0; step <= STEPS; step++) {
        int to = (int)((int64_t)o->tokens * step / STEPS);
        generate(&s, to - done);
        done = to;
        engine_check(&s.e);
        sample_step(&s, step, done);
    }
    engine_fini(&s.e);
}

/* CPU seconds of this process, the server and all below it. */
static double cpu_now(const struct options *o)
{
    const struct proc_tree tree = o->server ? proc_tree(o->server) : (struct proc_tree){.n = 0};
    double sum = proc_cpu(getpid());
    for (size_t i = 0; i < tree.n; i++)
        sum += proc_cpu(tree.all[i].pid);
    return sum;
}

static void sleep_for(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
        ;
}

void command_idle(const struct options *o)
{
    struct soak s;
    start(&s, o);
    generate(&s, IDLE_TOKENS);
    sleep_for(IDLE_SETTLE_S);
    double began = engine_now(), before = cpu_now(o);
    sleep_for(o->seconds);
    double share = (cpu_now(o) - before) / (engine_now() - began);
    /* Still alive: an idle worker that had died would look wonderful. */
    generate(&s, IDLE_TOKENS);
    engine_check(&s.e);
    options_sample(o, s.e.side->name, "idle",
                   (struct sample){.pair = SAMPLE_NO_PAIR, .value = share, .unit = "core"});
    engine_fini(&s.e);
}
