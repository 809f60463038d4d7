/* SPDX-License-Identifier: Apache-2.0 */
/* LoRA adapters and control vectors, changed between batches. */
#include "tests/options/cases.h"
#include "tests/options/run.h"

#include <stdio.h>
#include <stdlib.h>

/* The next tokens with the adapter at each of several scales; 0 is without, and no adapter at all.
 */
static int with_scales(struct run *r, struct llama_context *ctx, struct llama_adapter_lora *adapter)
{
    static const float scales[] = {1.0f, 0.5f, 0.0f, -1.0f, 1.0f};
    llama_pos pos = 0;
    int err = 0;

    for (size_t i = 0; !err && i < sizeof(scales) / sizeof(scales[0]); i++) {
        float scale = scales[i];
        char name[32];
        record_int(&r->record, "set", llama_set_adapters_lora(ctx, &adapter, 1, &scale));
        snprintf(name, sizeof(name), "scale %g", (double)scale);
        err = feed(ctx, &r->record, name, 0, (uint32_t)pos, pos, 40);
        pos += 40;
        if (!err)
            err = feed_singly(ctx, &r->record, name, 0, (uint32_t)pos, pos, 3);
        pos += 3;
    }
    record_int(&r->record, "set", llama_set_adapters_lora(ctx, NULL, 0, NULL));
    if (!err)
        err = feed(ctx, &r->record, "without", 0, (uint32_t)pos, pos, 40);
    return err;
}

int case_lora(struct run *r)
{
    struct setup s;
    struct pair p;
    int err = -1;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    struct llama_adapter_lora *adapter = llama_adapter_lora_init(p.model, r->extra);
    if (adapter)
        err = with_scales(r, p.ctx, adapter);
    else
        run_fail("%s: no adapter", r->extra);
    pair_fini(&p);
    return err;
}

/* Two contexts of one model, each with its own set of two adapters, swapped while both are used. */
int case_lora_swap(struct run *r)
{
    struct setup s;
    struct pair p;
    struct llama_adapter_lora *adapters[2] = {NULL, NULL};
    int err = -1;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    struct llama_context *ctx[2] = {p.ctx, run_context(p.model, &s)};
    for (int i = 0; i < 2; i++)
        adapters[i] = llama_adapter_lora_init(p.model, r->extra);
    if (ctx[1] && adapters[0] && adapters[1])
        err = 0;
    for (int round = 0; !err && round < 4; round++) {
        float scales[2] = {0.25f * (float)round, 0.75f};
        const size_t n = round == 2 ? 1 : 2;
        record_int(&r->record, "set", llama_set_adapters_lora(ctx[round % 2], adapters, n, scales));
        for (int i = 0; !err && i < 2; i++)
            err = feed(ctx[i], &r->record, i ? "second" : "first", 0, (uint32_t)(40 * round),
                       40 * round, 40);
    }
    /* An adapter goes while contexts live, though not while they use it. */
    for (int i = 0; i < 2 && ctx[1]; i++)
        llama_set_adapters_lora(ctx[i], NULL, 0, NULL);
    if (adapters[0])
        llama_adapter_lora_free(adapters[0]);
    if (!err)
        err = feed_singly(ctx[0], &r->record, "after", 0, 900, 160, 5);
    if (ctx[1])
        llama_free(ctx[1]);
    pair_fini(&p);
    return err;
}

int case_control_vector(struct run *r)
{
    struct setup s;
    struct pair p;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    const int32_t layers = llama_model_n_layer(p.model), embd = llama_model_n_embd(p.model);
    const size_t n = (size_t)embd * (size_t)(layers - 1);
    float *vector = calloc(n, sizeof(*vector));
    int err = vector ? 0 : -1;
    for (size_t i = 0; !err && i < n; i++)
        vector[i] = 0.01f * (float)(stream_token((uint32_t)i) - 135);
    if (!err)
        err = feed(p.ctx, &r->record, "before", 0, 0, 0, 50);
    if (!err) {
        record_int(&r->record, "set", llama_set_adapter_cvec(p.ctx, vector, n, embd, 1, layers));
        err = feed(p.ctx, &r->record, "all layers", 0, 50, 50, 50);
    }
    if (!err) {
        record_int(&r->record, "set", llama_set_adapter_cvec(p.ctx, vector, n, embd, 2, 2));
        err = feed_singly(p.ctx, &r->record, "one layer", 0, 100, 100, 5);
    }
    if (!err) {
        record_int(&r->record, "set", llama_set_adapter_cvec(p.ctx, NULL, 0, embd, 0, 0));
        err = feed_singly(p.ctx, &r->record, "without", 0, 200, 105, 5);
    }
    free(vector);
    pair_fini(&p);
    return err;
}
