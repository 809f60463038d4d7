/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf-extra: what goes with a model that gguf-write has made.
 *
 *   gguf-extra lora --model FILE --output FILE   a LoRA adapter for all of its matrices in layers
 *   gguf-extra rank --model FILE --output FILE   the same model with a head that ranks
 *   gguf-extra vision --model FILE --output FILE an encoder of images for it (llama.cpp's mmproj)
 *   gguf-extra t5 --model FILE --output FILE     an encoder and decoder with its vocabulary
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

/* ---- a vision transformer with a projection to the model's embeddings, as LLaVA's ----- */

enum {
    IMAGE = 56,
    PATCH = 14,
    PATCHES = (IMAGE / PATCH) * (IMAGE / PATCH),
    EYE = 64,
    EYE_FF = 128,
    EYE_BLOCKS = 2
};

static void vision_keys(struct gguf_context *to, int64_t projected)
{
    static const float mean[] = {0.48f, 0.46f, 0.41f}, deviation[] = {0.27f, 0.26f, 0.28f};
    gguf_set_val_str(to, "general.architecture", "clip");
    gguf_set_val_str(to, "clip.projector_type", "mlp");
    gguf_set_val_bool(to, "clip.has_vision_encoder", true);
    gguf_set_val_bool(to, "clip.use_gelu", true);
    gguf_set_val_u32(to, "clip.vision.image_size", IMAGE);
    gguf_set_val_u32(to, "clip.vision.patch_size", PATCH);
    gguf_set_val_u32(to, "clip.vision.embedding_length", EYE);
    gguf_set_val_u32(to, "clip.vision.feed_forward_length", EYE_FF);
    gguf_set_val_u32(to, "clip.vision.block_count", EYE_BLOCKS);
    gguf_set_val_u32(to, "clip.vision.attention.head_count", 4);
    gguf_set_val_u32(to, "clip.vision.projection_dim", (uint32_t)projected);
    gguf_set_val_f32(to, "clip.vision.attention.layer_norm_epsilon", 1e-5f);
    gguf_set_arr_data(to, "clip.vision.image_mean", GGUF_TYPE_FLOAT32, mean, 3);
    gguf_set_arr_data(to, "clip.vision.image_std", GGUF_TYPE_FLOAT32, deviation, 3);
}

static void make_vision(struct gguf_context *to, struct ggml_context *ctx,
                        const struct gguf_context *from, struct ggml_context *weights)
{
    static const struct {
        const char *name;
        int64_t in, out; /* in 0: no matrix, a norm */
    } parts[] = {
        {"attn_q", EYE, EYE},   {"attn_k", EYE, EYE},    {"attn_v", EYE, EYE},
        {"attn_out", EYE, EYE}, {"ln1", 0, EYE},         {"ffn_down", EYE_FF, EYE},
        {"ln2", 0, EYE},        {"ffn_up", EYE, EYE_FF},
    };
    (void)from;
    const int64_t projected = ggml_get_tensor(weights, "token_embd.weight")->ne[0];
    vision_keys(to, projected);
    struct ggml_tensor *patch = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, PATCH, PATCH, 3, EYE);
    ggml_set_name(patch, "v.patch_embd.weight");
    fill(patch, 0.2f);
    gguf_add_tensor(to, patch);
    add_random(to, ctx, "v.position_embd", ".weight", EYE, PATCHES, 1, 0.5f);
    for (int block = 0; block < EYE_BLOCKS; block++) {
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            char name[64];
            snprintf(name, sizeof(name), "v.blk.%d.%s", block, parts[i].name);
            if (parts[i].in)
                add_random(to, ctx, name, ".weight", parts[i].in, parts[i].out, 1, 0.3f);
            else
                add_random(to, ctx, name, ".weight", parts[i].out, 1, 1, 1.0f);
            add_random(to, ctx, name, ".bias", parts[i].out, 1, 1, 0.1f);
        }
    }
    add_random(to, ctx, "mm.0", ".weight", EYE, projected, 1, 0.3f);
    add_random(to, ctx, "mm.0", ".bias", projected, 1, 1, 0.1f);
    add_random(to, ctx, "mm.2", ".weight", projected, projected, 1, 0.1f);
    add_random(to, ctx, "mm.2", ".bias", projected, 1, 1, 0.1f);
}

/* ---- T5: an encoder, and a decoder that looks at what it has left --------------------- */

enum { T5 = 64, T5_FF = 128, T5_HEADS = 4, T5_BUCKETS = 32, T5_BLOCKS = 2 };

static void t5_attention(struct gguf_context *to, struct ggml_context *ctx, const char *block,
                         const char *kind, bool first)
{
    static const char *const parts[] = {"q", "k", "v", "o"};
    char name[64];
    snprintf(name, sizeof(name), "%s.%s_norm", block, kind);
    add_random(to, ctx, name, ".weight", T5, 1, 1, 1.0f);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(name, sizeof(name), "%s.%s_%s", block, kind, parts[i]);
        add_random(to, ctx, name, ".weight", T5, T5, 1, 0.3f);
    }
    snprintf(name, sizeof(name), "%s.%s_rel_b", block, kind);
    if (first)
        add_random(to, ctx, name, ".weight", T5_HEADS, T5_BUCKETS, 1, 0.5f);
}

static void t5_side(struct gguf_context *to, struct ggml_context *ctx, const char *side, bool cross)
{
    char block[32], name[64];
    for (int i = 0; i < T5_BLOCKS; i++) {
        snprintf(block, sizeof(block), "%s.blk.%d", side, i);
        t5_attention(to, ctx, block, "attn", i == 0);
        if (cross)
            t5_attention(to, ctx, block, "cross_attn", false);
        snprintf(name, sizeof(name), "%s.ffn_norm", block);
        add_random(to, ctx, name, ".weight", T5, 1, 1, 1.0f);
        snprintf(name, sizeof(name), "%s.ffn_up", block);
        add_random(to, ctx, name, ".weight", T5, T5_FF, 1, 0.3f);
        snprintf(name, sizeof(name), "%s.ffn_gate", block);
        add_random(to, ctx, name, ".weight", T5, T5_FF, 1, 0.3f);
        snprintf(name, sizeof(name), "%s.ffn_down", block);
        add_random(to, ctx, name, ".weight", T5_FF, T5, 1, 0.3f);
    }
    snprintf(name, sizeof(name), "%s.output_norm", side);
    add_random(to, ctx, name, ".weight", T5, 1, 1, 1.0f);
}

static void make_t5(struct gguf_context *to, struct ggml_context *ctx,
                    const struct gguf_context *from, struct ggml_context *weights)
{
    const int64_t n_vocab = ggml_get_tensor(weights, "token_embd.weight")->ne[1];
    gguf_set_kv(to, from); /* the tokenizer; the other model's numbers are nobody's then */
    gguf_set_val_str(to, "general.architecture", "t5");
    gguf_set_val_u32(to, "t5.vocab_size", (uint32_t)n_vocab);
    gguf_set_val_u32(to, "t5.context_length", 512);
    gguf_set_val_u32(to, "t5.embedding_length", T5);
    gguf_set_val_u32(to, "t5.feed_forward_length", T5_FF);
    gguf_set_val_u32(to, "t5.block_count", T5_BLOCKS);
    gguf_set_val_u32(to, "t5.attention.head_count", T5_HEADS);
    gguf_set_val_u32(to, "t5.attention.key_length", T5 / T5_HEADS);
    gguf_set_val_u32(to, "t5.attention.value_length", T5 / T5_HEADS);
    gguf_set_val_u32(to, "t5.attention.relative_buckets_count", T5_BUCKETS);
    gguf_set_val_f32(to, "t5.attention.layer_norm_epsilon", 1e-6f);
    gguf_set_val_f32(to, "t5.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_set_val_u32(to, "t5.decoder_start_token_id", 0);
    add_random(to, ctx, "token_embd", ".weight", T5, n_vocab, 1, 1.0f);
    t5_side(to, ctx, "enc", false);
    t5_side(to, ctx, "dec", true);
}

static const struct {
    const char *name;
    void (*make)(struct gguf_context *to, struct ggml_context *ctx, const struct gguf_context *from,
                 struct ggml_context *weights);
} kinds[] = {{"lora", make_lora}, {"rank", make_rank}, {"vision", make_vision}, {"t5", make_t5}};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

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
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(what, kinds[i].name) == 0)
            kinds[i].make(to, ctx, from, weights);
    }
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
    bool known = false;
    for (int i = 0; i < KINDS; i++)
        known = known || strcmp(what, kinds[i].name) == 0;
    if (!model || !output || !known) {
        fprintf(stderr, "usage: gguf-extra lora|rank|vision|t5 --model FILE --output FILE\n");
        return 2;
    }
    return run(what, model, output);
}
