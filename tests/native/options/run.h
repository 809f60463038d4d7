/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What logits.c, tests/native/archs and tests/native/ggml are written with: a device, a model and
 * contexts on it, batches of made-up tokens.
 *
 * Whatever llama.cpp would choose by the device is chosen here, so that the run on the CPU and the
 * run on a device of GPU type build the same graphs: the attention kernel, sizes of batches, one
 * thread, no repacked weights, no BLAS.
 *
 * What cannot be done, or is not as it must be, ends the program with 1 after a message on stderr.
 */
#ifndef APIR_TESTS_OPTIONS_RUN_H
#define APIR_TESTS_OPTIONS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include <ggml-backend.h>
#include <llama.h>

#include "tests/native/options/record.h"

enum { RUN_DEVICES_MAX = 2, RUN_ALL_LAYERS = 9999 };

/* What a model and a context are made with. It never moves: the parameters point into it. */
struct setup {
    struct llama_model_params model;
    struct llama_context_params context;
    struct llama_model_tensor_buft_override overrides[4];
    ggml_backend_dev_t devices[RUN_DEVICES_MAX + 1]; /* ends with NULL */
};

struct run {
    const char *model_file;
    ggml_backend_dev_t devices[RUN_DEVICES_MAX + 1]; /* ends with NULL */
    bool verbose;
    struct setup setup;        /* to be changed before the model is opened */
    struct llama_model *model; /* NULL: not open */
    struct llama_context *ctx;
    struct record record;
};

void run_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* An argument of a program: `--NAME TEXT`, `--NAME NUMBER` or `--NAME`, by which of these is set.
 */
struct run_option {
    const char *name;
    const char **text;
    int *number;
    bool *flag;
};

/* The table ends with an empty row. False: an argument is none of them. */
bool run_options(const struct run_option *options, int argc, char **argv);

/*
 * Finds the devices ("APIR0", or "APIR0,APIR1"; CPU alone stands for none) and unloads BLAS. What
 * llama.cpp logs goes to stderr: warnings and errors, or all of it.
 */
void run_init(struct run *r, const char *devices);
/* Closes what is open, and keeps the record in `out`, if that is not NULL. */
void run_end(struct run *r, const char *out);

void setup_init(struct setup *s, const struct run *r);

/* The run's model and a context on it, as its setup says; a run that ends closes them. */
void run_open(struct run *r);
void run_close(struct run *r);

/* With the layers that were asked for on the device: that is checked. */
struct llama_model *run_model(const char *path, const struct setup *s);
struct llama_context *run_context(struct llama_model *model, const struct setup *s);

/* How many values a row of logits has. */
size_t context_vocab(const struct llama_context *ctx);

/* The i-th number of a stream without end. */
uint32_t stream_number(uint32_t i);

void batch_add(struct llama_batch *b, llama_token token, llama_pos pos, llama_seq_id seq,
               bool logits);

/* Decodes tokens of which the last one alone has logits. Returns llama_decode's code. */
int32_t decode_last(struct llama_context *ctx, const llama_token *tokens, llama_pos pos, int n);

/*
 * Decodes tokens made of numbers [from, from + n) of the stream at positions pos, pos + 1 ... of a
 * sequence, in as many batches as the context wants, and records all logits.
 */
void feed(struct llama_context *ctx, struct record *record, const char *name, llama_seq_id seq,
          uint32_t from, llama_pos pos, int n);

/* The same token by token, as generation does. */
void feed_singly(struct llama_context *ctx, struct record *record, const char *name,
                 llama_seq_id seq, uint32_t from, llama_pos pos, int n);

llama_token most_likely(const float *logits, size_t n);

#endif
