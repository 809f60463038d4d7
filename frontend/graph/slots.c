/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/graph/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/plugin/stream.h"
#include "common/log.h"
#include "protocol/hash.h"

struct slots plugin_slots;

static uint64_t graph_uid(const struct gg_cgraph_head *graph)
{
    return plugin.layout.cgraph_uid ? GG_AT(graph, plugin.layout.cgraph_uid, const uint64_t) : 0;
}

static struct slot *find_by_uid(struct slots *ss, uint32_t device,
                                const struct gg_cgraph_head *graph, uint64_t uid)
{
    for (uint32_t i = 0; uid && i < SLOTS_USED; i++) {
        struct slot *s = &ss->slot[i];
        if (s->valid && s->uid == uid && s->device == device && s->n_nodes == graph->n_nodes &&
            s->first == graph->nodes[0])
            return s;
    }
    return NULL;
}

static struct slot *find_by_snapshot(struct slots *ss, uint32_t device,
                                     const struct gg_cgraph_head *graph)
{
    for (uint32_t i = 0; i < SLOTS_USED; i++) {
        struct slot *s = &ss->slot[i];
        if (s->valid && s->device == device && snapshot_is(&s->snapshot, graph))
            return s;
    }
    return NULL;
}

static struct slot *find_by_payload(struct slots *ss, uint32_t device, uint64_t hash)
{
    const struct graph_scratch *g = &ss->scratch;
    for (uint32_t i = 0; i < SLOTS_USED; i++) {
        struct slot *s = &ss->slot[i];
        if (s->valid && s->hash == hash && s->device == device && s->payload_size == g->out_size &&
            memcmp(s->payload, g->out, g->out_size) == 0)
            return s;
    }
    return NULL;
}

static struct slot *oldest(struct slots *ss)
{
    struct slot *best = &ss->slot[0];
    for (uint32_t i = 0; i < SLOTS_USED; i++) {
        if (!ss->slot[i].valid)
            return &ss->slot[i];
        if (ss->slot[i].last_used < best->last_used)
            best = &ss->slot[i];
    }
    return best;
}

static void *grow(void *p, size_t size, bool *ok)
{
    void *out = realloc(p, size);
    if (!out)
        *ok = false;
    return out ? out : p;
}

/* Keeps what later compares and slots_forget_buffer need. */
static int slot_remember(struct slot *s, const struct graph_scratch *g)
{
    bool ok = true;
    if (s->payload_cap < g->out_size) {
        s->payload = grow(s->payload, g->out_size, &ok);
        s->payload_cap = ok ? g->out_size : s->payload_cap;
    }
    s->buffers = grow(s->buffers, (g->n_buffers + 1) * sizeof(*s->buffers), &ok);
    if (!ok)
        return -ENOMEM;
    memcpy(s->payload, g->out, g->out_size);
    s->payload_size = g->out_size;
    memcpy(s->buffers, g->buffers, g->n_buffers * sizeof(*s->buffers));
    s->n_buffers = g->n_buffers;
    return 0;
}

/* ---- sending ------------------------------------------------------------------ */

static int put_definition(struct slots *ss, struct plugin_stream *stream, struct slot *s)
{
    struct client *c = &plugin.client;
    const struct graph_scratch *g = &ss->scratch;
    struct client_block *b = client_block_locked(c, g->out_size);
    if (!b && client_usable(c))
        apir_log(APIR_LOG_ERROR, "%s: a graph of %u nodes (%zu bytes) is too large to be sent",
                 stream->device->name, g->n_nodes, g->out_size);
    if (!b)
        return client_usable(c) ? -ENOMEM : -ENODEV;
    memcpy(client_block_data(c, b), g->out, g->out_size);
    struct apir_msg msg = {
        .code = APIR_MSG_GRAPH_DEF,
        .u.graph_def = {.slot = (uint32_t)(s - ss->slot),
                        .stream = stream->id,
                        .blob = APIR_ARENA_BLOB_ID,
                        .blob_offset = b->offset,
                        .size = g->out_size},
    };
    b->until = client_put_locked(c, &msg);
    return b->until ? 0 : -ENODEV;
}

/* Brings the graph in ss->scratch into the slot least recently used. NULL with *ret_rc. */
static struct slot *slot_fill(struct slots *ss, struct plugin_stream *stream, uint64_t hash,
                              int *ret_rc)
{
    struct slot *s = oldest(ss);
    s->valid = false;
    s->expect_ns = 0;
    int rc = put_definition(ss, stream, s);
    if (!rc)
        rc = slot_remember(s, &ss->scratch);
    if (rc) {
        *ret_rc = rc;
        return NULL;
    }
    s->valid = true;
    s->device = stream->device->index;
    s->hash = hash;
    return s;
}

/* The graph's slot, with its DEF on the ring where the host has not this graph in it. *ret_encoded:
 * the scratch has it, and the slot's snapshot is another graph's. */
static struct slot *slot_get(struct slots *ss, struct plugin_stream *stream,
                             const struct gg_cgraph_head *graph, bool *ret_encoded, int *ret_rc)
{
    uint64_t uid = graph_uid(graph);
    uint32_t device = stream->device->index;
    struct slot *s = find_by_uid(ss, device, graph, uid);
    if (s)
        return s;
    s = find_by_snapshot(ss, device, graph);
    if (s) {
        s->uid = uid;
        return s;
    }
    *ret_rc = graph_encode(&ss->scratch, GRAPH_PLACED, stream->device, graph);
    if (*ret_rc) {
        apir_log(APIR_LOG_ERROR, "%s: a graph cannot be sent to the host: %s", stream->device->name,
                 ss->scratch.why);
        return NULL;
    }
    if (ss->scratch.n_nodes == 0)
        return NULL;
    uint64_t hash = apir_hash(ss->scratch.out, ss->scratch.out_size);
    s = find_by_payload(ss, device, hash);
    if (!s) {
        client_lock(&plugin.client);
        s = slot_fill(ss, stream, hash, ret_rc);
        client_unlock(&plugin.client);
    }
    if (!s)
        return NULL;
    s->uid = uid;
    s->first = graph->nodes[0];
    s->n_nodes = graph->n_nodes;
    *ret_encoded = true;
    return s;
}

struct slot *slots_execute(struct slots *ss, struct plugin_stream *stream,
                           const struct gg_cgraph_head *graph, int *ret_rc)
{
    struct client *c = &plugin.client;
    bool encoded = false;
    *ret_rc = 0;
    struct slot *s = slot_get(ss, stream, graph, &encoded, ret_rc);
    if (!s)
        return NULL;
    s->last_used = ++ss->clock;
    struct apir_msg msg = {
        .code = APIR_MSG_GRAPH_EXEC,
        .u.graph_exec = {.slot = (uint32_t)(s - ss->slot), .stream = stream->id},
    };
    client_lock(c);
    uint64_t pos = client_put_locked(c, &msg);
    if (pos) {
        plugin_stream_note_locked(stream, pos,
                                  (stream->device->info.flags & APIR_DEVICE_SYNC) != 0);
        plugin_stream_touch_locked(stream, s->buffers, s->n_buffers);
        client_flush_locked(c);
    }
    client_unlock(c);
    /* While the host is at work. */
    if (encoded)
        snapshot_take(&s->snapshot, &ss->scratch, graph);
    if (pos)
        return s;
    *ret_rc = -ENODEV;
    return NULL;
}

void slots_forget_device(struct slots *ss, uint32_t device)
{
    for (uint32_t i = 0; i < SLOTS_USED; i++)
        ss->slot[i].valid = ss->slot[i].valid && ss->slot[i].device != device;
}

void slots_forget_buffer(struct slots *ss, uint32_t buffer_id)
{
    for (uint32_t i = 0; i < SLOTS_USED; i++) {
        struct slot *s = &ss->slot[i];
        for (uint32_t k = 0; s->valid && k < s->n_buffers; k++) {
            if (s->buffers[k] == buffer_id)
                s->valid = false;
        }
    }
}
