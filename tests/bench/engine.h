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

/* What goes wrong in any of these ends the program (options.h). */

/* Once per process, before any engine: loads ggml's backends, and --stamp's. It may start threads.
 */
void engine_setup(const struct options *o);

/* now_ns() in seconds. */
double engine_now(void);

/* Finds the device only. Zero-initialises *e. */
void engine_init(struct engine *e, const struct option_side *side);
/* Loads the model; nothing else is timed by `load`. engine_unload may follow, then this again. */
void engine_load(struct engine *e, const struct options *o, const char *path);
void engine_unload(struct engine *e);
/* Both, and a context for n tokens. */
void engine_start(struct engine *e, const struct options *o, const struct option_side *side,
                  const char *path, int n);
/* All of it; what was not made is skipped. */
void engine_fini(struct engine *e);

/* Empties the cache. */
void engine_clear(struct engine *e);
/*
 * n tokens one by one, each followed by what a greedy sampler does: fetching the logits and looking
 * for the highest. `tokens` (NULL is allowed) gets the tokens found. Returns the seconds it took.
 */
double engine_generate(struct engine *e, int n, int32_t *tokens);
/* Prompts and a generation of as many tokens as the options say, checked; with `settle` after a
 * prompt and some tokens that are not counted. */
void engine_turn(struct engine *e, const struct options *o, struct turn *turn);
/* That the logits of the last token are numbers, or a stamp that is newer than the last one. */
void engine_check(struct engine *e);

#endif
