/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/models/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gguf.h>

#include "tests/lib/models/shape.h"

enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3 }; /* values of tokenizer.ggml.token_type */
enum { TOKEN_SIZE = 24 };

/* A byte-level tokenizer writes a space as U+0120. */
#define SPACE "\xc4\xa0"

static const struct {
    const char *merge, *token;
} merges[VOCAB_MIN - VOCAB_BYTES - 256] = {
    {SPACE " t", SPACE "t"}, {"h e", "he"}, {"i n", "in"},
    {SPACE " a", SPACE "a"}, {"r e", "re"}, {SPACE "t he", SPACE "the"},
    {"o n", "on"},           {"e r", "er"},
};

static const char chat_template[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

static bool is_printable(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/*
 * The byte-to-character map of byte-level BPE: a printable Latin-1 byte stands for itself, the
 * others follow in order from U+0100.
 */
static void byte_token(char *buf, int byte)
{
    unsigned c = (unsigned)byte;
    if (!is_printable(byte)) {
        c = 256;
        for (int b = 0; b < byte; b++)
            c += !is_printable(b);
    }
    if (c < 0x80) {
        buf[0] = (char)c;
        buf[1] = '\0';
    } else {
        buf[0] = (char)(0xc0 | (c >> 6));
        buf[1] = (char)(0x80 | (c & 0x3f));
        buf[2] = '\0';
    }
}

/* The i-th invented word: syllables, so that generated text can be read and told apart. */
static void word_token(char *buf, int64_t i)
{
    static const char consonants[] = "bdfgklmnprstvz";
    static const char vowels[] = "aeiou";
    const int64_t nc = sizeof(consonants) - 1, nv = sizeof(vowels) - 1;
    size_t used = 0;

    memcpy(buf, SPACE, 2);
    used = 2;
    /* At least two syllables: one alone could equal a merged token. */
    for (int n = 0; n < 2 || i > 0; n++) {
        buf[used++] = consonants[i % nc];
        i /= nc;
        buf[used++] = vowels[i % nv];
        i /= nv;
    }
    buf[used] = '\0';
}

void vocab_write(struct gguf_context *gguf, int64_t n)
{
    const size_t count = (size_t)n;
    char (*text)[TOKEN_SIZE] = calloc(count, sizeof(*text));
    const char **tokens = calloc(count, sizeof(*tokens));
    int32_t *types = calloc(count, sizeof(*types));
    const char *merge_lines[sizeof(merges) / sizeof(merges[0])];

    if (!text || !tokens || !types)
        fail("out of memory");
    for (size_t i = 0; i < count; i++) {
        tokens[i] = text[i];
        types[i] = TOKEN_NORMAL;
    }
    strcpy(text[VOCAB_END], "<|endoftext|>");
    strcpy(text[VOCAB_IM_START], "<|im_start|>");
    strcpy(text[VOCAB_IM_END], "<|im_end|>");
    for (int i = 0; i < VOCAB_BYTES; i++)
        types[i] = TOKEN_CONTROL;
    for (int b = 0; b < 256; b++)
        byte_token(text[VOCAB_BYTES + b], b);
    for (size_t i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
        strcpy(text[VOCAB_BYTES + 256 + i], merges[i].token);
        merge_lines[i] = merges[i].merge;
    }
    for (int64_t i = VOCAB_MIN; i < n; i++)
        word_token(text[i], i - VOCAB_MIN);

    gguf_set_val_str(gguf, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", "gpt-2");
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", tokens, count);
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, count);
    gguf_set_arr_str(gguf, "tokenizer.ggml.merges", merge_lines,
                     sizeof(merges) / sizeof(merges[0]));
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", VOCAB_END);
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", VOCAB_IM_END);
    gguf_set_val_u32(gguf, "tokenizer.ggml.padding_token_id", VOCAB_END);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", true);
    gguf_set_val_str(gguf, "tokenizer.chat_template", chat_template);
    free(types);
    free(tokens);
    free(text);
}

bool vocab_is_text(int64_t token)
{
    const int64_t byte = token - VOCAB_BYTES;
    return byte >= 256 || (byte >= 32 && byte <= 126);
}
