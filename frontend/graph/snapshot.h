/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph as it lay in memory when it was last encoded. A program that builds the
 * same graph anew builds it at the same addresses, mostly; to see that takes a tenth
 * of the time of encoding it again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "frontend/graph/encode.h"

struct snapshot {
    uint32_t n_tensors; /* 0: none */
    uint32_t n_nodes;
    uint32_t cap;
    /* Nodes in the graph's order, then the others: each one is named by a tensor before it. */
    const struct gg_tensor **tensors;
    uint8_t *raw;   /* SNAPSHOT_RAW bytes each */
    uint32_t *uses; /* of nodes: what the guest counted */
};

/* Keeps the graph that `scratch` holds the encoding of. Without memory: keeps none. */
void snapshot_take(struct snapshot *s, const struct graph_scratch *scratch,
                   const struct gg_cgraph_head *graph);

/* Whether `graph` would give the same encoding, but for what does not change the result: names of
 * tensors, and the usage of buffers, which ggml sets once and before any graph. */
bool snapshot_is(const struct snapshot *s, const struct gg_cgraph_head *graph);

void snapshot_drop(struct snapshot *s);
