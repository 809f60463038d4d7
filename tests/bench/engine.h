/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a measurement: a model on one ggml device, through libllama. What llama.cpp would
 * choose by device is fixed, so that all sides build the same graph: flash attention on, 512 tokens
 * per graph, weights as they lie in the file, no accelerator that takes products away unasked.
 */
#ifndef APIR_BENCH_ENGINE_H
#define APIR_BENCH_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include <llama.h>

#include "common/error.h"
#include "tests/bench/options.h"

struct engine {
    const struct option_side *side;
    ggml_backend_dev_t devices[2]; /* NULL-terminated; none: the CPU */
    struct llama_model *model;
    struct llama_context *ctx;
    int n_vocab;
    int32_t last;    /* the token that the next decode is given */
    bool is_stamped; /* logits are a stamp (stamp.h) */
    uint64_t stamps; /* the last one's number */
};

/* What a turn took, in seconds (0: it was not asked for), and the tokens that were generated. */
struct turn {
    double pp, tg;
    int32_t *tokens; /* room for all */
};

/* Once per process, before any engine: loads ggml's backends. It may start threads. */
void engine_setup(bool verbose);
/* One more backend: libggml-stamp. NULL: none. Returns 0 or -errno with *err set. */
int engine_setup_stamp(const char *library, struct apir_error *err);
/* At the end: devices may still log when the process exits. */
void engine_teardown(void);

/* now_ns() in seconds. */
double engine_now(void);

/* Finds the device only. Zero-initialises *e. Returns 0 or -errno with *err set, as all below. */
int engine_init(struct engine *e, const struct option_side *side, struct apir_error *err);
/* Loads the model; nothing else is timed by `load`. engine_unload may follow, then this again. */
int engine_load(struct engine *e, const struct options *o, const char *path,
                struct apir_error *err);
void engine_unload(struct engine *e);
/* A context for n tokens. */
int engine_open(struct engine *e, const struct options *o, int n, struct apir_error *err);
/* All of it; what was not made is skipped. */
void engine_fini(struct engine *e);

/* Empties the cache. */
void engine_clear(struct engine *e);
/* A made-up prompt of n tokens from an empty cache, until the device is done with it. */
int engine_prompt(struct engine *e, int n, double *ret_seconds, struct apir_error *err);
/*
 * n tokens one by one, each followed by what a greedy sampler does: fetching the logits and looking
 * for the highest. `tokens` (NULL is allowed) gets the tokens found.
 */
int engine_generate(struct engine *e, int n, int32_t *tokens, double *ret_seconds,
                    struct apir_error *err);
/* Prompts and a generation of as many tokens as the options say, checked; with `settle` after a
 * prompt and some tokens that are not counted. */
int engine_turn(struct engine *e, const struct options *o, struct turn *turn,
                struct apir_error *err);
/* That the logits of the last token are numbers, or a stamp that is newer than the last one. */
int engine_check(struct engine *e, struct apir_error *err);

#endif
