/* SPDX-License-Identifier: Apache-2.0 */
/* LoRA adapters and control vectors, changed between batches. */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

#include <stdio.h>
#include <stdlib.h>

static struct llama_adapter_lora *load_adapter(struct run *r)
{
    struct llama_adapter_lora *adapter = llama_adapter_lora_init(r->model, r->extra_file);
    if (!adapter)
        run_fail("%s: no adapter", r->extra_file);
    return adapter;
}

/* The next tokens with the adapter at each of several scales; 0 is without, and no adapter at all.
 */
void case_lora(struct run *r)
{
    static const float scales[] = {1.0f, 0.5f, 0.0f, -1.0f, 1.0f};
    llama_pos pos = 0;

    run_open(r);
    struct llama_adapter_lora *adapter = load_adapter(r);
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
        float scale = scales[i];
        char name[32];
        record_int(&r->record, "set", llama_set_adapters_lora(r->ctx, &adapter, 1, &scale));
        snprintf(name, sizeof(name), "scale %g", (double)scale);
        feed(r->ctx, &r->record, name, 0, (uint32_t)pos, pos, 40);
        pos += 40;
        feed_singly(r->ctx, &r->record, name, 0, (uint32_t)pos, pos, 3);
        pos += 3;
    }
    record_int(&r->record, "set", llama_set_adapters_lora(r->ctx, NULL, 0, NULL));
    feed(r->ctx, &r->record, "without", 0, (uint32_t)pos, pos, 40);
}

/* Two contexts of one model, each with its own set of two adapters, swapped while both are used. */
void case_lora_swap(struct run *r)
{
    run_open(r);
    struct llama_context *ctx[2] = {r->ctx, run_context(r->model, &r->setup)};
    struct llama_adapter_lora *adapters[2] = {load_adapter(r), load_adapter(r)};
    for (int round = 0; round < 4; round++) {
        float scales[2] = {0.25f * (float)round, 0.75f};
        const size_t n = round == 2 ? 1 : 2;
        record_int(&r->record, "set", llama_set_adapters_lora(ctx[round % 2], adapters, n, scales));
        for (int i = 0; i < 2; i++)
            feed(ctx[i], &r->record, i ? "second" : "first", 0, (uint32_t)(40 * round), 40 * round,
                 40);
    }
    /* An adapter goes while contexts live, though not while they use it. */
    for (int i = 0; i < 2; i++)
        llama_set_adapters_lora(ctx[i], NULL, 0, NULL);
    llama_adapter_lora_free(adapters[0]);
    feed_singly(ctx[0], &r->record, "after", 0, 900, 160, 5);
    llama_free(ctx[1]);
}

void case_control_vector(struct run *r)
{
    run_open(r);
    const int32_t layers = llama_model_n_layer(r->model), embd = llama_model_n_embd(r->model);
    const size_t n = (size_t)embd * (size_t)(layers - 1);
    float *vector = calloc(n, sizeof(*vector));
    if (!vector)
        abort();
    for (size_t i = 0; i < n; i++)
        vector[i] = 0.01f * (float)(stream_token((uint32_t)i) - 135);
    feed(r->ctx, &r->record, "before", 0, 0, 0, 50);
    record_int(&r->record, "set", llama_set_adapter_cvec(r->ctx, vector, n, embd, 1, layers));
    feed(r->ctx, &r->record, "all layers", 0, 50, 50, 50);
    record_int(&r->record, "set", llama_set_adapter_cvec(r->ctx, vector, n, embd, 2, 2));
    feed_singly(r->ctx, &r->record, "one layer", 0, 100, 100, 5);
    record_int(&r->record, "set", llama_set_adapter_cvec(r->ctx, NULL, 0, embd, 0, 0));
    feed_singly(r->ctx, &r->record, "without", 0, 200, 105, 5);
    free(vector);
}
