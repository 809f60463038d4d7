/* SPDX-License-Identifier: Apache-2.0 */
/* From the few words of a case to llama.cpp's parameters. */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

static void tune_cache(struct llama_context_params *c, const struct tuning *t)
{
    static const enum llama_flash_attn_type flash[] = {
        [FLASH_ON] = LLAMA_FLASH_ATTN_TYPE_ENABLED,
        [FLASH_OFF] = LLAMA_FLASH_ATTN_TYPE_DISABLED,
        [FLASH_AUTO] = LLAMA_FLASH_ATTN_TYPE_AUTO,
    };
    c->flash_attn_type = flash[t->flash];
    c->offload_kqv = !t->kv_on_cpu;
    if (t->type_k)
        c->type_k = t->type_k;
    if (t->type_v)
        c->type_v = t->type_v;
}

static void tune_batches(struct llama_context_params *c, const struct tuning *t)
{
    if (t->batch)
        c->n_batch = t->batch;
    if (t->ubatch)
        c->n_ubatch = t->ubatch;
    c->kv_unified = !t->streams;
    c->op_offload = !t->no_op_offload;
    c->embeddings = t->embeddings;
    if (t->pooling) {
        c->embeddings = true;
        c->pooling_type = (enum llama_pooling_type)(t->pooling - 1);
        /* What is pooled is computed in one piece. */
        c->n_ubatch = c->n_batch;
    }
}

/* Two devices share alike, whatever memory each has free at the moment. */
static const float halves[64] = {1, 1};

void setup_case(struct setup *s, const struct run *r)
{
    const struct tuning *t = &r->test->tuning;

    setup_init(s, r);
    tune_cache(&s->context, t);
    tune_batches(&s->context, t);
    s->model.no_host = t->no_host;
    if (r->devices[1] && llama_max_devices() <= sizeof(halves) / sizeof(halves[0]))
        s->model.tensor_split = halves;
    if (t->gpu_layers && r->devices[0])
        s->model.n_gpu_layers = t->gpu_layers == NO_LAYERS ? 0 : t->gpu_layers;
    /* llama.cpp refuses it where there is no GPU: natively the same experts are simply there. */
    if (ggml_backend_dev_type(run_device(r)) != GGML_BACKEND_DEVICE_TYPE_CPU)
        s->context.moe_cache_size = t->moe_cache;
    if (t->split)
        s->model.split_mode = (enum llama_split_mode)(t->split - 1);
    if (t->load)
        s->model.load_mode = (enum llama_load_mode)(t->load - 1);
    if (t->on_cpu) {
        s->overrides[0] = (struct llama_model_tensor_buft_override){
            .pattern = t->on_cpu, .buft = ggml_backend_cpu_buffer_type()};
        s->model.tensor_buft_overrides = s->overrides;
    }
}
