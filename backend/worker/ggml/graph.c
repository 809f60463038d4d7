/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of the host's ggml: built in the guest's order, computed, and put in the backend's. */
#include "backend/worker/ggml/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/worker/ggml/fns.h"

/* Larger of what ggml counted in this split and what the guest counted overall. */
static void graph_use_counts(const struct host_ggml *hg, void *cgraph,
                             const struct gg_tensor *tensors, uint32_t n_tensors,
                             const uint32_t *use_counts)
{
    if (!hg->layout.cgraph_use_counts)
        return;
    int32_t *counts = GG_AT(cgraph, hg->layout.cgraph_use_counts, int32_t *);
    const struct gg_hash_set *set = &GG_AT(cgraph, hg->layout.cgraph_hash_set, struct gg_hash_set);
    for (size_t k = 0; k < set->size; k++) {
        if (!(set->used[k / 32] & (1u << (k % 32))))
            continue;
        ptrdiff_t i = set->keys[k] - tensors;
        if (i >= 0 && (uint32_t)i < n_tensors && use_counts[i] <= INT32_MAX &&
            (int32_t)use_counts[i] > counts[k])
            counts[k] = (int32_t)use_counts[i];
    }
}

/*
 * Whether every source that is computed comes before the node that uses it. ggml would look for
 * the others by recursion, as deep as a hostile guest likes. 0, -EINVAL or -ENOMEM.
 */
static int nodes_in_order(const struct gg_tensor *tensors, uint32_t n_tensors,
                          const uint32_t *node_index, uint32_t n_nodes)
{
    bool *there = calloc(n_tensors, sizeof(*there));
    bool ok = true;
    if (!there)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_nodes && ok; i++) {
        const struct gg_tensor *t = &tensors[node_index[i]];
        for (unsigned k = 0; k < sizeof(t->src) / sizeof(t->src[0]) && ok; k++)
            ok = !t->src[k] || t->src[k]->op == 0 || there[t->src[k] - tensors];
        there[node_index[i]] = true;
    }
    free(there);
    return ok ? 0 : -EINVAL;
}

/* Of a size that was checked. */
static uint64_t node_elements(const struct gg_tensor *t)
{
    return (uint64_t)t->ne[0] * (uint64_t)t->ne[1] * (uint64_t)t->ne[2] * (uint64_t)t->ne[3];
}

int host_graph_build(struct host_ggml *hg, struct gg_tensor *tensors, uint32_t n_tensors,
                     const uint32_t *node_index, uint32_t n_nodes, const uint32_t *use_counts,
                     struct host_graph *ret_graph)
{
    struct gg_init_params params = {
        .mem_size = hg->fns->ggml_graph_overhead_custom(n_tensors, false) + 1024,
        .no_alloc = true,
    };
    int rc = nodes_in_order(tensors, n_tensors, node_index, n_nodes);
    if (rc)
        return rc;
    struct host_graph g = {.ctx = hg->fns->ggml_init(params)};
    if (!g.ctx)
        return -ENOMEM;
    g.cgraph = hg->fns->ggml_new_graph_custom(g.ctx, n_tensors, false);
    if (!g.cgraph) {
        host_graph_fini(hg, &g);
        return -ENOMEM;
    }
    int32_t *flags = malloc((n_nodes + 1) * sizeof(*flags)); /* n_nodes may be 0 */
    if (!flags) {
        host_graph_fini(hg, &g);
        return -ENOMEM;
    }
    /*
     * Node by node in the guest's order: everything a node refers to has been
     * visited by then, so ggml appends this node and nothing else, and its hash
     * set and use counts are filled as in a graph it built itself. ggml descends
     * again into sources that lack flag COMPUTE, and recursion here would be as
     * deep as a hostile guest likes: so all nodes have it while we build.
     */
    for (uint32_t i = 0; i < n_nodes; i++) {
        flags[i] = tensors[node_index[i]].flags;
        tensors[node_index[i]].flags |= 16;
    }
    for (uint32_t i = 0; i < n_nodes; i++)
        hg->fns->ggml_build_forward_expand(g.cgraph, &tensors[node_index[i]]);
    for (uint32_t i = 0; i < n_nodes; i++)
        tensors[node_index[i]].flags = flags[i];
    free(flags);
    struct gg_cgraph_head *head = g.cgraph;
    bool same = head->n_nodes == (int32_t)n_nodes;
    for (uint32_t i = 0; same && i < n_nodes; i++)
        same = head->nodes[i] == &tensors[node_index[i]];
    if (!same) {
        host_graph_fini(hg, &g);
        return -EINVAL;
    }
    g.n_nodes = n_nodes;
    for (uint32_t i = 0; i < n_nodes; i++)
        g.elements += node_elements(head->nodes[i]);
    graph_use_counts(hg, g.cgraph, tensors, n_tensors, use_counts);
    if (hg->layout.cgraph_uid)
        GG_AT(g.cgraph, hg->layout.cgraph_uid, uint64_t) = hg->next_graph_uid++;
    *ret_graph = g;
    return 0;
}

void host_graph_fini(struct host_ggml *hg, struct host_graph *g)
{
    if (g->ctx)
        hg->fns->ggml_free(g->ctx);
    *g = (struct host_graph){0};
}

int host_graph_compute(struct host_ggml *hg, void *stream, struct host_graph *g)
{
    return hg->fns->ggml_backend_graph_compute_async(stream, g->cgraph);
}

int host_graph_compute_part(struct host_ggml *hg, void *stream, struct host_graph *g,
                            uint32_t first, uint32_t end)
{
    struct gg_cgraph_head *head = g->cgraph;
    const struct gg_cgraph_head whole = *head;
    const uint16_t uid_at = hg->layout.cgraph_uid;
    const uint64_t uid = uid_at ? GG_AT(g->cgraph, uid_at, uint64_t) : 0;
    /* As ggml_graph_view() has it: backends see the counts of uses in the whole graph. Without a
     * number of its own, for those that know a graph again by that. */
    head->nodes += first;
    head->n_nodes = (int32_t)(end - first);
    head->n_leafs = 0;
    if (uid_at)
        GG_AT(g->cgraph, uid_at, uint64_t) = 0;
    const int rc = host_graph_compute(hg, stream, g);
    *head = whole;
    if (uid_at)
        GG_AT(g->cgraph, uid_at, uint64_t) = uid;
    return rc;
}

/* With flash attention, or without: the product with the keys, which are not a weight. */
static bool node_is_attention(const struct host_ggml *hg, const struct gg_tensor *t)
{
    const char *op = hg->ops.name[t->op];
    return strcmp(op, "FLASH_ATTN_EXT") == 0 ||
           (strcmp(op, "MUL_MAT") == 0 && t->src[0] && t->src[0]->op != 0);
}

uint32_t host_graph_seam(const struct host_ggml *hg, const struct host_graph *g, uint32_t from)
{
    const struct gg_cgraph_head *head = g->cgraph;
    uint32_t i = from;
    while (i < g->n_nodes && !node_is_attention(hg, head->nodes[i]))
        i++;
    return i < g->n_nodes ? i : g->n_nodes;
}

/* ---- reordering ------------------------------------------------------------- */

bool host_stream_optimizes(struct host_ggml *hg, void *stream)
{
    return hg->layout.backend.graph_optimize &&
           GG_AT(stream, hg->layout.backend.graph_optimize, void *);
}

struct dep_sink {
    const struct gg_tensor *tensors;
    uint32_t n_tensors;
    struct host_dep *deps;
    uint32_t n, max;
    bool bad;
};

static void dep_add(void *user_data, struct gg_tensor *tensor, struct gg_tensor *until)
{
    struct dep_sink *sink = user_data;
    ptrdiff_t a = tensor - sink->tensors, b = until - sink->tensors;
    if (a < 0 || b < 0 || (uint32_t)a >= sink->n_tensors || (uint32_t)b >= sink->n_tensors ||
        sink->n == sink->max) {
        sink->bad = true;
        return;
    }
    sink->deps[sink->n++] = (struct host_dep){(uint32_t)a, (uint32_t)b};
}

typedef void add_dep(void *user_data, struct gg_tensor *tensor, struct gg_tensor *until);

static void graph_optimize(const struct host_ggml *hg, void *stream, void *cgraph, add_dep *add,
                           void *user_data)
{
    /* ggml_backend_graph_optimize_params; builds whose function takes two
     * arguments do not look at the third. The zeros are members of newer ones. */
    struct {
        add_dep *add_alloc_dep;
        void *user_data;
        uint64_t later[6];
    } params = {add, user_data, {0}};
    void (*optimize)(void *, void *, void *);
    memcpy(&optimize, (char *)stream + hg->layout.backend.graph_optimize, sizeof(optimize));
    optimize(stream, cgraph, &params);
}

int host_graph_optimize(struct host_ggml *hg, void *stream, struct host_graph *g,
                        const struct gg_tensor *tensors, uint32_t n_tensors, uint32_t n_nodes,
                        uint32_t *ret_order, struct host_dep *ret_deps, uint32_t max_deps)
{
    struct dep_sink sink = {
        .tensors = tensors, .n_tensors = n_tensors, .deps = ret_deps, .max = max_deps};
    graph_optimize(hg, stream, g->cgraph, dep_add, &sink);
    if (sink.bad)
        return -E2BIG;
    const struct gg_cgraph_head *head = g->cgraph;
    if (head->n_nodes != (int32_t)n_nodes)
        return -EINVAL;
    for (uint32_t i = 0; i < n_nodes; i++) {
        ptrdiff_t at = head->nodes[i] - tensors;
        if (at < 0 || (uint32_t)at >= n_tensors)
            return -EINVAL;
        ret_order[i] = (uint32_t)at;
    }
    return (int)sink.n;
}

/* For graphs whose memory is there already. */
static void dep_ignore(void *user_data, struct gg_tensor *tensor, struct gg_tensor *until)
{
    (void)user_data;
    (void)tensor;
    (void)until;
}

void host_graph_reorder(struct host_ggml *hg, void *stream, void *cgraph)
{
    if (host_stream_optimizes(hg, stream))
        graph_optimize(hg, stream, cgraph, dep_ignore, NULL);
}
