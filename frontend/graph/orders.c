/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/graph/orders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/plugin/stream.h"
#include "common/log.h"
#include "protocol/hash.h"

struct orders plugin_orders;

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
    struct snapshot reused = oldest->snapshot;
    free(oldest->key);
    free(oldest->order);
    free((void *)oldest->tensors);
    snapshot_drop(&reused);
    *oldest = (struct order){.snapshot = reused};
    return oldest;
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
    return ok;
}

/* Asks the host; fills o. 0 or -errno. */
static int ask(struct orders *os, struct plugin_stream *s, const struct gg_cgraph_head *graph,
               struct order *o)
{
    struct client *c = &plugin.client;
    uint64_t in = os->scratch.out_size;
    uint64_t out = (uint64_t)graph->n_nodes * 4 + (uint64_t)os->scratch.n_tensors * 8;
    uint64_t in_room = (in + 63) & ~UINT64_C(63);
    struct apir_msg msg = {.code = APIR_MSG_GRAPH_OPTIMIZE};
    client_lock(c);
    int place = client_reply_get_locked(c);
    struct client_block *b = place >= 0 ? client_block_locked(c, in_room + out) : NULL;
    uint64_t pos = 0;
    if (b) {
        memcpy(client_block_data(c, b), os->scratch.out, in);
        msg.u.graph_optimize = (struct apir_msg_graph_optimize){
            .stream = s->id,
            .blob = APIR_ARENA_BLOB_ID,
            .blob_offset = b->offset,
            .size = in,
            .out_offset = b->offset + in_room,
            .out_size = out,
            .reply = client_reply_offset(place),
        };
        b->held = 1;
        b->until = pos = client_put_locked(c, &msg);
        client_flush_locked(c);
    } else if (place >= 0) {
        client_reply_put_locked(c, place);
    }
    client_unlock(c);
    int rc = !b ? -ENOMEM : !pos ? -ENODEV : client_wait(c, pos, 0);
    if (rc) {
        if (b)
            client_block_release(b);
        return rc;
    }
    struct apir_reply_optimize r;
    memcpy(&r, c->replies + client_reply_offset(place), sizeof(r));
    o->order = r.status == APIR_OK ? malloc(out) : NULL;
    if (o->order) {
        memcpy(o->order, (uint8_t *)client_block_data(c, b) + in_room, out);
        if (answer_ok(os, graph, &r, o->order)) {
            o->n_nodes = r.n_nodes;
            o->n_deps = r.n_deps;
            o->deps = o->order + r.n_nodes;
        }
    }
    client_block_release(b);
    client_lock(c);
    client_reply_put_locked(c, place);
    client_unlock(c);
    return 0;
}

const struct order *orders_get(struct orders *os, struct plugin_stream *s,
                               const struct gg_cgraph_head *graph)
{
    for (uint32_t i = 0; i < ORDERS_KEPT; i++) {
        struct order *o = &os->kept[i];
        if (o->key && o->device == s->device->index && snapshot_is(&o->snapshot, graph)) {
            o->last_used = ++os->clock;
            return o->n_nodes ? o : NULL;
        }
    }
    if (graph_encode_unplaced(&os->scratch, graph))
        return NULL;
    uint64_t hash = apir_hash(os->scratch.out, os->scratch.out_size);
    struct order *o = find(os, s->device->index, hash);
    o->last_used = ++os->clock;
    if (!o->key) {
        uint8_t *key = malloc(os->scratch.out_size);
        if (!key || ask(os, s, graph, o)) {
            free(key);
            return NULL;
        }
        memcpy(key, os->scratch.out, os->scratch.out_size);
        o->key = key;
        o->key_size = os->scratch.out_size;
        o->hash = hash;
        o->device = s->device->index;
    }
    /* The same graph may come from other addresses than before. */
    const struct gg_tensor **tensors =
        realloc((void *)o->tensors, os->scratch.n_tensors * sizeof(*o->tensors));
    if (!tensors)
        return NULL;
    memcpy((void *)tensors, (const void *)os->scratch.tensors,
           os->scratch.n_tensors * sizeof(*tensors));
    o->tensors = tensors;
    snapshot_take(&o->snapshot, &os->scratch, graph);
    return o->n_nodes ? o : NULL;
}
