/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random graphs. The same plan gives the same graph on both sides, tensor by tensor in the order
 * of creation; which ops it has follows from what both devices say they support.
 */
#ifndef APIR_DIFFER_GGML_BUILD_H
#define APIR_DIFFER_GGML_BUILD_H

#include <ggml-backend.h>
#include <ggml.h>

#include "tests/native/differ/ggml_world.h"

enum {
    BUILD_OPS_MAX = 48,  /* tries; bits of a mask */
    BUILD_POOL_MAX = 24, /* results that further ops may use */
    BUILD_NODES_MAX = 512,
    BUILD_TENSORS_MAX = 4 * BUILD_NODES_MAX,
};

struct plan {
    uint64_t seed;
    unsigned n_ops;
    bool in_place;   /* ops that write to their source */
    bool keep;       /* tensors that a graph writes to and a later run reads */
    bool disabled;   /* nodes that are not to be computed */
    bool odd_ops;    /* ops of all kinds, each with leaves of its own */
    unsigned relays; /* large results that the CPU hands to the device in every run */
    bool whole;      /* only ops that write all of their result, and results that have a size */
    bool moves;      /* views may come behind what uses them, as where a backend has reordered */
    bool decided;    /* supported is known: the second side must say the same */
    uint64_t supported;
};

struct built {
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
};

/* The same graph on both sides, and all tensors that it has or needs, sources before users. */
struct both {
    struct plan plan;
    struct built built[SIDES];
    void *memory[SIDES]; /* of the contexts; kept, so that another graph gets the same addresses */
    struct ggml_tensor *tensors[SIDES][BUILD_TENSORS_MAX];
    size_t n_tensors;
};

/* ggml refuses what its builders are asked with an assert: here that is an answer. */
void build_init(void);

/* As the plan says. */
void both_build(struct both *g, const ggml_backend_dev_t dev[SIDES]);
/* The graph alone; or the memory as well. */
void both_forget(struct both *g);
void both_fini(struct both *g);
struct pair both_pair(const struct both *g, size_t i);

bool build_is_leaf(const struct ggml_tensor *t);
/* Whether a leaf holds what a run has left for the next one. */
bool build_is_kept(const struct ggml_tensor *t);
/* Where a leaf has to lie, or a node is computed: 'c' with the CPU, 'd' the device, or anywhere */
char build_where(const struct ggml_tensor *t);

/* With --verbose: nodes, their shapes and sources. */
void build_show(struct ggml_cgraph *graph);

#endif
