/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts, models and backends of one process, each in a thread of its own. Natively one thread
 * does it all in turn: what a thread computes must not depend on the others.
 */
#include "tests/options/cases.h"
#include "tests/options/graph.h"
#include "tests/options/run.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS_MAX = 8 };

struct worker {
    const struct run *run;
    struct llama_model *model;
    ggml_backend_t backend;
    int index, err;
    int (*work)(struct worker *w);
    struct record record;
};

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    w->err = w->work(w);
    return NULL;
}

/* Runs n of them, and joins their records in order. */
static int workers_run(struct run *r, struct worker *workers, int n)
{
    pthread_t threads[THREADS_MAX];
    int err = 0;

    for (int i = 0; i < n; i++) {
        if (r->native)
            worker_main(&workers[i]);
        else if (pthread_create(&threads[i], NULL, worker_main, &workers[i]) != 0)
            return run_fail("no thread could be started"); /* the process ends with those it has */
    }
    for (int i = 0; i < n; i++) {
        char prefix[16];
        if (!r->native)
            pthread_join(threads[i], NULL);
        snprintf(prefix, sizeof(prefix), "thread %d: ", i);
        record_append(&r->record, prefix, &workers[i].record);
        record_fini(&workers[i].record);
        if (workers[i].err)
            err = -1;
    }
    return err;
}

static struct worker worker_make(struct run *r, int index, int (*work)(struct worker *))
{
    return (struct worker){.run = r, .index = index, .work = work};
}

/* ---- contexts of one model -------------------------------------------------------------- */

static int work_context(struct worker *w)
{
    int err = 0;
    for (int round = 0; !err && round < 3; round++) {
        struct setup s;
        setup_case(&s, w->run);
        s.context.n_ubatch = (uint32_t)(64 - 13 * w->index);
        if (w->index % 2)
            s.context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        struct llama_context *ctx = run_context(w->model, &s);
        if (!ctx)
            return -1;
        const uint32_t from = (uint32_t)(1000 * w->index + 100 * round);
        err = feed(ctx, &w->record, "prompt", 0, from, 0, 90);
        if (!err)
            err = feed_singly(ctx, &w->record, "single", 0, from, 90, 12);
        llama_free(ctx);
    }
    return err;
}

int case_thread_contexts(struct run *r)
{
    enum { N = 4 };
    struct worker workers[N];
    struct setup s;

    setup_case(&s, r);
    struct llama_model *model = run_model(r, r->model, &s);
    if (!model)
        return -1;
    for (int i = 0; i < N; i++) {
        workers[i] = worker_make(r, i, work_context);
        workers[i].model = model;
    }
    int err = workers_run(r, workers, N);
    llama_model_free(model);
    return err;
}

/* ---- models ------------------------------------------------------------------------------- */

static int work_model(struct worker *w)
{
    int err = 0;
    for (int round = 0; !err && round < 3; round++) {
        struct setup s;
        setup_case(&s, w->run);
        struct llama_model *model = llama_model_load_from_file(
            (w->index + round) % 2 ? w->run->model : w->run->extra, s.model);
        struct llama_context *ctx = model ? run_context(model, &s) : NULL;
        err = ctx ? feed(ctx, &w->record, "prompt", 0, (uint32_t)(100 * w->index), 0, 70) : -1;
        if (!err)
            err = feed_singly(ctx, &w->record, "single", 0, 70, 70, 6);
        if (ctx)
            llama_free(ctx);
        if (model)
            llama_model_free(model);
    }
    return err;
}

int case_thread_models(struct run *r)
{
    enum { N = 3 };
    struct worker workers[N];

    for (int i = 0; i < N; i++)
        workers[i] = worker_make(r, i, work_model);
    return workers_run(r, workers, N);
}

/* ---- backends -------------------------------------------------------------------------------- */

/* Every graph has a buffer of its own, which goes while other threads compute. */
static int work_backend(struct worker *w)
{
    int err = 0;
    for (uint32_t i = 0; !err && i < 60; i++) {
        char name[16];
        if (!w->backend) {
            w->backend = graph_backend(run_device(w->run));
            if (!w->backend)
                return run_fail("no backend");
        }
        snprintf(name, sizeof(name), "graph %u", i);
        err = graph_compute(w->backend, &w->record, name, 7919 * (uint32_t)w->index + i);
        if (i % 20 == 19) {
            ggml_backend_free(w->backend);
            w->backend = NULL;
        }
    }
    ggml_backend_free(w->backend);
    w->backend = NULL;
    return err;
}

int case_thread_backends(struct run *r)
{
    enum { N = 6 };
    struct worker workers[N];

    for (int i = 0; i < N; i++)
        workers[i] = worker_make(r, i, work_backend);
    return workers_run(r, workers, N);
}
