/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logits: runs a model on one ggml device through libllama and keeps every logit: of a made-up
 * prompt, of tokens generated greedily, and of full chunks from an empty cache, as perplexity is
 * made of.
 *
 * The two runs that parity compares must build the same graph, though one has a CPU and the other
 * a device of GPU type: what llama.cpp would choose by device is fixed
 * (tests/native/options/run.h).
 */
#include <stdio.h>
#include <string.h>

#include "tests/native/options/run.h"

enum { CHUNK = 128, CHUNKS = 9 };

static const char usage[] =
    "usage: logits --model FILE [OPTION]...\n"
    "  --device NAME       a ggml device, such as APIR0 (default CPU)\n"
    "  --prompt-tokens N   length of the made-up prompt (default 64)\n"
    "  --gen N             tokens to generate greedily (default 16)\n"
    "  --ubatch N          tokens per graph (default 512)\n"
    "  --fa on|off         flash attention (default on; auto may choose by device)\n"
    "  --chunks            of full chunks, too\n"
    "  --out FILE          keep tokens and raw logits, for options-compare\n"
    "  --verbose           show llama.cpp's log\n";

/* Spread over the vocabulary; the few control tokens at its start are left out. */
static void feed_spread(struct run *r, const char *name, uint32_t from, int n)
{
    const uint32_t vocab = (uint32_t)context_vocab(r->ctx);
    struct llama_batch batch = batch_make(n, 1);
    for (int i = 0; i < n; i++) {
        const uint32_t number = stream_number(from + (uint32_t)i);
        batch_add(&batch, (llama_token)(3 + number % (vocab - 3)), i, 0, true);
    }
    decode_record(r->ctx, &r->record, name, batch);
    llama_batch_free(batch);
}

/* From the last token of the prompt on, the most likely one each time. */
static void generate(struct run *r, llama_pos pos, int n)
{
    struct llama_batch batch = batch_make(1, 1);
    for (int i = 0; i < n; i++) {
        const llama_token token =
            most_likely(llama_get_logits_ith(r->ctx, -1), context_vocab(r->ctx));
        record_ints(&r->record, "token", &token, 1);
        batch.n_tokens = 0;
        batch_add(&batch, token, pos + i, 0, true);
        decode_record(r->ctx, &r->record, "generation", batch);
    }
    llama_batch_free(batch);
}

int main(int argc, char **argv)
{
    struct run r = {0};
    const char *device = "CPU", *out = NULL, *flash = "on";
    int prompt = 64, generated = 16, ubatch = 512;
    bool chunks = false;
    const struct run_option options[] = {
        {"model", .text = &r.model_file},
        {"device", .text = &device},
        {"out", .text = &out},
        {"prompt-tokens", .number = &prompt},
        {"gen", .number = &generated},
        {"ubatch", .number = &ubatch},
        {"fa", .text = &flash},
        {"chunks", .flag = &chunks},
        {"verbose", .flag = &r.verbose},
        {.name = NULL},
    };

    if (!run_options(options, argc, argv) || !r.model_file || prompt < 1 || ubatch < 1 ||
        (strcmp(flash, "on") != 0 && strcmp(flash, "off") != 0)) {
        fputs(usage, stderr);
        return 2;
    }
    run_init(&r, device);
    setup_init(&r.setup, &r);
    struct llama_context_params *c = &r.setup.context;
    c->n_ctx = c->n_batch = (uint32_t)(prompt + generated > CHUNK ? prompt + generated : CHUNK);
    c->n_ubatch = (uint32_t)ubatch;
    if (strcmp(flash, "on") != 0)
        c->flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    run_open(&r);
    feed_spread(&r, "prompt", 0, prompt);
    generate(&r, prompt, generated);
    for (uint32_t i = 0; chunks && i < CHUNKS; i++) {
        llama_memory_clear(llama_get_memory(r.ctx), true);
        feed_spread(&r, "chunk", 1000 * (i + 1), CHUNK);
    }
    run_end(&r, out);
    return 0;
}
