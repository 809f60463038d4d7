/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte-level vocabulary: three control tokens, one token per byte, a few merges, and invented
 * words up to the size asked for. Any text can be tokenised with it.
 */
#ifndef APIR_TESTS_MODELS_VOCAB_H
#define APIR_TESTS_MODELS_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

struct gguf_context;

enum {
    VOCAB_END = 0,      /* <|endoftext|>, also begin of text */
    VOCAB_IM_START = 1, /* <|im_start|> */
    VOCAB_IM_END = 2,   /* <|im_end|>, ends a turn of a chat */
    VOCAB_BYTES = 3,    /* the first of 256 byte tokens */
    VOCAB_MIN = VOCAB_BYTES + 256 + 8,
};

/* Writes the tokenizer's keys and a chat template. n must be VOCAB_MIN or more. */
void vocab_write(struct gguf_context *gguf, int64_t n);

/* True for a token that is readable text: the others should not be generated. */
bool vocab_is_text(int64_t token);

#endif
