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
    const struct gg_tensor **tensors; /* by index in the payload */
    uint32_t *starts; /* where each one's record begins in out; n_tensors + 1 of them */
    uint32_t n_tensors;
    uint32_t tensors_cap;
};

/*
 * Encodes the graph into scratch->out. Returns 0, -ENOMEM, or -EINVAL with
 * *ret_why: a tensor that is in no buffer of ours, or an order that is not
 * topological.
 */
int graph_encode(struct graph_scratch *scratch, const struct gg_cgraph_head *graph,
                 const char **ret_why);

/* As graph_encode for a graph that has no memory yet: the form of GRAPH_OPTIMIZE. */
int graph_encode_unplaced(struct graph_scratch *scratch, const struct gg_cgraph_head *graph,
                          const char **ret_why);

/* Index in the payload of a tensor that the last encoding has seen. */
uint32_t graph_scratch_index(const struct graph_scratch *scratch, const struct gg_tensor *t);

/* Encodes one op and its sources, without buffers: the form of OP_QUERY. */
int graph_encode_op(struct graph_scratch *scratch, const struct gg_tensor *op);

/* How often ggml has counted t as a source in the whole graph; 0 where it does not count. */
uint32_t graph_use_count(const struct gg_cgraph_head *graph, const struct gg_tensor *t);

#endif
