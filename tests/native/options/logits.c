/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logits: runs a model on ggml devices through libllama with options that move work, and keeps
 * every logit: of a made-up prompt, of tokens one by one, and of full chunks from an empty cache,
 * as perplexity is made of. Tokens come from a fixed sequence and not from what the model says, so
 * that a difference in one result does not spread over the later ones.
 *
 * The two runs that are compared must build the same graph, though one has a CPU and the other a
 * device of GPU type: what llama.cpp would choose by device is fixed (tests/native/options/run.h).
 */
#include <stdio.h>
#include <string.h>

#include "tests/native/options/run.h"

enum { CHUNK = 128, CHUNKS = 9 };

static const char usage[] =
    "usage: logits --model FILE [OPTION]...\n"
    "  --device NAME[,NAME]  ggml devices, such as APIR0 (default CPU)\n"
    "  --prompt-tokens N     length of the made-up prompt (default 64)\n"
    "  --gen N               tokens one by one (default 16)\n"
    "  --chunks              of full chunks, too\n"
    "  --out FILE            keep the logits, for options-compare\n"
    "  --verbose             show llama.cpp's log\n"
    "llama.cpp's options of these names:\n"
    "  --batch N  --ubatch N  --fa on|off|auto (on)  --ctk TYPE  --ctv TYPE  --nkvo  --ngl N\n"
    "  --on-cpu PATTERN (-ot PATTERN=CPU)  --nopo  --no-host  --load none|mmap|dio\n"
    "  --moe-cache BYTES  --split layer|none|tensor\n";

/* Words of an option, by what they stand for; the last one has no name. */
struct word {
    const char *name;
    int value;
};

static const struct word flash_words[] = {{"on", LLAMA_FLASH_ATTN_TYPE_ENABLED},
                                          {"off", LLAMA_FLASH_ATTN_TYPE_DISABLED},
                                          {"auto", LLAMA_FLASH_ATTN_TYPE_AUTO},
                                          {NULL, 0}};
static const struct word load_words[] = {{"none", LLAMA_LOAD_MODE_NONE},
                                         {"mmap", LLAMA_LOAD_MODE_MMAP},
                                         {"dio", LLAMA_LOAD_MODE_DIRECT_IO},
                                         {NULL, 0}};
static const struct word split_words[] = {{"layer", LLAMA_SPLIT_MODE_LAYER},
                                          {"none", LLAMA_SPLIT_MODE_NONE},
                                          {"tensor", LLAMA_SPLIT_MODE_TENSOR},
                                          {NULL, 0}};
static const struct word type_words[] = {{"f16", GGML_TYPE_F16},       {"bf16", GGML_TYPE_BF16},
                                         {"q8_0", GGML_TYPE_Q8_0},     {"q4_0", GGML_TYPE_Q4_0},
                                         {"iq4_nl", GGML_TYPE_IQ4_NL}, {NULL, 0}};

static int value_of(const struct word *words, const char *text)
{
    for (; words->name; words++) {
        if (strcmp(words->name, text) == 0)
            return words->value;
    }
    run_fail("%s: no such value of an option", text);
}

struct asked {
    const char *device, *out, *flash, *keys, *values, *on_cpu, *load, *split;
    int prompt, generated, batch, ubatch, layers, experts;
    bool chunks, kv_on_cpu, no_op_offload, no_host;
};

static void setup_apply(struct run *r, const struct asked *a)
{
    struct llama_context_params *c = &r->setup.context;
    struct llama_model_params *m = &r->setup.model;
    c->n_ctx = (uint32_t)(a->prompt + a->generated > CHUNK ? a->prompt + a->generated : CHUNK);
    c->n_batch = a->batch ? (uint32_t)a->batch : c->n_ctx;
    c->n_ubatch = (uint32_t)a->ubatch;
    c->flash_attn_type = (enum llama_flash_attn_type)value_of(flash_words, a->flash);
    c->type_k = (enum ggml_type)value_of(type_words, a->keys);
    c->type_v = (enum ggml_type)value_of(type_words, a->values);
    c->offload_kqv = !a->kv_on_cpu;
    c->op_offload = !a->no_op_offload;
    if (r->devices[0]) {
        m->n_gpu_layers = a->layers;
        /* llama.cpp refuses it where there is no GPU: there the same experts are simply there. */
        c->moe_cache_size = (size_t)a->experts;
    }
    m->no_host = a->no_host;
    m->split_mode = (enum llama_split_mode)value_of(split_words, a->split);
    if (a->load)
        m->load_mode = (enum llama_load_mode)value_of(load_words, a->load);
    if (a->on_cpu) {
        r->setup.overrides[0] = (struct llama_model_tensor_buft_override){
            .pattern = a->on_cpu, .buft = ggml_backend_cpu_buffer_type()};
        m->tensor_buft_overrides = r->setup.overrides;
    }
}

int main(int argc, char **argv)
{
    struct run r = {0};
    struct asked a = {.device = "CPU",
                      .flash = "on",
                      .keys = "f16",
                      .values = "f16",
                      .split = "layer",
                      .prompt = 64,
                      .generated = 16,
                      .ubatch = 512,
                      .layers = RUN_ALL_LAYERS};
    const struct run_option options[] = {
        {"model", .text = &r.model_file},
        {"device", .text = &a.device},
        {"out", .text = &a.out},
        {"prompt-tokens", .number = &a.prompt},
        {"gen", .number = &a.generated},
        {"chunks", .flag = &a.chunks},
        {"verbose", .flag = &r.verbose},
        {"batch", .number = &a.batch},
        {"ubatch", .number = &a.ubatch},
        {"fa", .text = &a.flash},
        {"ctk", .text = &a.keys},
        {"ctv", .text = &a.values},
        {"nkvo", .flag = &a.kv_on_cpu},
        {"ngl", .number = &a.layers},
        {"on-cpu", .text = &a.on_cpu},
        {"nopo", .flag = &a.no_op_offload},
        {"no-host", .flag = &a.no_host},
        {"load", .text = &a.load},
        {"moe-cache", .number = &a.experts},
        {"split", .text = &a.split},
        {.name = NULL},
    };

    if (!run_options(options, argc, argv) || !r.model_file || a.prompt < 1 || a.ubatch < 1) {
        fputs(usage, stderr);
        return 2;
    }
    run_init(&r, a.device);
    setup_init(&r.setup, &r);
    setup_apply(&r, &a);
    run_open(&r);
    feed(r.ctx, &r.record, "prompt", 0, 0, 0, a.prompt);
    feed_singly(r.ctx, &r.record, "single", 0, (uint32_t)a.prompt, a.prompt, a.generated);
    for (uint32_t i = 0; a.chunks && i < CHUNKS; i++) {
        llama_memory_clear(llama_get_memory(r.ctx), true);
        feed(r.ctx, &r.record, "chunk", 0, 1000 * (i + 1), 0, CHUNK);
    }
    run_end(&r, a.out);
    return 0;
}
