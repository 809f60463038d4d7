/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and models of one process, each in a thread of its own (backends: tests/native/differ).
 * Natively one thread does it all in turn: what a thread computes must not depend on the others.
 */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS_MAX = 8 };

struct worker {
    const struct run *run;
    int index;
    void (*work)(struct worker *w);
    struct record record;
};

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    w->work(w);
    return NULL;
}

/* Runs n of them, and joins their records in order. */
static void workers_run(struct run *r, int n, void (*work)(struct worker *w))
{
    struct worker workers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];

    for (int i = 0; i < n; i++) {
        workers[i] = (struct worker){.run = r, .index = i, .work = work};
        if (r->native)
            worker_main(&workers[i]);
        else if (pthread_create(&threads[i], NULL, worker_main, &workers[i]) != 0)
            run_fail("no thread could be started");
    }
    for (int i = 0; i < n; i++) {
        char prefix[16];
        if (!r->native)
            pthread_join(threads[i], NULL);
        snprintf(prefix, sizeof(prefix), "thread %d: ", i);
        record_append(&r->record, prefix, &workers[i].record);
        record_fini(&workers[i].record);
    }
}

static void work_context(struct worker *w)
{
    for (int round = 0; round < 3; round++) {
        struct setup s;
        setup_case(&s, w->run);
        s.context.n_ubatch = (uint32_t)(64 - 13 * w->index);
        if (w->index % 2)
            s.context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        struct llama_context *ctx = run_context(w->run->model, &s);
        const uint32_t from = (uint32_t)(1000 * w->index + 100 * round);
        feed(ctx, &w->record, "prompt", 0, from, 0, 90);
        feed_singly(ctx, &w->record, "single", 0, from, 90, 12);
        llama_free(ctx);
    }
}

/* Contexts of one model. */
void case_thread_contexts(struct run *r)
{
    run_open(r);
    workers_run(r, 4, work_context);
}

/* (run_model() would change where all threads log to.) */
static void work_model(struct worker *w)
{
    for (int round = 0; round < 3; round++) {
        const bool extra = (w->index + round) % 2 == 0;
        struct setup s;
        setup_case(&s, w->run);
        struct llama_model *model =
            llama_model_load_from_file(extra ? w->run->extra_file : w->run->model_file, s.model);
        if (!model)
            run_fail("a model cannot be loaded by thread %d", w->index);
        struct llama_context *ctx = run_context(model, &s);
        feed(ctx, &w->record, "prompt", 0, (uint32_t)(100 * w->index), 0, 70);
        feed_singly(ctx, &w->record, "single", 0, 70, 70, 6);
        llama_free(ctx);
        llama_model_free(model);
    }
}

void case_thread_models(struct run *r)
{
    workers_run(r, 3, work_model);
}
