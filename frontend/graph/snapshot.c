/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/graph/snapshot.h"

#include <stdlib.h>
#include <string.h>

/* From the type to the address of the data: all that is encoded but the name. */
#define SNAPSHOT_RAW offsetof(struct gg_tensor, name)

void snapshot_drop(struct snapshot *s)
{
    s->n_tensors = 0;
}

/* Room for n tensors. What was kept is lost where it grows. False: no memory, and no room. */
static bool reserve(struct snapshot *s, uint32_t n)
{
    if (n <= s->cap)
        return true;
    free((void *)s->tensors);
    free(s->raw);
    free(s->uses);
    s->tensors = malloc(n * sizeof(*s->tensors));
    s->raw = malloc((size_t)n * SNAPSHOT_RAW);
    s->uses = malloc(n * sizeof(*s->uses));
    s->cap = s->tensors && s->raw && s->uses ? n : 0;
    return s->cap != 0;
}

/* There is room for it (reserve). */
static void keep(struct snapshot *s, const struct gg_tensor *t)
{
    memcpy(s->raw + (size_t)s->n_tensors * SNAPSHOT_RAW, t, SNAPSHOT_RAW);
    s->tensors[s->n_tensors++] = t;
}

void snapshot_take(struct snapshot *s, const struct graph_scratch *scratch,
                   const struct gg_cgraph_head *graph)
{
    uint32_t n_nodes = (uint32_t)graph->n_nodes;
    snapshot_drop(s);
    /* Nodes that the payload leaves out are kept too: what they are decides that. */
    if (!reserve(s, scratch->n_tensors + n_nodes))
        return;
    uint8_t *node = calloc(scratch->n_tensors + 1, 1);
    if (!node)
        return;
    s->n_nodes = n_nodes;
    for (uint32_t i = 0; i < n_nodes; i++) {
        const uint32_t index = graph_scratch_index(scratch, graph->nodes[i]);
        if (index != APIR_NO_TENSOR)
            node[index] = 1;
        s->uses[i] = graph_use_count(graph, graph->nodes[i]);
        keep(s, graph->nodes[i]);
    }
    /* Sources come before what they are a source of; a view of one that is no node
     * either is to be looked at before its own source. */
    for (uint32_t i = scratch->n_tensors; i-- > 0;) {
        if (!node[i])
            keep(s, scratch->tensors[i]);
    }
    free(node);
}

bool snapshot_is(const struct snapshot *s, const struct gg_cgraph_head *graph)
{
    if (!s->n_tensors || s->n_nodes != (uint32_t)graph->n_nodes ||
        memcmp((const void *)s->tensors, (const void *)graph->nodes,
               s->n_nodes * sizeof(*s->tensors)) != 0)
        return false;
    /* An address of ours may be looked at once a tensor of the living graph has named
     * it: nodes by the graph itself, the others by those before them. */
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        if (memcmp(s->raw + (size_t)i * SNAPSHOT_RAW, s->tensors[i], SNAPSHOT_RAW) != 0)
            return false;
    }
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (s->uses[i] != graph_use_count(graph, s->tensors[i]))
            return false;
    }
    return true;
}
