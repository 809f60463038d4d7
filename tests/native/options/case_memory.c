/* SPDX-License-Identifier: Apache-2.0 */
/* Models that come and go, and that find no room. */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

void case_reload(struct run *r)
{
    for (int round = 0; round < 4; round++) {
        run_open(r);
        feed(r->ctx, &r->record, "prompt", 0, (uint32_t)round, 0, 70);
        feed_singly(r->ctx, &r->record, "single", 0, 70, 70, 4);
        run_close(r);
    }
}

static bool on_progress(float progress, void *data)
{
    const float *until = data;
    return progress < *until;
}

/* The program breaks off loading at several points, and then loads the model after all. */
void case_load_cancel(struct run *r)
{
    static float until[] = {0.0f, 0.2f, 0.5f, 0.9f};

    for (size_t i = 0; i < sizeof(until) / sizeof(until[0]); i++) {
        struct llama_model_params p = r->setup.model;
        p.progress_callback = on_progress;
        p.progress_callback_user_data = &until[i];
        struct llama_model *model = llama_model_load_from_file(r->model_file, p);
        record_int(&r->record, "loaded", !!model);
        if (model)
            run_fail("loading went on after %g", (double)until[i]);
    }
    case_logits(r);
}

/* Without a model on the device the program takes the CPU, in the same process. */
static void on_the_cpu(struct run *r, const char *path)
{
    struct setup s;

    setup_case(&s, r);
    s.devices[0] = NULL;
    s.model.n_gpu_layers = 0;
    struct llama_model *model = run_model(path, &s);
    struct llama_context *ctx = run_context(model, &s);
    feed(ctx, &r->record, "on the CPU", 0, 0, 0, 80);
    llama_free(ctx);
    llama_model_free(model);
}

/*
 * The host side gives this program less memory of the device than the first model needs. The CPU
 * has enough: there the case only does what comes after.
 */
void case_no_memory_model(struct run *r)
{
    for (int i = 0; !r->native && i < 3; i++) {
        if (llama_model_load_from_file(r->extra_file, r->setup.model))
            run_fail("%s found room: the case tests nothing", r->extra_file);
    }
    on_the_cpu(r, r->extra_file);
    /* A smaller one still fits, so nothing of the large one is left on the device. */
    run_open(r);
    feed(r->ctx, &r->record, "on the device", 0, 0, 0, 80);
}

/* The model fits and its cache does not; then a smaller one. */
void case_no_memory_context(struct run *r)
{
    run_open(r);
    struct llama_context_params large = r->setup.context;
    large.n_ctx = 65536;
    for (int i = 0; i < 3; i++) {
        if (!r->native && llama_init_from_model(r->model, large))
            run_fail("the large context found room: the case tests nothing");
        feed(r->ctx, &r->record, "small", 0, (uint32_t)(100 * i), 20 * i, 20);
    }
    feed_singly(r->ctx, &r->record, "after", 0, 500, 60, 5);
}
