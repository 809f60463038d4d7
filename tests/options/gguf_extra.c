/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf-extra: what goes with a model that gguf-write has made.
 *
 *   gguf-extra lora --model FILE --output FILE   a LoRA adapter for all of its matrices in layers
 *   gguf-extra rank --model FILE --output FILE   the same model with a head that ranks
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml.h>
#include <gguf.h>

enum { RANK = 8, TENSORS_MAX = 4096 };

/* Small numbers around 0, the same for the same tensor. */
static void fill(struct ggml_tensor *t, float size)
{
    uint32_t state = 1;
    float *x = t->data;

    for (const char *c = t->name; *c; c++)
        state = state * 31 + (unsigned char)*c;
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        state = state * UINT32_C(1664525) + UINT32_C(1013904223);
        x[i] = size * ((float)(state >> 8) / (float)(1 << 23) - 1.0f);
    }
}

static void add_random(struct gguf_context *to, struct ggml_context *ctx, const char *base,
                       const char *suffix, int64_t ne0, int64_t ne1, int64_t ne2, float size)
{
    struct ggml_tensor *t = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, ne0, ne1, ne2);
    ggml_format_name(t, "%s%s", base, suffix);
    fill(t, size);
    gguf_add_tensor(to, t);
}

/* Each matrix of a layer gets two: one from its rows to RANK values, one from these on. */
static void make_lora(struct gguf_context *to, struct ggml_context *ctx,
                      const struct gguf_context *from, struct ggml_context *weights)
{
    const int64_t key = gguf_find_key(from, "general.architecture");

    gguf_set_val_str(to, "general.architecture", gguf_get_val_str(from, key));
    gguf_set_val_str(to, "general.type", "adapter");
    gguf_set_val_str(to, "adapter.type", "lora");
    gguf_set_val_f32(to, "adapter.lora.alpha", 2.0f * (float)RANK);
    for (int64_t i = 0; i < gguf_get_n_tensors(from); i++) {
        const struct ggml_tensor *w = ggml_get_tensor(weights, gguf_get_tensor_name(from, i));
        if (strncmp(w->name, "blk.", 4) != 0 || w->ne[1] == 1 || strstr(w->name, "gate_inp"))
            continue;
        add_random(to, ctx, w->name, ".lora_a", w->ne[0], RANK, w->ne[2], 0.1f);
        add_random(to, ctx, w->name, ".lora_b", RANK, w->ne[1], w->ne[2], 0.1f);
    }
}

static void make_rank(struct gguf_context *to, struct ggml_context *ctx,
                      const struct gguf_context *from, struct ggml_context *weights)
{
    const struct ggml_tensor *embedding = ggml_get_tensor(weights, "token_embd.weight");

    gguf_set_kv(to, from);
    for (int64_t i = 0; i < gguf_get_n_tensors(from); i++)
        gguf_add_tensor(to, ggml_get_tensor(weights, gguf_get_tensor_name(from, i)));
    add_random(to, ctx, "cls.output", ".weight", embedding->ne[0], 1, 1, 0.2f);
}

static int run(const char *what, const char *model, const char *output)
{
    struct ggml_context *weights = NULL;
    struct gguf_context *from =
        gguf_init_from_file(model, (struct gguf_init_params){.no_alloc = false, .ctx = &weights});
    if (!from || !weights) {
        fprintf(stderr, "gguf-extra: %s cannot be read\n", model);
        return 1;
    }
    struct gguf_context *to = gguf_init_empty();
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){
        .mem_size = ggml_get_mem_size(weights) + TENSORS_MAX * ggml_tensor_overhead()});
    if (!to || !ctx) {
        fprintf(stderr, "gguf-extra: out of memory\n");
        return 1;
    }
    if (strcmp(what, "lora") == 0)
        make_lora(to, ctx, from, weights);
    else
        make_rank(to, ctx, from, weights);
    bool ok = gguf_write_to_file(to, output, false);
    if (!ok)
        fprintf(stderr, "gguf-extra: %s cannot be written\n", output);
    gguf_free(to);
    gguf_free(from);
    ggml_free(ctx);
    ggml_free(weights);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"model", required_argument, NULL, 'm'},
        {"output", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0},
    };
    const char *model = NULL, *output = NULL;
    int opt;

    while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (opt == 'm')
            model = optarg;
        else if (opt == 'o')
            output = optarg;
        else
            return 2;
    }
    const char *what = optind + 1 == argc ? argv[optind] : "";
    if (!model || !output || (strcmp(what, "lora") != 0 && strcmp(what, "rank") != 0)) {
        fprintf(stderr, "usage: gguf-extra lora|rank --model FILE --output FILE\n");
        return 2;
    }
    return run(what, model, output);
}
