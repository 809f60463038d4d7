/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whisper-write: models of whisper.cpp's with random weights, and a sound for them.
 *
 *   whisper-write model FILE      in the format of its ggml-*.bin files: English, four layers on
 * each side whisper-write parakeet FILE   the same for parakeet-cli: two layers, eight letters
 *   whisper-write sound FILE      four seconds of three tones that rise and fall, a WAV of 16 kHz
 *
 * The format is that of whisper_model_load() in whisper.cpp: a magic number, the sizes, the filters
 * of the spectrum, the words, and one tensor after the other until the file's end; little-endian.
 */
#include <stdarg.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml.h>

enum {
    MAGIC = 0x67676d6c,
    WORDS = 51864,      /* whisper.cpp takes a model with so many for an English one … */
    WORDS_TEXT = 50257, /* … whose first so many have a text in the file */
    SOUND_CONTEXT = 1500,
    TEXT_CONTEXT = 448,
    STATE = 128,
    HEADS = 2,
    LAYERS = 4,
    MELS = 80,
    BINS = 201,
    RATE = 16000,
    SECONDS = 4,
};

static FILE *out;

static void put(const void *data, size_t size)
{
    if (fwrite(data, 1, size, out) != size) {
        perror("whisper-write");
        exit(1);
    }
}
static void put_u32(uint32_t v)
{
    put(&v, sizeof(v));
}

/* Numbers between -1 and 1, the same for the same seed. */
static float chance(uint32_t *state)
{
    *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
    return (float)(*state >> 8) / (float)(1 << 23) - 1.0f;
}

/* One tensor: its values are around `middle`, `size` apart at most. Matrices are f16. */
static void tensor(unsigned n_dims, const int32_t *ne, bool half, float middle, float size,
                   const char *fmt, ...) __attribute__((format(printf, 6, 7)));
static void tensor(unsigned n_dims, const int32_t *ne, bool half, float middle, float size,
                   const char *fmt, ...)
{
    char name[64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    put_u32(n_dims);
    put_u32((uint32_t)strlen(name));
    put_u32(half ? GGML_TYPE_F16 : GGML_TYPE_F32);
    put(ne, n_dims * sizeof(*ne));
    put(name, strlen(name));
    uint32_t seed = 1;
    for (const char *c = name; *c; c++)
        seed = seed * 31 + (unsigned char)*c;
    int64_t n = 1;
    for (unsigned i = 0; i < n_dims; i++)
        n *= ne[i];
    for (int64_t i = 0; i < n; i++) {
        const float v = middle + size * chance(&seed);
        const ggml_fp16_t h = ggml_fp32_to_fp16(v);
        put(half ? (const void *)&h : (const void *)&v, half ? sizeof(h) : sizeof(v));
    }
}
static void vector(int32_t n, float middle, const char *side, int layer, const char *name)
{
    if (layer < 0)
        tensor(1, (int32_t[3]){n}, false, middle, 0.1f, "%s.%s", side, name);
    else
        tensor(1, (int32_t[3]){n}, false, middle, 0.1f, "%s.blocks.%d.%s", side, layer, name);
}
static void matrix(int32_t in, int32_t to, const char *side, int layer, const char *name)
{
    tensor(2, (int32_t[3]){in, to}, true, 0, 3.0f / sqrtf((float)in), "%s.blocks.%d.%s", side,
           layer, name);
}

/* Queries, keys (which have no bias), values and what they become; before it a norm. */
static void attention(const char *side, int layer, const char *which)
{
    static const char *const parts[] = {"query", "key", "value", "out"};
    char name[32];
    snprintf(name, sizeof(name), "%s_ln.weight", which);
    vector(STATE, 1, side, layer, name);
    snprintf(name, sizeof(name), "%s_ln.bias", which);
    vector(STATE, 0, side, layer, name);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(name, sizeof(name), "%s.%s.weight", which, parts[i]);
        matrix(STATE, STATE, side, layer, name);
        snprintf(name, sizeof(name), "%s.%s.bias", which, parts[i]);
        if (strcmp(parts[i], "key") != 0)
            vector(STATE, 0, side, layer, name);
    }
}
static void layers(const char *side, bool cross)
{
    for (int i = 0; i < LAYERS; i++) {
        attention(side, i, "attn");
        if (cross)
            attention(side, i, "cross_attn");
        vector(STATE, 1, side, i, "mlp_ln.weight");
        vector(STATE, 0, side, i, "mlp_ln.bias");
        matrix(STATE, 4 * STATE, side, i, "mlp.0.weight");
        vector(4 * STATE, 0, side, i, "mlp.0.bias");
        matrix(4 * STATE, STATE, side, i, "mlp.2.weight");
        vector(STATE, 0, side, i, "mlp.2.bias");
    }
}

/* Of the spectrum: triangles side by side. */
static void put_filters(int mels, int bins)
{
    put_u32((uint32_t)mels);
    put_u32((uint32_t)bins);
    for (int m = 0; m < mels; m++) {
        for (int k = 0; k < bins; k++) {
            const float far = fabsf((float)(k * (mels + 1)) / (float)bins - (float)(m + 1));
            const float v = far < 1 ? (1 - far) / 40 : 0;
            put(&v, sizeof(v));
        }
    }
}

static void write_model(void)
{
    static const char *const asked_for[] = {" ", " -", " '"}; /* whisper.cpp wants them there */
    const int32_t sizes[] = {WORDS, SOUND_CONTEXT, STATE,  HEADS, LAYERS, TEXT_CONTEXT,
                             STATE, HEADS,         LAYERS, MELS,  1 /* f16 */};
    put_u32(MAGIC);
    put(sizes, sizeof(sizes));
    put_filters(MELS, BINS);
    put_u32(WORDS_TEXT);
    for (int i = 0; i < WORDS_TEXT; i++) {
        char word[16];
        const int n = i < 3 ? snprintf(word, sizeof(word), "%s", asked_for[i])
                            : snprintf(word, sizeof(word), " w%d", i);
        put_u32((uint32_t)n);
        put(word, (size_t)n);
    }
    tensor(2, (int32_t[3]){STATE, SOUND_CONTEXT}, false, 0, 1, "encoder.positional_embedding");
    tensor(3, (int32_t[3]){3, MELS, STATE}, true, 0, 0.3f, "encoder.conv1.weight");
    tensor(2, (int32_t[3]){1, STATE}, false, 0, 0.1f, "encoder.conv1.bias");
    tensor(3, (int32_t[3]){3, STATE, STATE}, true, 0, 0.2f, "encoder.conv2.weight");
    tensor(2, (int32_t[3]){1, STATE}, false, 0, 0.1f, "encoder.conv2.bias");
    layers("encoder", false);
    vector(STATE, 1, "encoder", -1, "ln_post.weight");
    vector(STATE, 0, "encoder", -1, "ln_post.bias");
    tensor(2, (int32_t[3]){STATE, TEXT_CONTEXT}, false, 0, 1, "decoder.positional_embedding");
    tensor(2, (int32_t[3]){STATE, WORDS}, true, 0, 0.3f, "decoder.token_embedding.weight");
    layers("decoder", true);
    vector(STATE, 1, "decoder", -1, "ln.weight");
    vector(STATE, 0, "decoder", -1, "ln.bias");
}

/* ---- parakeet: what parakeet_model_load() reads -------------------------------------- */

enum {
    P_WORDS = 26,
    P_STATE = 128,
    P_HEADS = 2,
    P_LAYERS = 2,
    P_FFT = 512,
    P_SHORTER = 8, /* so many frames of the sound become one */
    P_CHANNELS = 16,
    P_KERNEL = 9,
    P_TEXT = 64,
    P_STEPS = 5, /* so many frames a letter may take */
};

/* A tensor of f32; weights small enough that sums stay near 1. */
struct part {
    const char *name;
    int32_t ne[4];
    float middle, size;
};

static void put_parts(const struct part *parts, size_t n, const char *before)
{
    for (size_t i = 0; i < n; i++) {
        const struct part *p = &parts[i];
        unsigned dims = 4;
        while (dims > 1 && p->ne[dims - 1] == 0)
            dims--;
        tensor(dims, p->ne, false, p->middle, p->size, "%s%s", before, p->name);
    }
}

#define P_NORM(name)   {name ".weight", {P_STATE}, 1, 0.1f}, {name ".bias", {P_STATE}, 0, 0.1f}
#define P_SQUARE(name) {name, {P_STATE, P_STATE}, 0, 0.2f}
#define P_FORWARD(name)                                                                            \
    {name ".linear1.weight", {P_STATE, 4 * P_STATE}, 0, 0.2f},                                     \
        {name ".linear2.weight", {4 * P_STATE, P_STATE}, 0, 0.1f}
#define P_CONV(name, in, side)                                                                     \
    {name ".weight", {side, side, in, P_CHANNELS}, 0, 0.4f},                                       \
        {name ".bias", {1, 1, P_CHANNELS, 1}, 0, 0.1f}

static const struct part parakeet_first[] = {
    {"out.weight", {MELS / P_SHORTER * P_CHANNELS, P_STATE}, 0, 0.2f},
    {"out.bias", {P_STATE}, 0, 0.1f},
    P_CONV("conv.0", 1, 3),
    P_CONV("conv.2", 1, 3),
    P_CONV("conv.3", P_CHANNELS, 1),
    P_CONV("conv.5", 1, 3),
    P_CONV("conv.6", P_CHANNELS, 1),
};
static const struct part parakeet_layer[] = {
    P_NORM("norm_feed_forward1"),
    P_FORWARD("feed_forward1"),
    P_NORM("norm_conv"),
    {"conv.pointwise_conv1.weight", {P_STATE, 2 * P_STATE}, 0, 0.2f},
    {"conv.depthwise_conv.weight", {P_KERNEL, P_STATE}, 0, 0.4f},
    P_NORM("conv.batch_norm"),
    {"conv.batch_norm.running_mean", {P_STATE}, 0, 0.1f},
    {"conv.batch_norm.running_var", {P_STATE}, 1, 0.1f},
    {"conv.batch_norm.num_batches_tracked", {1}, 0, 0},
    P_SQUARE("conv.pointwise_conv2.weight"),
    P_NORM("norm_self_att"),
    {"self_attn.pos_bias_u", {P_STATE / P_HEADS, P_HEADS}, 0, 0.2f},
    {"self_attn.pos_bias_v", {P_STATE / P_HEADS, P_HEADS}, 0, 0.2f},
    P_SQUARE("self_attn.linear_q.weight"),
    P_SQUARE("self_attn.linear_k.weight"),
    P_SQUARE("self_attn.linear_v.weight"),
    P_SQUARE("self_attn.linear_out.weight"),
    P_SQUARE("self_attn.linear_pos.weight"),
    P_NORM("norm_feed_forward2"),
    P_FORWARD("feed_forward2"),
    P_NORM("norm_out"),
};
static const struct part parakeet_last[] = {
    {"decoder.prediction.embed.weight", {P_TEXT, P_WORDS + 1}, 0, 1},
    {"decoder.prediction.dec_rnn.lstm.weight_ih_l0", {P_TEXT, 4 * P_TEXT}, 0, 0.4f},
    {"decoder.prediction.dec_rnn.lstm.bias_h_l0", {4 * P_TEXT}, 0, 0.1f},
    {"decoder.prediction.dec_rnn.lstm.weight_hh_l0", {P_TEXT, 4 * P_TEXT}, 0, 0.4f},
    {"joint.pred.weight", {P_TEXT, P_TEXT}, 0, 0.4f},
    {"joint.pred.bias", {P_TEXT}, 0, 0.1f},
    {"joint.enc.weight", {P_STATE, P_TEXT}, 0, 0.4f},
    {"joint.enc.bias", {P_TEXT}, 0, 0.1f},
    {"joint.joint_net.2.weight", {P_TEXT, P_WORDS + P_STEPS + 1}, 0, 1},
    {"joint.joint_net.2.bias", {P_WORDS + P_STEPS + 1}, 0, 0.1f},
};
#define P_PARTS(table, before) put_parts(table, sizeof(table) / sizeof((table)[0]), before)

static void write_parakeet(void)
{
    const int32_t sizes[] = {P_WORDS,  SOUND_CONTEXT, P_STATE, P_HEADS,   P_LAYERS,
                             MELS,     0 /* f32 */,   P_FFT,   P_SHORTER, P_CHANNELS,
                             P_KERNEL, P_TEXT,        1,       P_STEPS,   4 /* letters a frame */};
    put_u32(MAGIC);
    put(sizes, sizeof(sizes));
    put_filters(MELS, P_FFT / 2 + 1);
    put_u32(P_FFT);
    for (int i = 0; i < P_FFT; i++) {
        const float v = sinf(3.14159f * (float)i / (float)P_FFT);
        put(&v, sizeof(v));
    }
    for (uint32_t i = 0; i < P_STEPS; i++)
        put_u32(i);
    put_u32(P_WORDS);
    for (int i = 0; i < P_WORDS; i++) {
        char word[16];
        const int n = i == 0 ? snprintf(word, sizeof(word), "<unk>")
                             : snprintf(word, sizeof(word), "%c", 'a' + i);
        put_u32((uint32_t)n);
        put(word, (size_t)n);
    }
    P_PARTS(parakeet_first, "encoder.pre_encode.");
    for (int i = 0; i < P_LAYERS; i++) {
        char before[32];
        snprintf(before, sizeof(before), "encoder.layers.%d.", i);
        P_PARTS(parakeet_layer, before);
    }
    P_PARTS(parakeet_last, "");
}

static void write_sound(void)
{
    const uint32_t n = RATE * SECONDS, bytes = n * 2;
    put("RIFF", 4);
    put_u32(36 + bytes);
    put("WAVEfmt ", 8);
    put_u32(16);
    put_u32(1 | 1u << 16); /* whole numbers, one channel */
    put_u32(RATE);
    put_u32(RATE * 2);
    put_u32(2 | 16u << 16); /* bytes and bits of a sample */
    put("data", 4);
    put_u32(bytes);
    for (uint32_t i = 0; i < n; i++) {
        const double t = (double)i / (double)RATE;
        const double v = sin(2000 * t + 300 * sin(3 * t)) + sin(5000 * t * (1 + 0.1 * t)) +
                         sin(900 * t - 200 * cos(7 * t));
        const int16_t s = (int16_t)(v * (1 + sin(11 * t)) * 4000);
        put(&s, sizeof(s));
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*write)(void);
    } kinds[] = {{"model", write_model}, {"parakeet", write_parakeet}, {"sound", write_sound}};
    void (*write)(void) = NULL;

    for (size_t i = 0; argc == 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(argv[1], kinds[i].name) == 0)
            write = kinds[i].write;
    }
    if (!write) {
        fputs("usage: whisper-write model|parakeet|sound FILE\n", stderr);
        return 2;
    }
    out = fopen(argv[2], "wb");
    if (!out) {
        perror(argv[2]);
        return 1;
    }
    write();
    if (fclose(out)) {
        perror(argv[2]);
        return 1;
    }
    return 0;
}
