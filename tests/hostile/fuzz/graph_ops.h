/* SPDX-License-Identifier: Apache-2.0 */
/* One op each, made by ggml's own builders from dimensions that a fuzzer picks. */
#ifndef APIR_FUZZ_GRAPH_OPS_H
#define APIR_FUZZ_GRAPH_OPS_H

#include <stddef.h>
#include <stdint.h>

#include <ggml.h>

#include "protocol/graph.h"

/* A source of numbers: the input's bytes first, then what they seed. */
struct dice {
    const uint8_t *data;
    size_t left;
    uint64_t state;
};

uint32_t dice_roll(struct dice *d, uint32_t sides); /* 0 to sides - 1 */

extern const unsigned graph_ops_count;

/*
 * The result of op `which` in ctx (no_alloc), with leaves for sources. NULL: not this time.
 * ggml's abort callback is called where the builder refuses the numbers.
 */
struct ggml_tensor *graph_op_make(struct ggml_context *ctx, struct dice *d, unsigned which);

/* An op on the wire: its leaves, each in a buffer of its own (ids from 1), then itself. */
#define GRAPH_SCENE_MAX (APIR_TENSOR_SRC + 2)

struct graph_scene {
    struct apir_name names[2];
    struct apir_graph_buffer buffers[GRAPH_SCENE_MAX];
    struct apir_tensor tensors[GRAPH_SCENE_MAX];
    const struct ggml_tensor *from[GRAPH_SCENE_MAX];
    struct apir_graph g;
};

/* `s` points into itself: copies need their pointers set again. */
void graph_scene_make(struct graph_scene *s, const struct ggml_tensor *t);

#endif
