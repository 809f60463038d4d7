/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph like that of one token of a llama model: 28 layers, 900 nodes, the six
 * inputs and the KV cache that llama.cpp has, logits of 128 KiB. The matrices are
 * small, for nobody multiplies them.
 */
#ifndef APIR_BENCH_MODEL_H
#define APIR_BENCH_MODEL_H

#include <ggml-backend.h>
#include <ggml.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_NODES  900
#define MODEL_INPUTS 6
#define MODEL_LOGITS (128u << 10) /* bytes */

/* The calls of a token, in this order. */
enum model_phase { PHASE_SET, PHASE_COMPUTE, PHASE_GET, PHASE_SYNC, MODEL_PHASES };

/* Who sets inputs and runs the graph. */
enum model_road {
    MODEL_SCHED,      /* ggml's scheduler, as llama.cpp: the graph has a uid */
    MODEL_DIRECT_UID, /* the backend's own functions, uid set by us */
    MODEL_DIRECT,     /* the same with uid 0: what ggml before 2026-04 looks like */
};

struct model {
    enum model_road road;
    ggml_backend_t backend;
    ggml_backend_t cpu; /* the scheduler wants one; it gets nothing to do */
    ggml_backend_sched_t sched;
    ggml_gallocr_t galloc;
    ggml_backend_buffer_t weights, cache;
    struct ggml_context *ctx_weights, *ctx_cache, *ctx_graph;
    struct ggml_cgraph *graph;
    struct ggml_tensor *inputs[MODEL_INPUTS];
    struct ggml_tensor *logits;
    uint8_t *values[MODEL_INPUTS]; /* what the inputs are set to next */
    size_t sizes[MODEL_INPUTS];
    uint64_t seeds[MODEL_INPUTS];
    uint8_t *out; /* the logits of the last token */
    size_t out_size;
    uint64_t first, tokens;              /* first stamp seen; tokens since */
    uint64_t began, ended[MODEL_PHASES]; /* of the last token; CLOCK_MONOTONIC, ns */
};

/*
 * Builds the graph and allocates it on `device`. uid_offset: where ggml_cgraph
 * keeps its uid, needed for MODEL_DIRECT_UID only. Where ggml does not do as it should,
 * the program ends (apir_bench.h), as below.
 */
void model_init(struct model *m, const char *device, enum model_road road, size_t uid_offset);
void model_fini(struct model *m);

/* New values for all inputs; not part of what is measured. */
void model_prepare(struct model *m);

/* One token: set all inputs, start the graph, ask for the logits, wait. */
void model_token(struct model *m);

/* That the logits carry the stamp of exactly this token. */
void model_check(struct model *m);

#endif
