/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node orders that the host's backend prefers, asked once per structure of a graph
 * (GRAPH_STRUCTURE). ggml's Vulkan and Metal backends choose by what computes what from
 * what, before a graph has memory: graphs that differ in sizes alone get the same order.
 * llama-server builds such graphs all the time, one for each number of tokens in a batch. A backend
 * that looked at sizes would get an order that is right and perhaps not its best.
 * docs/decisions.md, A new graph costs little.
 */
#pragma once

#include <stdint.h>

#include "frontend/graph/encode.h"
#include "frontend/link/os.h"

#define ORDERS_KEPT 16u

struct order {
    uint64_t hash;
    uint8_t *key; /* owned: the graph's structure; NULL: free */
    size_t key_size;
    uint32_t device;
    uint64_t last_used;
    uint32_t n_nodes; /* 0: the order there is stays */
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
