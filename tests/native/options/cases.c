/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/options/cases.h"

#include <stdio.h>
#include <string.h>

#include <llama.h>

/* The names of the parameters, not llama.cpp's words for them, would be wider than a line. */
#define LOGITS       .run = case_logits
#define GQA          .model = "llama-gqa-f16"
#define GQA_F32      .model = "llama-gqa-f32"
#define GQA_Q4       .model = "llama-gqa-q4_0"
#define GQA_Q8       .model = "llama-gqa-q8_0"
#define MOE          .model = "qwen3moe-q4_0"
#define MOE_F16      .model = "qwen3moe-f16"
#define MOE_F32      .model = "qwen3moe-f32"
#define CACHE(k, v)  .type_k = GGML_TYPE_##k, .type_v = GGML_TYPE_##v
#define ALL_EXPERTS  "\\.ffn_(up|down|gate)_exps"
#define SOME_EXPERTS "blk\\.[01]\\.ffn_(up|down|gate)_exps"

/*
 * Where the guest's CPU has a part of the model (gpu_layers, on_cpu), the weights are of a type
 * that no CPU repacks (one with AMX does so with f16, but for experts): natively llama.cpp repacks
 * all that it can, and beside a device it leaves the CPU's part plain, which rounds otherwise.
 */
/* clang-format off */
static const struct options_case cases[] = {
    {"plain", LOGITS, GQA},
    {"plain-q4_0", LOGITS, GQA_Q4, .part = true},
    {"plain-q8_0", LOGITS, GQA_Q8},
    {"plain-moe", LOGITS, MOE},

    /* The cache. */
    {"cache-bf16", LOGITS, GQA, .tuning = {CACHE(BF16, BF16)}},
    {"cache-q8_0", LOGITS, GQA, .tuning = {CACHE(Q8_0, Q8_0)}, .part = true},
    {"cache-q4_0", LOGITS, GQA_Q4, .tuning = {CACHE(Q4_0, Q4_0)}},
    {"cache-iq4_nl", LOGITS, GQA, .tuning = {CACHE(IQ4_NL, IQ4_NL)}},
    {"cache-half-blocks", LOGITS, .model = "llama-narrow-f16",
     .tuning = {CACHE(IQ4_NL, F16), .flash = FLASH_OFF}, .part = true},
    {"cache-q8_0-f16", LOGITS, GQA, .tuning = {CACHE(Q8_0, F16)}},
    {"cache-q8_0-fa-off", LOGITS, GQA_Q4, .tuning = {CACHE(Q8_0, F16), .flash = FLASH_OFF}},
    {"cache-bf16-fa-off", LOGITS, GQA, .tuning = {CACHE(BF16, BF16), .flash = FLASH_OFF}},
    {"cache-q8_0-moe", LOGITS, MOE, .tuning = {CACHE(Q8_0, Q8_0)}},
    {"nkvo", LOGITS, GQA_Q4, .tuning = {.kv_on_cpu = true}, .part = true},
    {"nkvo-fa-off", LOGITS, GQA, .tuning = {.kv_on_cpu = true, .flash = FLASH_OFF}},
    {"nkvo-q8_0", LOGITS, GQA, .tuning = {.kv_on_cpu = true, CACHE(Q8_0, Q8_0)}},
    {"nkvo-moe", LOGITS, MOE, .tuning = {.kv_on_cpu = true}},
    {"fa-off", LOGITS, GQA, .tuning = {.flash = FLASH_OFF}},
    {"fa-auto", LOGITS, GQA, .tuning = {.flash = FLASH_AUTO}},

    /* What computes where. */
    {"ngl-0", LOGITS, GQA_F32, .tuning = {.gpu_layers = NO_LAYERS}},
    {"ngl-0-no-op-offload", LOGITS, GQA_F32,
     .tuning = {.gpu_layers = NO_LAYERS, .no_op_offload = true}},
    {"ngl-1", LOGITS, GQA_F32, .tuning = {.gpu_layers = 1}},
    {"ngl-half", LOGITS, GQA_F32, .tuning = {.gpu_layers = 2}, .part = true},
    {"ngl-half-fa-off", LOGITS, GQA_F32, .tuning = {.gpu_layers = 2, .flash = FLASH_OFF}},
    {"ngl-half-nkvo", LOGITS, GQA_F32, .tuning = {.gpu_layers = 2, .kv_on_cpu = true}},
    {"ngl-half-q8_0", LOGITS, GQA_F32, .tuning = {.gpu_layers = 2, CACHE(Q8_0, Q8_0)}},
    {"ngl-half-moe", LOGITS, MOE_F32, .tuning = {.gpu_layers = 2}},
    {"ncmoe-all", LOGITS, MOE_F16, .tuning = {.on_cpu = ALL_EXPERTS}, .part = true},
    {"ncmoe-2", LOGITS, MOE_F16, .tuning = {.on_cpu = SOME_EXPERTS}},
    {"ncmoe-no-op-offload", LOGITS, MOE_F16, .tuning = {.on_cpu = ALL_EXPERTS, .no_op_offload = true}},
    {"ncmoe-nkvo", LOGITS, MOE_F16, .tuning = {.on_cpu = ALL_EXPERTS, .kv_on_cpu = true}},
    {"ncmoe-cache", LOGITS, MOE_F16, .tuning = {.on_cpu = ALL_EXPERTS, .moe_cache = 1 << 20}},
    {"ot-ffn", LOGITS, GQA_F32, .tuning = {.on_cpu = "blk\\.[02]\\.ffn"}},
    {"ot-attention", LOGITS, GQA_F32, .tuning = {.on_cpu = "blk\\..*\\.attn_(k|v|output)"}},
    {"ot-norm", LOGITS, GQA_F32, .tuning = {.on_cpu = "_norm"}},
    {"no-op-offload", LOGITS, GQA_Q4, .tuning = {.no_op_offload = true}},
    {"no-host", LOGITS, GQA_Q4, .tuning = {.no_host = true}, .part = true},
    {"no-host-half", LOGITS, GQA_F32, .tuning = {.no_host = true, .gpu_layers = 2}},
    {"load-none", LOGITS, GQA, .tuning = {.load = LLAMA_LOAD_MODE_NONE + 1}},
    {"load-mmap", LOGITS, GQA_F32, .tuning = {.load = LLAMA_LOAD_MODE_MMAP + 1, .gpu_layers = 2}},
    {"load-direct", LOGITS, GQA_Q4, .tuning = {.load = LLAMA_LOAD_MODE_DIRECT_IO + 1}},
    {"split-none", LOGITS, GQA, .tuning = {.split = LLAMA_SPLIT_MODE_NONE + 1}},

    /* Sizes. */
    {"batch-97-33", LOGITS, GQA_Q4, .tuning = {.batch = 97, .ubatch = 33}},
    {"batch-31-7", LOGITS, GQA, .tuning = {.batch = 31, .ubatch = 7}},
    {"batch-1", LOGITS, GQA, .tuning = {.batch = 1, .ubatch = 1}},
    {"batch-whole-fa-off", LOGITS, GQA, .tuning = {.batch = 512, .ubatch = 512, .flash = FLASH_OFF}},
    {"batch-97-33-moe", LOGITS, MOE, .tuning = {.batch = 97, .ubatch = 33}},

    /* Sequences of the cache. */
    {"sequences", .run = case_sequences, GQA_Q4, .part = true},
    {"sequences-streams", .run = case_sequences, GQA, .tuning = {.streams = true}},
    {"sequences-fa-off", .run = case_sequences, GQA, .tuning = {.flash = FLASH_OFF}},
    {"sequences-nkvo", .run = case_sequences, GQA, .tuning = {.kv_on_cpu = true}},
    {"sequences-q8_0", .run = case_sequences, GQA, .tuning = {CACHE(Q8_0, Q8_0)}},
    {"sequences-moe", .run = case_sequences, MOE},
    {"copy", .run = case_copy, GQA, .part = true},
    {"copy-streams", .run = case_copy, GQA_Q4, .tuning = {.streams = true}},
    {"copy-streams-fa-off", .run = case_copy, GQA, .tuning = {.streams = true, .flash = FLASH_OFF}},
    {"remove", .run = case_remove, GQA_Q4},
    {"remove-q4_0", .run = case_remove, GQA, .tuning = {CACHE(Q4_0, Q4_0)}},
    {"shift", .run = case_shift, GQA_Q4, .part = true},
    {"shift-q8_0", .run = case_shift, GQA, .tuning = {CACHE(Q8_0, Q8_0)}},
    {"shift-fa-off", .run = case_shift, GQA, .tuning = {.flash = FLASH_OFF}},
    {"shift-nkvo", .run = case_shift, GQA, .tuning = {.kv_on_cpu = true}},
    {"shift-half", .run = case_shift, GQA_F32, .tuning = {.gpu_layers = 2}},
    {"divide", .run = case_divide, GQA_Q4},
    {"divide-q8_0", .run = case_divide, GQA, .tuning = {CACHE(Q8_0, Q8_0)}},
    {"keep", .run = case_keep, GQA_Q4},

    /* State. */
    {"state-whole", .run = case_state_whole, GQA, .part = true},
    {"state-whole-fa-off", .run = case_state_whole, GQA_Q4, .tuning = {.flash = FLASH_OFF}},
    {"state-whole-q8_0", .run = case_state_whole, GQA, .tuning = {CACHE(Q8_0, Q8_0)}},
    {"state-whole-nkvo", .run = case_state_whole, GQA, .tuning = {.kv_on_cpu = true}},
    {"state-whole-streams", .run = case_state_whole, GQA, .tuning = {.streams = true}},
    {"state-file", .run = case_state_file, GQA_Q4},
    {"state-file-fa-off", .run = case_state_file, GQA, .tuning = {.flash = FLASH_OFF}},
    {"state-sequence", .run = case_state_sequence, GQA_Q4, .part = true},
    {"state-sequence-fa-off", .run = case_state_sequence, GQA, .tuning = {.flash = FLASH_OFF}},
    {"state-sequence-half", .run = case_state_sequence, GQA_F32, .tuning = {.gpu_layers = 2}},
    {"state-sequence-file", .run = case_state_sequence_file, GQA},
    {"state-on-device", .run = case_state_on_device, GQA_Q4},
    {"state-on-device-fa-off", .run = case_state_on_device, GQA, .tuning = {.flash = FLASH_OFF}},
    {"state-on-device-half", .run = case_state_on_device, GQA_F32, .tuning = {.gpu_layers = 2}},

    /* Adapters. */
    {"lora", .run = case_lora, GQA_Q4, .extra = "lora-llama-gqa-q4_0", .part = true},
    {"lora-half", .run = case_lora, GQA_F32, .extra = "lora-llama-gqa-f32", .tuning = {.gpu_layers = 2}},
    {"lora-moe", .run = case_lora, MOE_F16, .extra = "lora-qwen3moe-f16"},
    {"lora-ncmoe", .run = case_lora, MOE_F16, .extra = "lora-qwen3moe-f16",
     .tuning = {.on_cpu = ALL_EXPERTS}},
    {"lora-swap", .run = case_lora_swap, GQA, .extra = "lora-llama-gqa-f16"},
    {"control-vector", .run = case_control_vector, GQA_Q4, .part = true},
    {"control-vector-half", .run = case_control_vector, GQA_F32, .tuning = {.gpu_layers = 2}},

    /* Embeddings. */
    {"embeddings", .run = case_embeddings, GQA_Q4, .tuning = {.embeddings = true}},
    {"pooling-none", .run = case_embeddings, GQA,
     .tuning = {.pooling = LLAMA_POOLING_TYPE_NONE + 1}},
    {"pooling-mean", .run = case_embeddings, GQA, 
     .tuning = {.pooling = LLAMA_POOLING_TYPE_MEAN + 1, .batch = 120}, .part = true},
    {"pooling-cls", .run = case_embeddings, GQA, .tuning = {.pooling = LLAMA_POOLING_TYPE_CLS + 1}},
    {"pooling-last", .run = case_embeddings, GQA_Q4,
     .tuning = {.pooling = LLAMA_POOLING_TYPE_LAST + 1}},
    {"pooling-rank", .run = case_embeddings, .model = "rank-qwen3-f16",
     .tuning = {.pooling = LLAMA_POOLING_TYPE_RANK + 1}},
    {"pooling-mean-half", .run = case_embeddings, GQA_F32,
     .tuning = {.pooling = LLAMA_POOLING_TYPE_MEAN + 1, .batch = 120, .gpu_layers = 2}},
    {"embeddings-in", .run = case_embeddings_in, GQA_Q4},
    {"embeddings-in-half", .run = case_embeddings_in, GQA_F32, .tuning = {.gpu_layers = 2}},

    /* Callbacks. */
    {"eval-callback", .run = case_eval_callback, GQA_Q4, .part = true},
    {"eval-callback-moe", .run = case_eval_callback, MOE},
    {"eval-callback-half", .run = case_eval_callback, GQA_F32, .tuning = {.gpu_layers = 2}},
    {"eval-callback-ncmoe", .run = case_eval_callback, MOE_F16, .tuning = {.on_cpu = ALL_EXPERTS}},
    {"abort", .run = case_abort, GQA_Q4, .part = true},
    {"abort-half", .run = case_abort, GQA_F32, .tuning = {.gpu_layers = 2}},
    {"abort-nkvo", .run = case_abort, GQA, .tuning = {.kv_on_cpu = true}},

    /* Samplers. */
    {"sampler-device", .run = case_sampler_device, GQA_Q4, .part = true},
    {"sampler-device-half", .run = case_sampler_device, GQA_F32, .tuning = {.gpu_layers = 2}},
    {"sampler-swap", .run = case_sampler_swap, GQA},
    {"sampler-host", .run = case_sampler_host, GQA_Q4},
    {"grammar", .run = case_grammar, GQA_Q4},

    /* Several at once. */
    {"two-contexts", .run = case_two_contexts, GQA_Q4, .part = true},
    {"two-contexts-half", .run = case_two_contexts, GQA_F32, .tuning = {.gpu_layers = 2}},
    {"two-contexts-nkvo", .run = case_two_contexts, GQA, .tuning = {.kv_on_cpu = true}},
    {"draft", .run = case_draft, GQA_Q4, .extra = "llama-draft-q8_0"},
    {"draft-same", .run = case_draft, GQA_Q4, .extra = "llama-gqa-q4_0"},
    {"reload", .run = case_reload, GQA_Q4},
    {"reload-half", .run = case_reload, GQA_F32, .tuning = {.gpu_layers = 2}},
    {"load-cancel", .run = case_load_cancel, GQA, .part = true},
    {"load-cancel-none", .run = case_load_cancel, GQA,
     .tuning = {.load = LLAMA_LOAD_MODE_NONE + 1}},

    /* No memory. */
    {"no-memory-model", .run = case_no_memory_model, GQA_Q4, .extra = "llama-wide-f16",
     .kind = KIND_LIMITED, .part = true},
    {"no-memory-context", .run = case_no_memory_context, GQA_Q4, .kind = KIND_LIMITED},

    /* Two devices. */
    {"two-layer", LOGITS, GQA_Q4, .kind = KIND_TWO, .part = true},
    {"two-layer-fa-off", LOGITS, GQA, .kind = KIND_TWO, .tuning = {.flash = FLASH_OFF}},
    {"two-layer-moe", LOGITS, MOE, .kind = KIND_TWO},
    {"two-layer-nkvo", LOGITS, GQA, .kind = KIND_TWO, .tuning = {.kv_on_cpu = true}},
    {"two-layer-half", LOGITS, GQA_F32, .kind = KIND_TWO, .tuning = {.gpu_layers = 2}},
    {"two-none", LOGITS, GQA, .kind = KIND_TWO, .tuning = {.split = LLAMA_SPLIT_MODE_NONE + 1}},
    {"two-tensor", LOGITS, GQA, .kind = KIND_TWO, .tuning = {.split = LLAMA_SPLIT_MODE_TENSOR + 1}},
    {"two-batch-97-33", LOGITS, GQA_Q4, .kind = KIND_TWO, .tuning = {.batch = 97, .ubatch = 33}},
    {"two-sequences", .run = case_sequences, GQA_Q4, .kind = KIND_TWO},
    {"two-shift", .run = case_shift, GQA_Q4, .kind = KIND_TWO},
    {"two-state", .run = case_state_whole, GQA, .kind = KIND_TWO},
    {"two-state-on-device", .run = case_state_on_device, GQA, .kind = KIND_TWO},
    {"two-lora", .run = case_lora, GQA, .extra = "lora-llama-gqa-f16", .kind = KIND_TWO},
    {"two-eval-callback", .run = case_eval_callback, GQA_Q4, .kind = KIND_TWO},
    {"two-contexts-two", .run = case_two_contexts, GQA_Q4, .kind = KIND_TWO},
    {"two-threads", .run = case_thread_contexts, GQA_Q4, .kind = KIND_TWO},
    {"mixed-layer", LOGITS, GQA, .kind = KIND_MIXED},
    {"mixed-state", .run = case_state_sequence, GQA, .kind = KIND_MIXED},
    {"mixed-sequences", .run = case_sequences, GQA, .kind = KIND_MIXED},

    /* Threads. */
    {"thread-contexts", .run = case_thread_contexts, GQA_Q4, .part = true},
    {"thread-contexts-half", .run = case_thread_contexts, GQA_F32, .tuning = {.gpu_layers = 2}},
    {"thread-models", .run = case_thread_models, GQA_Q4, .extra = "llama-draft-q8_0"},

    /* Errors. */
    {"error-graph", .run = case_error_graph, GQA_Q4, .kind = KIND_ALONE, .part = true,
     .says = "GET_ROWS.*picked_rows"},
    {"error-decode", .run = case_error_decode, GQA_Q4, .kind = KIND_ALONE, .says = "GET_ROWS"},
};
/* clang-format on */

static const char *const kinds[] = {
    [KIND_PAIR] = "pair", [KIND_ALONE] = "alone", [KIND_LIMITED] = "limited",
    [KIND_TWO] = "two",   [KIND_MIXED] = "mixed",
};

const struct options_case *case_find(const char *name)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    }
    return NULL;
}

void cases_list(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct options_case *c = &cases[i];
        printf("%s %s %s %s %s %s\n", c->name, c->model, c->extra ? c->extra : "-", kinds[c->kind],
               c->part ? "part" : "full", c->says ? c->says : "");
    }
}
