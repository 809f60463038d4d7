/* SPDX-License-Identifier: Apache-2.0 */
/* Models that come and go, and that find no room. */
#include "tests/options/cases.h"
#include "tests/options/run.h"

int case_reload(struct run *r)
{
    int err = 0;

    for (int round = 0; !err && round < 4; round++) {
        struct setup s;
        struct pair p;
        setup_case(&s, r);
        if (pair_init(&p, r, &s) < 0)
            return -1;
        err = feed(p.ctx, &r->record, "prompt", 0, (uint32_t)round, 0, 70);
        if (!err)
            err = feed_singly(p.ctx, &r->record, "single", 0, 70, 70, 4);
        pair_fini(&p);
    }
    return err;
}

static bool on_progress(float progress, void *data)
{
    const float *until = data;
    return progress < *until;
}

/* The program breaks off loading at several points, and then loads the model after all. */
int case_load_cancel(struct run *r)
{
    static float until[] = {0.0f, 0.2f, 0.5f, 0.9f};
    struct setup s;

    for (size_t i = 0; i < sizeof(until) / sizeof(until[0]); i++) {
        setup_case(&s, r);
        s.model.progress_callback = on_progress;
        s.model.progress_callback_user_data = &until[i];
        struct llama_model *model = llama_model_load_from_file(r->model, s.model);
        record_int(&r->record, "loaded", model != NULL);
        if (model) {
            llama_model_free(model);
            return run_fail("loading went on after %g", (double)until[i]);
        }
    }
    return case_logits(r);
}

/* Without a model on the device the program takes the CPU, in the same process. */
static int on_the_cpu(struct run *r, const char *path)
{
    static ggml_backend_dev_t none[] = {NULL};
    struct setup s;

    setup_case(&s, r);
    s.model.devices = none;
    s.model.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(path, s.model);
    struct llama_context *ctx = model ? run_context(model, &s) : NULL;
    int err = ctx ? feed(ctx, &r->record, "on the CPU", 0, 0, 0, 80) : -1;
    if (ctx)
        llama_free(ctx);
    if (model)
        llama_model_free(model);
    return err;
}

/*
 * The host side gives this program less memory of the device than the first model needs. The CPU
 * has enough: there the case only does what comes after.
 */
int case_no_memory_model(struct run *r)
{
    struct setup s;
    struct pair p;

    setup_case(&s, r);
    for (int i = 0; !r->native && i < 3; i++) {
        struct llama_model *model = llama_model_load_from_file(r->extra, s.model);
        if (model) {
            llama_model_free(model);
            return run_fail("%s found room: the case tests nothing", r->extra);
        }
    }
    int err = on_the_cpu(r, r->extra);
    /* A smaller one still fits, so nothing of the large one is left on the device. */
    if (!err)
        err = pair_init(&p, r, &s);
    if (err)
        return err;
    err = feed(p.ctx, &r->record, "on the device", 0, 0, 0, 80);
    pair_fini(&p);
    return err;
}

/* The model fits and its cache does not; then a smaller one. */
int case_no_memory_context(struct run *r)
{
    struct setup s, large;
    struct pair p;
    int err = 0;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    setup_case(&large, r);
    large.context.n_ctx = 65536;
    for (int i = 0; !err && !r->native && i < 3; i++) {
        struct llama_context *ctx = llama_init_from_model(p.model, large.context);
        if (ctx) {
            llama_free(ctx);
            err = run_fail("the large context found room: the case tests nothing");
        }
        if (!err)
            err = feed(p.ctx, &r->record, "small", 0, (uint32_t)(100 * i), 20 * i, 20);
    }
    for (int i = 0; !err && r->native && i < 3; i++)
        err = feed(p.ctx, &r->record, "small", 0, (uint32_t)(100 * i), 20 * i, 20);
    if (!err)
        err = feed_singly(p.ctx, &r->record, "after", 0, 500, 60, 5);
    pair_fini(&p);
    return err;
}
