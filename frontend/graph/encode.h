/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From ggml's tensors to the wire form of a graph (protocol/graph.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/ggml_abi.h"
#include "protocol/graph.h"

struct plugin_device;

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
    uint32_t n_tensors;
    uint32_t n_nodes; /* that are in the payload; see graph_encode() */
    uint32_t tensors_cap;
    char why[160]; /* the last encoding failed; a printable text */
};

enum graph_form {
    GRAPH_PLACED,   /* everything */
    GRAPH_UNPLACED, /* all but buffers and addresses: the form of GRAPH_OPTIMIZE */
    /* And without sizes, strides, parameters and names, and never sent: equal for two graphs that
     * compute the same things from the same things in the same order. A tensor has the same index
     * in both forms. */
    GRAPH_STRUCTURE,
    GRAPH_OP, /* types, shapes, strides and parameters only: what an answer depends on */
};

/*
 * Encodes the graph into scratch->out, for this device (NULL: it has no memory yet). Nodes for
 * which there is nothing to do are left out: those without elements, those that are not to be
 * computed, and those that only rename memory, where it is not the device's or cannot be a source
 * of anything. (ggml's scheduler takes no heed of such nodes when it cuts a graph into splits.)
 * scratch->n_nodes may be 0 then, and the payload is not to be sent. Returns 0, or -ENOMEM or
 * -EINVAL with scratch->why: a tensor that is needed and in no buffer of the device, or an order in
 * which something is used before it is computed.
 */
int graph_encode(struct graph_scratch *scratch, enum graph_form form,
                 const struct plugin_device *device, const struct gg_cgraph_head *graph);

/* Index in the payload of a tensor; APIR_NO_TENSOR where the last encoding has left it out. */
uint32_t graph_scratch_index(const struct graph_scratch *s, const struct gg_tensor *t);

/* Encodes one op and its sources, without buffers: the form of OP_QUERY. */
int graph_encode_op(struct graph_scratch *scratch, const struct gg_tensor *op);

/* How often ggml has counted t as a source in the whole graph; 0 where it does not count. */
uint32_t graph_use_count(const struct gg_cgraph_head *graph, const struct gg_tensor *t);
