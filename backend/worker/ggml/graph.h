/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of the host's ggml. */
#pragma once

#include "backend/worker/ggml/ggml.h"

struct host_graph {
    void *ctx;    /* ggml_context that holds the cgraph only */
    void *cgraph; /* in ctx */
    uint32_t n_nodes;
    uint64_t elements; /* of all nodes together: about as much work as it is, among alike graphs */
};

/*
 * Builds a graph with exactly these nodes in exactly this order. `tensors` are
 * all n_tensors of them, topologically sorted; node_index lists the n_nodes that
 * are nodes; use_counts (n_tensors) is what the guest counted over its whole
 * graph. The tensors are borrowed until host_graph_fini and must not move.
 * Returns 0, -ENOMEM, or -EINVAL where a source is computed but not a node before its user, or
 * ggml does not see the same nodes.
 */
int host_graph_build(struct host_ggml *hg, struct gg_tensor *tensors, uint32_t n_tensors,
                     const uint32_t *node_index, uint32_t n_nodes, const uint32_t *use_counts,
                     struct host_graph *ret_graph);
void host_graph_fini(struct host_ggml *hg, struct host_graph *g);
struct host_dep {
    uint32_t tensor; /* index of a tensor that must stay allocated … */
    uint32_t until;  /* … until this one is computed */
};

bool host_stream_optimizes(struct host_ggml *hg, void *stream);

/*
 * Lets the backend reorder the graph's nodes. ret_order (the graph's n_nodes) gets
 * tensor indices, ret_deps at most max_deps pairs. Returns the number of pairs, or
 * -EINVAL where the backend has done something else than reorder, -E2BIG where
 * there are more pairs.
 */
int host_graph_optimize(struct host_ggml *hg, void *stream, struct host_graph *g,
                        const struct gg_tensor *tensors, uint32_t n_tensors, uint32_t n_nodes,
                        uint32_t *ret_order, struct host_dep *ret_deps, uint32_t max_deps);

/* As the backend prefers it, where it has a preference; for a ggml_cgraph each tensor of which will
 * have memory of its own. */
void host_graph_reorder(struct host_ggml *hg, void *stream, void *cgraph);

/* Starts the computation; returns ggml's status (0: success). */
int host_graph_compute(struct host_ggml *hg, void *stream, struct host_graph *g);

/* The same for the nodes from first to before end, once all nodes before them are computed. */
int host_graph_compute_part(struct host_ggml *hg, void *stream, struct host_graph *g,
                            uint32_t first, uint32_t end);
/* Where a part may end, at `from` or as soon as possible after it: before an attention, with which
 * no backend joins what comes before, so that a graph in parts has the values of a whole one. */
uint32_t host_graph_seam(const struct host_ggml *hg, const struct host_graph *g, uint32_t from);
