/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one run of a model gave: its tokens and, for each of them, the logits of the next one.
 * On disk in the byte order of the machine; both runs are made on the same one.
 */
#ifndef APIR_TESTS_PARITY_RECORD_H
#define APIR_TESTS_PARITY_RECORD_H

#include <stddef.h>
#include <stdint.h>

struct record {
    uint32_t n_vocab;
    uint32_t n_prompt; /* the first n_prompt tokens were given */
    uint32_t n_gen;    /* the others were generated, greedily */
    double perplexity; /* of a fixed text; 0 if it was not asked for */
    int32_t *tokens;   /* n_prompt + n_gen */
    float *logits;     /* (n_prompt + n_gen) rows of n_vocab */
};

/* Allocates tokens and logits. Returns 0, or -1 and errno. */
int record_init(struct record *r, uint32_t n_vocab, uint32_t n_prompt, uint32_t n_gen);
void record_fini(struct record *r);

static inline size_t record_rows(const struct record *r)
{
    return (size_t)r->n_prompt + r->n_gen;
}

static inline float *record_row(const struct record *r, size_t row)
{
    return r->logits + row * r->n_vocab;
}

/* FNV-1a over the bytes of all logits. */
uint64_t record_hash(const struct record *r);

/* Both return 0, or -1 and errno; EPROTO is a file that is no record. */
int record_save(const struct record *r, const char *path);
int record_load(struct record *ret_record, const char *path);

#endif
