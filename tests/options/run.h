/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every case is written with: a device, a model and contexts on it, batches of made-up tokens.
 *
 * Whatever llama.cpp would choose by the device is chosen here, so that the run on the CPU and the
 * run on a device of GPU type build the same graphs: the attention kernel, sizes of batches, one
 * thread, no repacked weights, no BLAS. A case then changes what it is about.
 *
 * Functions that return int return 0, or -1 after a message on stderr.
 */
#ifndef APIR_TESTS_OPTIONS_RUN_H
#define APIR_TESTS_OPTIONS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include <ggml-backend.h>
#include <llama.h>

#include "tests/options/record.h"

enum { RUN_DEVICES_MAX = 2, RUN_ALL_LAYERS = 9999 };

struct options_case;

struct run {
    const struct options_case *test;
    const char *model;   /* file */
    const char *extra;   /* a second file, as the case wants it: an adapter, a draft model */
    const char *scratch; /* a directory for files of this run, which the caller removes */
    ggml_backend_dev_t devices[RUN_DEVICES_MAX + 1]; /* ends with NULL */
    bool native;
    bool verbose;
    struct record record;
};

/* What a model and a context are made with; cases change a copy. */
struct setup {
    struct llama_model_params model;
    struct llama_context_params context;
    struct llama_model_tensor_buft_override overrides[4];
    ggml_backend_dev_t devices[RUN_DEVICES_MAX + 1];
};

int run_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Finds the devices ("APIR0", or "APIR0,APIR1"; CPU alone stands for none) and unloads BLAS. */
int run_init(struct run *r, const char *devices);

/* The device computes on: of the list, or the CPU. */
ggml_backend_dev_t run_device(const struct run *r);

/* Never moves: params point into the setup. */
void setup_init(struct setup *s, const struct run *r);

/* With the layers that were asked for on the device: that is checked. NULL after a message. */
struct llama_model *run_model(const struct run *r, const char *path, const struct setup *s);
struct llama_context *run_context(struct llama_model *model, const struct setup *s);

/* A model and a context on it. */
struct pair {
    struct llama_model *model;
    struct llama_context *ctx;
};
int pair_init(struct pair *p, const struct run *r, const struct setup *s);
void pair_fini(struct pair *p);

/* How many values a row of logits has. */
size_t context_vocab(const struct llama_context *ctx);
size_t context_embd(const struct llama_context *ctx);

/* The i-th token of a stream without end; no control tokens. */
llama_token stream_token(uint32_t i);

/* A batch to be filled; every token may belong to `sequences` sequences. */
struct llama_batch batch_make(int tokens, int sequences);
void batch_add(struct llama_batch *b, llama_token token, llama_pos pos, llama_seq_id seq,
               bool logits);

/* Decodes, records the code, and the logits of all tokens that have some. */
int decode_record(struct llama_context *ctx, struct record *record, const char *name,
                  struct llama_batch batch);

/*
 * Decodes tokens [from, from + n) of the stream at positions pos, pos + 1 ... of a sequence, in as
 * many batches as the context wants, and records all logits.
 */
int feed(struct llama_context *ctx, struct record *record, const char *name, llama_seq_id seq,
         uint32_t from, llama_pos pos, int n);

/* The same token by token, as generation does. */
int feed_singly(struct llama_context *ctx, struct record *record, const char *name,
                llama_seq_id seq, uint32_t from, llama_pos pos, int n);

llama_token most_likely(const float *logits, size_t n);

#endif
