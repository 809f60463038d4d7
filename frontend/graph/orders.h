/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node orders that the host's backend prefers, asked once per graph: a graph
 * that is built again with the same topology and shapes gets the same answer.
 */
#ifndef APIR_FRONTEND_ORDERS_H
#define APIR_FRONTEND_ORDERS_H

#include <stdint.h>

#include "frontend/graph/encode.h"
#include "frontend/link/os.h"
#include "frontend/graph/snapshot.h"

#define ORDERS_KEPT 64u

struct order {
    uint64_t hash;
    uint8_t *key; /* owned: the encoded graph; NULL: free */
    size_t key_size;
    uint32_t device;
    uint64_t last_used;
    struct snapshot snapshot;         /* as the graph lay in memory when it last came */
    const struct gg_tensor **tensors; /* owned: by index in the payload, of that graph */
    uint32_t n_nodes;                 /* 0: the host keeps the order there is */
    uint32_t n_deps;
    uint32_t *order; /* owned: tensor index in the payload, per node */
    uint32_t *deps;  /* in the same memory: pairs (tensor, until) */
};

struct orders {
    struct os_lock lock; /* the caller holds it while it uses the result */
    struct graph_scratch scratch;
    struct order kept[ORDERS_KEPT];
    uint64_t clock;
};

extern struct orders plugin_orders;

struct plugin_stream;

/*
 * The order for this graph; its indices refer to os->scratch.tensors. NULL: keep
 * the order there is. Under os->lock.
 */
const struct order *orders_get(struct orders *os, struct plugin_stream *s,
                               const struct gg_cgraph_head *graph);

#endif
