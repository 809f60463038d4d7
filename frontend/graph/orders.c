/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/graph/orders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/plugin/stream.h"
#include "protocol/hash.h"

struct orders plugin_orders;

/* The entry of the structure in os->scratch, or the one to put it into, which is free. */
static struct order *find(struct orders *os, uint32_t device, uint64_t hash)
{
    struct order *oldest = &os->kept[0];
    for (uint32_t i = 0; i < ORDERS_KEPT; i++) {
        struct order *o = &os->kept[i];
        if (o->key && o->hash == hash && o->device == device &&
            o->key_size == os->scratch.out_size &&
            memcmp(o->key, os->scratch.out, o->key_size) == 0)
            return o;
        if (!o->key || (oldest->key && o->last_used < oldest->last_used))
            oldest = o;
    }
    free(oldest->key);
    free(oldest->order);
    *oldest = (struct order){0};
    return oldest;
}

/* ---- the answer ---------------------------------------------------------------- */

/* What a node finds: for each source and for itself, how often that memory has been written. */
#define FOUND (APIR_TENSOR_SRC + 1)

/* The index of the tensor whose memory t lies in. */
static uint32_t memory_of(const struct orders *os, const struct gg_tensor *t)
{
    return graph_scratch_index(&os->scratch, t->view_src ? t->view_src : t);
}

/*
 * What each node finds when it is computed in this order (NULL: the graph's own): into found,
 * FOUND of them per tensor. written: zeros, one per tensor. Views compute nothing.
 */
static void find_in_order(const struct orders *os, const struct gg_cgraph_head *graph,
                          const uint32_t *order, uint32_t *written, uint32_t *found)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct gg_tensor *t = order ? os->scratch.tensors[order[i]] : graph->nodes[i];
        if (plugin_op_is_view(t->op))
            continue;
        uint32_t *f = found + (size_t)graph_scratch_index(&os->scratch, t) * FOUND;
        for (uint32_t k = 0; k < APIR_TENSOR_SRC; k++)
            f[k] = t->src[k] ? written[memory_of(os, t->src[k])] : 0;
        f[APIR_TENSOR_SRC] = written[memory_of(os, t)]++;
    }
}

/*
 * Whether the order computes what the graph's own does: each node finds each memory as often
 * written. That depends on the structure alone, so what holds for one graph of it holds for all.
 * A memory is looked at as a whole, as ggml's Vulkan and Metal backends do: an order that swaps two
 * nodes which write to different parts of one is not taken.
 */
static bool computes_the_same(const struct orders *os, const struct gg_cgraph_head *graph,
                              const uint32_t *order)
{
    const size_t n = os->scratch.n_tensors;
    uint32_t *written = calloc(2 * n * (1 + FOUND), sizeof(*written));
    if (!written)
        return false;
    uint32_t *found = written + 2 * n;
    find_in_order(os, graph, NULL, written, found);
    find_in_order(os, graph, order, written + n, found + n * FOUND);
    const bool same = memcmp(found, found + n * FOUND, n * FOUND * sizeof(*found)) == 0;
    free(written);
    return same;
}

/* Nodes that a tensor stays allocated for beyond its last use. Backends say so of what they compute
 * at once, a few nodes; ggml ends the program where too much ends at different times. */
#define KEPT_NODES 128u

/*
 * What ggml takes: the tensor is there when `until` is computed, which is a node. deps: n pairs of
 * indices that exist. order: of the graph's nodes, each once.
 */
static bool deps_ok(const struct orders *os, uint32_t n_nodes, const uint32_t *order, uint32_t n,
                    const uint32_t *deps)
{
    /* By tensor: where it comes (1: first, 0: it is no node) and where it is used last. */
    uint32_t *place = calloc(2 * (size_t)os->scratch.n_tensors, sizeof(*place));
    if (!place)
        return false;
    uint32_t *used = place + os->scratch.n_tensors;
    for (uint32_t i = 0; i < n_nodes; i++) {
        const struct gg_tensor *t = os->scratch.tensors[order[i]];
        place[order[i]] = used[order[i]] = i + 1;
        for (uint32_t k = 0; k < APIR_TENSOR_SRC; k++) {
            if (t->src[k])
                used[graph_scratch_index(&os->scratch, t->src[k])] = i + 1;
        }
    }
    bool ok = true;
    for (uint32_t i = 0; ok && i < n; i++) {
        const uint32_t tensor = deps[2 * i], until = deps[2 * i + 1];
        ok = place[until] && place[tensor] <= place[until] &&
             place[until] <= used[tensor] + KEPT_NODES;
    }
    free(place);
    return ok;
}

/*
 * The host's answer is checked as if it were a guest's: it indexes our memory. The
 * order must be a permutation of the graph's own nodes.
 */
static bool answer_ok(const struct orders *os, const struct gg_cgraph_head *graph,
                      const struct apir_reply_optimize *r, const uint32_t *out)
{
    uint32_t n_tensors = os->scratch.n_tensors;
    if (r->n_nodes != (uint32_t)graph->n_nodes || r->n_deps > n_tensors)
        return false;
    /* 1: a node still to be named; 0: a leaf, or named already */
    uint8_t *open = calloc(n_tensors, 1);
    bool ok = open;
    for (int i = 0; ok && i < graph->n_nodes; i++)
        open[graph_scratch_index(&os->scratch, graph->nodes[i])] = 1;
    for (int i = 0; ok && i < graph->n_nodes; i++) {
        ok = out[i] < n_tensors && open[out[i]];
        if (ok)
            open[out[i]] = 0;
    }
    for (uint32_t i = 0; ok && i < 2 * r->n_deps; i++)
        ok = out[r->n_nodes + i] < n_tensors;
    free(open);
    return ok && computes_the_same(os, graph, out) &&
           deps_ok(os, r->n_nodes, out, r->n_deps, out + r->n_nodes);
}

/* Asks the host about the graph in os->scratch; fills o. 0 or -errno. */
static int ask(struct orders *os, struct plugin_stream *s, const struct gg_cgraph_head *graph,
               struct order *o)
{
    struct apir_msg msg = {.code = APIR_MSG_GRAPH_OPTIMIZE};
    struct apir_msg_graph_optimize *m = &msg.u.graph_optimize;
    struct apir_reply_optimize r;
    *m = (struct apir_msg_graph_optimize){
        .stream = s->id,
        .blob = APIR_ARENA_BLOB_ID,
        .size = os->scratch.out_size,
        .out_size = (uint64_t)graph->n_nodes * 4 + (uint64_t)os->scratch.n_tensors * 8,
    };
    o->order = malloc(m->out_size);
    if (!o->order)
        return -ENOMEM;
    const int rc = client_ask(&plugin.client, &(struct client_question){
                                                  .msg = &msg,
                                                  .reply = &m->reply,
                                                  .answer = &r,
                                                  .answer_size = sizeof(r),
                                                  .payload = os->scratch.out,
                                                  .size = m->size,
                                                  .offset = &m->blob_offset,
                                                  .out = o->order,
                                                  .out_size = m->out_size,
                                                  .out_offset = &m->out_offset,
                                              });
    if (!rc && r.status == APIR_OK && answer_ok(os, graph, &r, o->order)) {
        o->n_nodes = r.n_nodes;
        o->n_deps = r.n_deps;
        o->deps = o->order + r.n_nodes;
    }
    return rc;
}

const struct order *orders_get(struct orders *os, struct plugin_stream *s,
                               const struct gg_cgraph_head *graph)
{
    if (graph_encode(&os->scratch, GRAPH_STRUCTURE, NULL, graph))
        return NULL;
    const size_t key_size = os->scratch.out_size;
    const uint64_t hash = apir_hash(os->scratch.out, key_size);
    struct order *o = find(os, s->device->index, hash);
    o->last_used = ++os->clock;
    if (!o->key) {
        uint8_t *key = malloc(key_size);
        if (!key)
            return NULL;
        memcpy(key, os->scratch.out, key_size);
        if (graph_encode(&os->scratch, GRAPH_UNPLACED, NULL, graph) || ask(os, s, graph, o)) {
            free(key);
            return NULL;
        }
        o->key = key;
        o->key_size = key_size;
        o->hash = hash;
        o->device = s->device->index;
    }
    return o->n_nodes ? o : NULL;
}
