/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of several ops, as ggml's builders make them, with some numbers changed. */
#ifndef APIR_FUZZ_GRAPH_RANDOM_H
#define APIR_FUZZ_GRAPH_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/worker/rules/op.h"
#include "backend/worker/rules/rules.h"
#include "tests/hostile/fuzz/graph_ops.h"

#define RANDOM_GRAPH_OPS     4u
#define RANDOM_GRAPH_TENSORS (RANDOM_GRAPH_OPS * GRAPH_SCENE_MAX)
#define RANDOM_GRAPH_BUFFERS 8u
#define RANDOM_GRAPH_BYTES   32768u /* of the encoding */

struct random_graph {
    struct apir_name names[2 * RANDOM_GRAPH_OPS];
    struct apir_graph_buffer buffers[RANDOM_GRAPH_BUFFERS];
    struct apir_tensor tensors[RANDOM_GRAPH_TENSORS];
    struct apir_graph g; /* points to the above */
};

/* One op of graph_ops, or none (false): the builders refuse many numbers with an assert. */
bool graph_op_try(struct graph_scene *s, struct dice *d, unsigned which);

/*
 * n_ops at most; results become sources of what follows where they fit. Every tensor has a
 * place only after random_graph_place, or none after random_graph_imagine. ggml's abort
 * callback is the caller's while it asks for a graph, and his again afterwards.
 */
void random_graph_make(struct random_graph *g, struct dice *d, uint32_t n_ops);

/* Changes one number of a tensor: a dimension, a stride, a parameter, a source, … */
void graph_change(struct apir_tensor *tensors, uint32_t n_tensors, struct dice *d);

/* Gives every tensor a place in one of the n buffers (already in g->buffers) of these sizes. */
bool random_graph_place(struct random_graph *g, struct dice *d, const struct host_type *types,
                        const uint64_t *sizes, uint32_t n);

/* For a question: no buffers, no views. */
void graph_imagine(struct apir_graph *g);

/* Of all tensors together. */
uint64_t random_graph_elements(const struct apir_graph *g);

/* Whether an op is in it that docs/threat-model.md promises nothing for, whatever the values. */
bool random_graph_unpromised(const struct apir_graph *g);

#endif
