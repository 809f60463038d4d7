/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf-extra: what goes with a model that gguf-write has made.
 *
 *   gguf-extra lora --model FILE --output FILE   a LoRA adapter for all of its matrices in layers
 *   gguf-extra rank --model FILE --output FILE   the same model with a head that ranks
 *   gguf-extra vision --model FILE --output FILE an encoder of images for it (llama.cpp's mmproj)
 *   gguf-extra t5 --model FILE --output FILE     an encoder and decoder with its vocabulary
 *   gguf-extra words --model FILE --output FILE  the same model for older llama.cpp's, too: with a
 *                                                made-up vocabulary
 *   gguf-extra speaker --model FILE --output FILE a model of the shape of Pocket TTS's, with that
 *                                                vocabulary, for llama-tts
 *   gguf-extra voice --model FILE --output FILE  what makes sound of a speaker (llama.cpp's mmproj)
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml.h>
#include <gguf.h>

enum { RANK = 8, TENSORS_MAX = 4096, BLOCKS = 2 /* of each transformer made here */ };

/* Small numbers around 0, the same for the same tensor. */
static void fill(struct ggml_tensor *t, float size)
{
    uint32_t state = 1;

    for (const char *c = t->name; *c; c++)
        state = state * 31 + (unsigned char)*c;
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        state = state * UINT32_C(1664525) + UINT32_C(1013904223);
        const float x = size * ((float)(state >> 8) / (float)(1 << 23) - 1.0f);
        if (t->type == GGML_TYPE_F16)
            ((ggml_fp16_t *)t->data)[i] = ggml_fp32_to_fp16(x);
        else
            ((float *)t->data)[i] = x;
    }
}

/* The file that is made, and the one that it is made from. */
struct making {
    struct gguf_context *to;
    struct ggml_context *ctx; /* of its tensors */
    struct gguf_context *from;
    struct ggml_context *weights;
};

static void add_random(const struct making *m, int64_t ne0, int64_t ne1, int64_t ne2, float size,
                       const char *fmt, ...) __attribute__((format(printf, 6, 7)));
static void add_random(const struct making *m, int64_t ne0, int64_t ne1, int64_t ne2, float size,
                       const char *fmt, ...)
{
    char name[GGML_MAX_NAME];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    struct ggml_tensor *t = ggml_new_tensor_3d(m->ctx, GGML_TYPE_F32, ne0, ne1, ne2);
    ggml_set_name(t, name);
    fill(t, size);
    gguf_add_tensor(m->to, t);
}

/* A matrix and its bias; a norm's where `in` is 0. */
static void add_pair(const struct making *m, int64_t in, int64_t out, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add_pair(const struct making *m, int64_t in, int64_t out, const char *fmt, ...)
{
    char name[GGML_MAX_NAME];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    add_random(m, in ? in : out, in ? out : 1, 1, in ? 0.3f : 1.0f, "%s.weight", name);
    add_random(m, out, 1, 1, 0.1f, "%s.bias", name);
}

static const struct ggml_tensor *weight(const struct making *m, int64_t i)
{
    return ggml_get_tensor(m->weights, gguf_get_tensor_name(m->from, i));
}

static const struct ggml_tensor *embedding(const struct making *m)
{
    return ggml_get_tensor(m->weights, "token_embd.weight");
}

/* What llama.cpp is told of a transformer, in keys that begin with `prefix`. */
static void add_shape(const struct making *m, const char *prefix, uint32_t width, uint32_t ff,
                      uint32_t heads, float epsilon)
{
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {
        {"embedding_length", width},
        {"feed_forward_length", ff},
        {"block_count", BLOCKS},
        {"attention.head_count", heads},
    };
    char key[96];
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        snprintf(key, sizeof(key), "%s.%s", prefix, numbers[i].name);
        gguf_set_val_u32(m->to, key, numbers[i].value);
    }
    snprintf(key, sizeof(key), "%s.attention.layer_norm_epsilon", prefix);
    gguf_set_val_f32(m->to, key, epsilon);
}

/* The same for a model of text that has the other one's vocabulary, and its embeddings. */
static void add_text(const struct making *m, const char *arch, uint32_t width, uint32_t ff,
                     uint32_t heads, float epsilon)
{
    char key[96];
    const int64_t n_vocab = embedding(m)->ne[1];
    gguf_set_kv(m->to, m->from); /* the tokenizer; the other model's numbers are nobody's then */
    gguf_set_val_str(m->to, "general.architecture", arch);
    snprintf(key, sizeof(key), "%s.vocab_size", arch);
    gguf_set_val_u32(m->to, key, (uint32_t)n_vocab);
    snprintf(key, sizeof(key), "%s.context_length", arch);
    gguf_set_val_u32(m->to, key, 512);
    add_shape(m, arch, width, ff, heads, epsilon);
    add_random(m, width, n_vocab, 1, 1.0f, "token_embd.weight");
}

/* Each matrix of a layer gets two: one from its rows to RANK values, one from these on. */
static void make_lora(const struct making *m)
{
    const int64_t key = gguf_find_key(m->from, "general.architecture");

    gguf_set_val_str(m->to, "general.architecture", gguf_get_val_str(m->from, key));
    gguf_set_val_str(m->to, "general.type", "adapter");
    gguf_set_val_str(m->to, "adapter.type", "lora");
    gguf_set_val_f32(m->to, "adapter.lora.alpha", 2.0f * (float)RANK);
    for (int64_t i = 0; i < gguf_get_n_tensors(m->from); i++) {
        const struct ggml_tensor *w = weight(m, i);
        if (strncmp(w->name, "blk.", 4) != 0 || w->ne[1] == 1 || strstr(w->name, "gate_inp"))
            continue;
        add_random(m, w->ne[0], RANK, w->ne[2], 0.1f, "%s.lora_a", w->name);
        add_random(m, RANK, w->ne[1], w->ne[2], 0.1f, "%s.lora_b", w->name);
    }
}

static void make_rank(const struct making *m)
{
    gguf_set_kv(m->to, m->from);
    for (int64_t i = 0; i < gguf_get_n_tensors(m->from); i++)
        gguf_add_tensor(m->to, weight(m, i));
    add_random(m, embedding(m)->ne[0], 1, 1, 0.2f, "cls.output.weight");
}

/* ---- a vision transformer with a projection to the model's embeddings, as LLaVA's ----- */

enum {
    IMAGE = 56,
    PATCH = 14,
    PATCHES = (IMAGE / PATCH) * (IMAGE / PATCH),
    EYE = 64,
    EYE_FF = 128,
};

static void vision_keys(const struct making *m, int64_t projected)
{
    struct gguf_context *to = m->to;
    static const float mean[] = {0.48f, 0.46f, 0.41f}, deviation[] = {0.27f, 0.26f, 0.28f};
    gguf_set_val_str(to, "general.architecture", "clip");
    gguf_set_val_str(to, "clip.projector_type", "mlp");
    gguf_set_val_bool(to, "clip.has_vision_encoder", true);
    gguf_set_val_bool(to, "clip.use_gelu", true);
    gguf_set_val_u32(to, "clip.vision.image_size", IMAGE);
    gguf_set_val_u32(to, "clip.vision.patch_size", PATCH);
    gguf_set_val_u32(to, "clip.vision.projection_dim", (uint32_t)projected);
    add_shape(m, "clip.vision", EYE, EYE_FF, 4, 1e-5f);
    gguf_set_arr_data(to, "clip.vision.image_mean", GGUF_TYPE_FLOAT32, mean, 3);
    gguf_set_arr_data(to, "clip.vision.image_std", GGUF_TYPE_FLOAT32, deviation, 3);
}

static void make_vision(const struct making *m)
{
    static const struct {
        const char *name;
        int64_t in, out; /* of add_pair() */
    } parts[] = {
        {"attn_q", EYE, EYE},   {"attn_k", EYE, EYE},    {"attn_v", EYE, EYE},
        {"attn_out", EYE, EYE}, {"ln1", 0, EYE},         {"ffn_down", EYE_FF, EYE},
        {"ln2", 0, EYE},        {"ffn_up", EYE, EYE_FF},
    };
    const int64_t projected = embedding(m)->ne[0];
    vision_keys(m, projected);
    struct ggml_tensor *patch = ggml_new_tensor_4d(m->ctx, GGML_TYPE_F32, PATCH, PATCH, 3, EYE);
    ggml_set_name(patch, "v.patch_embd.weight");
    fill(patch, 0.2f);
    gguf_add_tensor(m->to, patch);
    add_random(m, EYE, PATCHES, 1, 0.5f, "v.position_embd.weight");
    for (int block = 0; block < BLOCKS; block++) {
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
            add_pair(m, parts[i].in, parts[i].out, "v.blk.%d.%s", block, parts[i].name);
    }
    add_pair(m, EYE, projected, "mm.0");
    add_random(m, projected, projected, 1, 0.1f, "mm.2.weight");
    add_random(m, projected, 1, 1, 0.1f, "mm.2.bias");
}

/* ---- T5: an encoder, and a decoder that looks at what it has left --------------------- */

enum { T5 = 64, T5_FF = 128, T5_HEADS = 4, T5_BUCKETS = 32 };

static void t5_attention(const struct making *m, const char *side, int i, const char *kind)
{
    static const char *const parts[] = {"q", "k", "v", "o"};
    add_random(m, T5, 1, 1, 1.0f, "%s.blk.%d.%s_norm.weight", side, i, kind);
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
        add_random(m, T5, T5, 1, 0.3f, "%s.blk.%d.%s_%s.weight", side, i, kind, parts[k]);
}

static void t5_side(const struct making *m, const char *side, bool cross)
{
    for (int i = 0; i < BLOCKS; i++) {
        t5_attention(m, side, i, "attn");
        if (i == 0)
            add_random(m, T5_HEADS, T5_BUCKETS, 1, 0.5f, "%s.blk.0.attn_rel_b.weight", side);
        if (cross)
            t5_attention(m, side, i, "cross_attn");
        add_random(m, T5, 1, 1, 1.0f, "%s.blk.%d.ffn_norm.weight", side, i);
        add_random(m, T5, T5_FF, 1, 0.3f, "%s.blk.%d.ffn_up.weight", side, i);
        add_random(m, T5, T5_FF, 1, 0.3f, "%s.blk.%d.ffn_gate.weight", side, i);
        add_random(m, T5_FF, T5, 1, 0.3f, "%s.blk.%d.ffn_down.weight", side, i);
    }
    add_random(m, T5, 1, 1, 1.0f, "%s.output_norm.weight", side);
}

static void make_t5(const struct making *m)
{
    struct gguf_context *to = m->to;
    add_text(m, "t5", T5, T5_FF, T5_HEADS, 1e-6f);
    gguf_set_val_u32(to, "t5.attention.key_length", T5 / T5_HEADS);
    gguf_set_val_u32(to, "t5.attention.value_length", T5 / T5_HEADS);
    gguf_set_val_u32(to, "t5.attention.relative_buckets_count", T5_BUCKETS);
    gguf_set_val_f32(to, "t5.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_set_val_u32(to, "t5.decoder_start_token_id", 0);
    t5_side(m, "enc", false);
    t5_side(m, "dec", true);
}

static _Noreturn void die(const char *why)
{
    fprintf(stderr, "gguf-extra: %s\n", why);
    exit(1);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Where older versions of llama.cpp want biases of queries, keys and values. */
static bool has_biases(const char *arch)
{
    static const char *const those[] = {"dream",  "glm4moe", "gpt-oss",  "jais2",   "phi2",
                                        "phimoe", "qwen2",   "qwen2moe", "qwen2vl", "starcoder2"};
    for (size_t i = 0; i < sizeof(those) / sizeof(those[0]); i++) {
        if (strcmp(arch, those[i]) == 0)
            return true;
    }
    return false;
}

/* What new versions read if it is there. Older ones load no file that has it. */
static bool is_of_late(const char *tensor, bool biases)
{
    return ends_with(tensor, ".scale") || ends_with(tensor, ".input_scale") ||
           strcmp(tensor, "rope_freqs.weight") == 0 ||
           (!biases && (ends_with(tensor, ".attn_q.bias") || ends_with(tensor, ".attn_k.bias") ||
                        ends_with(tensor, ".attn_v.bias")));
}

/* Words that no text has; without any they do not load a model either. */
static void make_words(const struct making *m)
{
    if (!embedding(m))
        die("the model has no token_embd.weight");
    const bool biases =
        has_biases(gguf_get_val_str(m->from, gguf_find_key(m->from, "general.architecture")));
    const size_t n = (size_t)embedding(m)->ne[1];
    const char *merge = "< 0";
    char (*text)[24] = calloc(n, sizeof(*text));
    const char **words = calloc(n, sizeof(*words));
    int32_t *types = calloc(n, sizeof(*types));

    if (!text || !words || !types)
        die("out of memory");
    gguf_set_kv(m->to, m->from);
    for (int64_t i = 0; i < gguf_get_n_tensors(m->from); i++) {
        if (!is_of_late(gguf_get_tensor_name(m->from, i), biases))
            gguf_add_tensor(m->to, weight(m, i));
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(text[i], sizeof(text[i]), "<%zu>", i);
        words[i] = text[i];
        types[i] = 1; /* a normal one */
    }
    gguf_set_val_str(m->to, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(m->to, "tokenizer.ggml.pre", "gpt-2");
    gguf_set_arr_str(m->to, "tokenizer.ggml.tokens", words, n);
    gguf_set_arr_data(m->to, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, n);
    gguf_set_arr_str(m->to, "tokenizer.ggml.merges", &merge, 1);
    free(types);
    free(words);
    free(text);
}

/* ---- Pocket TTS: a text model, and what makes sound of its hidden states --------------- */

enum {
    SPEAKER = 64,
    SPEAKER_FF = 128,
    LATENT = 32, /* what becomes of one hidden state: 80 ms of sound */
    FLOW = 64,
    VOICE = 64,
    VOICE_FF = 128,
};

/* The model's last word becomes the token that speech starts with. */
static void speaker_tokens(const struct making *m)
{
    const int64_t key = gguf_find_key(m->from, "tokenizer.ggml.tokens");
    if (key < 0)
        die("the model has no vocabulary");
    const size_t n = gguf_get_arr_n(m->from, key);
    const char **tokens = calloc(n, sizeof(*tokens));
    if (!tokens)
        die("out of memory");
    for (size_t i = 0; i < n; i++)
        tokens[i] = i + 1 < n ? gguf_get_arr_str(m->from, key, i) : "<|audio_bos|>";
    gguf_set_arr_str(m->to, "tokenizer.ggml.tokens", tokens, n);
    free(tokens);
}

static void make_speaker(const struct making *m)
{
    static const char *const parts[] = {"q", "k", "v", "output"};
    add_text(m, "pockettts", SPEAKER, SPEAKER_FF, 2, 1e-5f);
    speaker_tokens(m);
    for (int i = 0; i < BLOCKS; i++) {
        add_pair(m, 0, SPEAKER, "blk.%d.attn_norm", i);
        for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
            add_random(m, SPEAKER, SPEAKER, 1, 0.3f, "blk.%d.attn_%s.weight", i, parts[k]);
        add_pair(m, 0, SPEAKER, "blk.%d.ffn_norm", i);
        add_random(m, SPEAKER, SPEAKER_FF, 1, 0.3f, "blk.%d.ffn_up.weight", i);
        add_random(m, SPEAKER_FF, SPEAKER, 1, 0.3f, "blk.%d.ffn_down.weight", i);
    }
    add_pair(m, 0, SPEAKER, "output_norm");
}

/* From a hidden state and noise to a latent, and from this to what the speaker hears next. */
static void voice_flow(const struct making *m, int64_t width)
{
    add_pair(m, LATENT, FLOW, "a.gen.flow.input_proj");
    add_pair(m, width, FLOW, "a.gen.flow.cond_embd");
    for (int i = 0; i < 2; i++) { /* the step's begin and its end */
        add_random(m, FLOW / 2, 1, 1, 3.0f, "a.gen.flow.time.%d.freqs", i);
        add_pair(m, FLOW, FLOW, "a.gen.flow.time.%d.up", i);
        add_pair(m, FLOW, FLOW, "a.gen.flow.time.%d.down", i);
        add_random(m, FLOW, 1, 1, 1.0f, "a.gen.flow.time.%d.norm", i);
    }
    for (int i = 0; i < BLOCKS; i++) {
        add_pair(m, 0, FLOW, "a.gen.flow.blk.%d.norm", i);
        add_pair(m, FLOW, FLOW, "a.gen.flow.blk.%d.up", i);
        add_pair(m, FLOW, FLOW, "a.gen.flow.blk.%d.down", i);
        add_pair(m, FLOW, 3 * FLOW, "a.gen.flow.blk.%d.ada", i);
    }
    add_pair(m, FLOW, 2 * FLOW, "a.gen.flow.final.ada");
    add_pair(m, FLOW, LATENT, "a.gen.flow.final.proj");
    add_random(m, LATENT, width, 1, 0.3f, "a.gen.input_linear.weight");
    add_random(m, width, 1, 1, 0.1f, "a.gen.out_eos.weight");
    add_random(m, 1, 1, 1, 0, "a.gen.out_eos.bias");
    /* Speech ends where this is above -4: here only where it is told to. */
    *(float *)ggml_get_tensor(m->ctx, "a.gen.out_eos.bias")->data = -100;
}

/* The kernel of a convolution, which llama.cpp wants in f16, and its bias. */
static void add_kernel(const struct making *m, int64_t values, int64_t ne1, int64_t ne2,
                       int64_t bias, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
static void add_kernel(const struct making *m, int64_t values, int64_t ne1, int64_t ne2,
                       int64_t bias, const char *fmt, ...)
{
    char name[GGML_MAX_NAME];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    struct ggml_tensor *t = ggml_new_tensor_3d(m->ctx, GGML_TYPE_F16, values, ne1, ne2);
    ggml_format_name(t, "%s.weight", name);
    fill(t, 0.15f);
    gguf_add_tensor(m->to, t);
    if (bias)
        add_random(m, bias, 1, 1, 0.1f, "%s.bias", name);
}

static void voice_transformer(const struct making *m, const char *side)
{
    static const char *const parts[] = {"q", "k", "v", "out"};
    for (int i = 0; i < BLOCKS; i++) {
        add_pair(m, 0, VOICE, "%s.blk.%d.ln1", side, i);
        for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
            add_random(m, VOICE, VOICE, 1, 0.3f, "%s.blk.%d.attn_%s.weight", side, i, parts[k]);
        add_random(m, VOICE, 1, 1, 1.0f, "%s.blk.%d.ls1.weight", side, i);
        add_pair(m, 0, VOICE, "%s.blk.%d.ln2", side, i);
        add_random(m, VOICE, VOICE_FF, 1, 0.3f, "%s.blk.%d.ffn_up.weight", side, i);
        add_random(m, VOICE_FF, VOICE, 1, 0.3f, "%s.blk.%d.ffn_down.weight", side, i);
        add_random(m, VOICE, 1, 1, 1.0f, "%s.blk.%d.ls2.weight", side, i);
    }
}

/* Three stages, each with more channels than the one before and fewer values; or back. */
static void voice_stages(const struct making *m, const char *side, bool back)
{
    static const int strides[] = {4, 5, 6}; /* llama.cpp's, as the 16 below */
    enum { FEW = 8, MANY = FEW << 3 };

    add_kernel(m, 7, back ? VOICE : 1, back ? MANY : FEW, back ? MANY : FEW, "%s.seanet.conv_in",
               side);
    for (int i = 0; i < 3; i++) {
        const int at = back ? 2 - i : i;
        const int64_t n = FEW << at;
        add_kernel(m, 3, n, n / 2, n / 2, "%s.seanet.blk.%d.res_conv1", side, i);
        add_kernel(m, 1, n / 2, n, n, "%s.seanet.blk.%d.res_conv2", side, i);
        add_kernel(m, 2 * strides[at], n, 2 * n, back ? n : 2 * n, "%s.seanet.blk.%d.scale_conv",
                   side, i);
    }
    add_kernel(m, 3, back ? FEW : MANY, back ? 1 : VOICE, back ? 1 : VOICE, "%s.seanet.conv_out",
               side);
}

static void voice_keys(const struct making *m, const char *prefix, const char *projector,
                       int64_t width)
{
    char key[96];
    snprintf(key, sizeof(key), "%s.projector_type", prefix);
    gguf_set_val_str(m->to, key, projector);
    snprintf(key, sizeof(key), "%s.projection_dim", prefix);
    gguf_set_val_u32(m->to, key, (uint32_t)width);
    add_shape(m, prefix, VOICE, VOICE_FF, 2, 1e-5f);
}

static void make_voice(const struct making *m)
{
    const int64_t width = embedding(m)->ne[0];
    gguf_set_val_str(m->to, "general.architecture", "clip");
    gguf_set_val_bool(m->to, "clip.has_audio_encoder", true);
    voice_keys(m, "clip.audio", "pockettts_spkenc", width);
    gguf_set_val_u32(m->to, "clip.audio.num_mel_bins", 1);
    gguf_set_val_bool(m->to, "clip.has_gen_audio_encoder", true);
    voice_keys(m, "clip.gen.audio", "pockettts_gen", width);
    gguf_set_val_str(m->to, "clip.gen.audio.model_variant", "english");
    /* Who is to be spoken like: from a sound to what the speaker hears first. */
    voice_stages(m, "a", false);
    voice_transformer(m, "a");
    add_kernel(m, 2 * 16, VOICE, VOICE, 0, "a.downsample.conv");
    add_random(m, VOICE, width, 1, 0.3f, "a.speaker_proj.weight");
    voice_flow(m, width);
    /* From latents to sound. */
    add_random(m, LATENT, 1, 1, 0.1f, "a.gen.emb_mean");
    add_random(m, LATENT, 1, 1, 1.0f, "a.gen.emb_std");
    add_random(m, LATENT, VOICE, 1, 0.3f, "a.gen.wav.quant_out.weight");
    add_kernel(m, 2 * 16, 1, VOICE, 0, "a.gen.wav.upsample");
    voice_transformer(m, "a.gen.wav.tfm");
    voice_stages(m, "a.gen.wav", true);
}

static const struct kind {
    const char *name;
    void (*make)(const struct making *m);
} kinds[] = {{"lora", make_lora},  {"rank", make_rank},   {"vision", make_vision},
             {"t5", make_t5},      {"words", make_words}, {"speaker", make_speaker},
             {"voice", make_voice}};

static const struct kind *kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(name, kinds[i].name) == 0)
            return &kinds[i];
    }
    return NULL;
}

static int run(const struct kind *kind, const char *model, const char *output)
{
    struct making m = {0};
    m.from =
        gguf_init_from_file(model, (struct gguf_init_params){.no_alloc = false, .ctx = &m.weights});
    if (!m.from || !m.weights) {
        fprintf(stderr, "gguf-extra: %s cannot be read\n", model);
        return 1;
    }
    m.to = gguf_init_empty();
    m.ctx = ggml_init((struct ggml_init_params){.mem_size = ggml_get_mem_size(m.weights) +
                                                            TENSORS_MAX * ggml_tensor_overhead()});
    if (!m.to || !m.ctx) {
        fprintf(stderr, "gguf-extra: out of memory\n");
        return 1;
    }
    kind->make(&m);
    bool ok = gguf_write_to_file(m.to, output, false);
    if (!ok)
        fprintf(stderr, "gguf-extra: %s cannot be written\n", output);
    gguf_free(m.to);
    gguf_free(m.from);
    ggml_free(m.ctx);
    ggml_free(m.weights);
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
    const struct kind *kind = optind + 1 == argc ? kind_find(argv[optind]) : NULL;
    if (!model || !output || !kind) {
        fputs("usage: gguf-extra lora|rank|vision|t5|words|speaker|voice --model FILE --output "
              "FILE\n",
              stderr);
        return 2;
    }
    return run(kind, model, output);
}
