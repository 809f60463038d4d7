/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whisper-write: a model of whisper.cpp's with random weights, and a sound for it.
 *
 *   whisper-write model FILE   in the format of its ggml-*.bin files: English, four layers on each
 * side whisper-write sound FILE   four seconds of three tones that rise and fall, a WAV of 16 kHz
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
static void tensor(unsigned n_dims, const int32_t ne[3], bool half, float middle, float size,
                   const char *fmt, ...) __attribute__((format(printf, 6, 7)));
static void tensor(unsigned n_dims, const int32_t ne[3], bool half, float middle, float size,
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

static void write_model(void)
{
    static const char *const asked_for[] = {" ", " -", " '"}; /* whisper.cpp wants them there */
    const int32_t sizes[] = {WORDS, SOUND_CONTEXT, STATE,  HEADS, LAYERS, TEXT_CONTEXT,
                             STATE, HEADS,         LAYERS, MELS,  1 /* f16 */};
    put_u32(MAGIC);
    put(sizes, sizeof(sizes));
    /* Triangles side by side. */
    put_u32(MELS);
    put_u32(BINS);
    for (int m = 0; m < MELS; m++) {
        for (int k = 0; k < BINS; k++) {
            const float far = fabsf((float)(k * (MELS + 1)) / (float)BINS - (float)(m + 1));
            const float v = far < 1 ? (1 - far) / 40 : 0;
            put(&v, sizeof(v));
        }
    }
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
    const bool model = argc == 3 && strcmp(argv[1], "model") == 0;
    if (!model && (argc != 3 || strcmp(argv[1], "sound") != 0)) {
        fputs("usage: whisper-write model|sound FILE\n", stderr);
        return 2;
    }
    out = fopen(argv[2], "wb");
    if (!out) {
        perror(argv[2]);
        return 1;
    }
    if (model)
        write_model();
    else
        write_sound();
    if (fclose(out)) {
        perror(argv[2]);
        return 1;
    }
    return 0;
}
