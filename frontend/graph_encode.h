/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From ggml's tensors to the wire form of a graph (protocol/graph.h).
 */
#ifndef APIR_FRONTEND_GRAPH_ENCODE_H
#define APIR_FRONTEND_GRAPH_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/ggml_abi.h"
#include "protocol/graph.h"

/* Scratch that one encoding at a time uses; grows as graphs do, freed never. */
struct graph_scratch {
    const struct gg_tensor **keys; /* open addressing, by address */
    uint32_t *values;
    uint32_t cap; /* a power of two */
    uint8_t *out;
    size_t out_size;
    size_t out_cap;
    /* ids of the buffers that the graph uses */
    uint32_t buffers[APIR_GRAPH_BUFFERS_MAX];
    uint32_t n_buffers;
};

/*
 * Encodes the graph into scratch->out. Returns 0, -ENOMEM, or -EINVAL with
 * *ret_why: a tensor that is in no buffer of ours, or an order that is not
 * topological.
 */
int graph_encode(struct graph_scratch *scratch, const struct gg_cgraph_head *graph,
                 const char **ret_why);

/* Encodes one op and its sources, without buffers: the form of OP_QUERY. */
int graph_encode_op(struct graph_scratch *scratch, const struct gg_tensor *op);

#endif
