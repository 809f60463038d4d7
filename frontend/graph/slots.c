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

/* Keeps what later compares, patches and slots_forget_buffer need. */
static int slot_remember(struct slot *s, const struct graph_scratch *g)
{
    bool ok = true;
    size_t starts_size = (g->n_tensors + 1) * sizeof(*s->starts);
    if (s->payload_cap < g->out_size) {
        s->payload = grow(s->payload, g->out_size, &ok);
        s->payload_cap = ok ? g->out_size : s->payload_cap;
    }
    s->starts = grow(s->starts, starts_size, &ok);
    s->buffers = grow(s->buffers, (g->n_buffers + 1) * sizeof(*s->buffers), &ok);
    if (!ok)
        return -ENOMEM;
    memcpy(s->payload, g->out, g->out_size);
    s->payload_size = g->out_size;
    memcpy(s->starts, g->starts, starts_size);
    s->n_tensors = g->n_tensors;
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

static bool tensor_same(const struct slot *s, const struct graph_scratch *g, uint32_t i)
{
    size_t n = g->starts[i + 1] - g->starts[i];
    return s->starts[i + 1] - s->starts[i] == n &&
           memcmp(s->payload + s->starts[i], g->out + g->starts[i], n) == 0;
}

/* Bytes of the patch that makes s this graph, or 0: more than half of it, or another front. */
static size_t patch_size(const struct slot *s, const struct graph_scratch *g)
{
    if (s->n_tensors != g->n_tensors || s->starts[0] != g->starts[0] ||
        memcmp(s->payload, g->out, g->starts[0]) != 0)
        return 0;
    const size_t most = g->out_size / 2;
    size_t size = 4;
    for (uint32_t i = 0; i < g->n_tensors && size <= most; i++) {
        if (!tensor_same(s, g, i))
            size += 4 + g->starts[i + 1] - g->starts[i];
    }
    return size <= most ? size : 0;
}

/* A graph that this or another slot held not long ago comes again: it deserves a
 * slot of its own. */
static bool alternates(const struct slots *ss, uint64_t hash)
{
    for (uint32_t i = 0; i < SLOTS_USED; i++) {
        for (uint32_t k = 0; k < SLOT_PAST; k++) {
            if (ss->slot[i].past[k] == hash)
                return true;
        }
    }
    return false;
}

/* The slot used last, if the graph at hand differs from its graph in little, as when a context has
 * grown. NULL: define it anew. Comparing with every slot costs more than a change saves. */
static struct slot *find_to_patch(struct slots *ss, uint32_t device, size_t *ret_size)
{
    struct slot *last = NULL;
    for (uint32_t i = 0; i < SLOTS_USED; i++) {
        struct slot *s = &ss->slot[i];
        if (s->valid && s->device == device && (!last || s->last_used > last->last_used))
            last = s;
    }
    *ret_size = last ? patch_size(last, &ss->scratch) : 0;
    return *ret_size ? last : NULL;
}

static int put_patch(struct slots *ss, struct plugin_stream *stream, struct slot *s, size_t size)
{
    struct client *c = &plugin.client;
    const struct graph_scratch *g = &ss->scratch;
    struct client_block *b = client_block_locked(c, size);
    if (!b)
        return client_usable(c) ? -ENOMEM : -ENODEV;
    struct apir_writer w = apir_writer_init(client_block_data(c, b), size);
    uint32_t count = 0;
    apir_writer_u32(&w, 0);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (tensor_same(s, g, i))
            continue;
        apir_writer_u32(&w, i);
        apir_writer_bytes(&w, g->out + g->starts[i], g->starts[i + 1] - g->starts[i]);
        count++;
    }
    memcpy(w.buf, &count, sizeof(count));
    struct apir_msg msg = {
        .code = APIR_MSG_GRAPH_PATCH,
        .u.graph_patch = {.slot = (uint32_t)(s - ss->slot),
                          .stream = stream->id,
                          .blob = APIR_ARENA_BLOB_ID,
                          .blob_offset = b->offset,
                          .size = size},
    };
    b->until = client_put_locked(c, &msg);
    return b->until ? 0 : -ENODEV;
}

/* Brings the graph in ss->scratch into a slot. NULL with *ret_rc. */
static struct slot *slot_fill(struct slots *ss, struct plugin_stream *stream, uint64_t hash,
                              int *ret_rc)
{
    uint32_t device = stream->device->index;
    size_t size = 0;
    struct slot *s = alternates(ss, hash) ? NULL : find_to_patch(ss, device, &size);
    int rc;
    if (s) {
        rc = put_patch(ss, stream, s, size);
        memmove(&s->past[1], &s->past[0], (SLOT_PAST - 1) * sizeof(s->past[0]));
        s->past[0] = s->hash;
    } else {
        s = oldest(ss);
        s->expect_ns = 0;
        rc = put_definition(ss, stream, s);
    }
    s->valid = false;
    if (!rc)
        rc = slot_remember(s, &ss->scratch);
    if (rc) {
        *ret_rc = rc;
        return NULL;
    }
    s->valid = true;
    s->device = device;
    s->hash = hash;
    return s;
}

/* The graph's slot, with its DEF or PATCH on the ring where the host has not this graph in it. */
static struct slot *slot_get(struct slots *ss, struct plugin_stream *stream,
                             const struct gg_cgraph_head *graph, int *ret_rc)
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
    *ret_rc = graph_encode(&ss->scratch, stream->device, graph);
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
    snapshot_take(&s->snapshot, &ss->scratch, graph);
    return s;
}

struct slot *slots_execute(struct slots *ss, struct plugin_stream *stream,
                           const struct gg_cgraph_head *graph, int *ret_rc)
{
    struct client *c = &plugin.client;
    *ret_rc = 0;
    struct slot *s = slot_get(ss, stream, graph, ret_rc);
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
