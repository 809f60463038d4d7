/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/plugin.h"
#include "protocol/log.h"

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

static struct slot *find_by_payload(struct slots *ss, uint32_t device, uint64_t hash)
{
    const struct graph_scratch *g = &ss->scratch;
    for (uint32_t i = 0; i < SLOTS_USED; i++) {
        struct slot *s = &ss->slot[i];
        if (s->valid && s->hash == hash && s->device == device &&
            s->payload_size == g->out_size && memcmp(s->payload, g->out, g->out_size) == 0)
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

/* Keeps what a later compare and slots_forget_buffer need. */
static int slot_remember(struct slot *s, const struct graph_scratch *g)
{
    if (s->payload_cap < g->out_size) {
        uint8_t *p = realloc(s->payload, g->out_size);
        if (!p)
            return -ENOMEM;
        s->payload = p;
        s->payload_cap = g->out_size;
    }
    uint32_t *b = realloc(s->buffers, (g->n_buffers + 1) * sizeof(*b));
    if (!b)
        return -ENOMEM;
    s->buffers = b;
    memcpy(s->payload, g->out, g->out_size);
    s->payload_size = g->out_size;
    memcpy(b, g->buffers, g->n_buffers * sizeof(*b));
    s->n_buffers = g->n_buffers;
    return 0;
}

static int put_definition(struct slots *ss, struct plugin_stream *stream, struct slot *s)
{
    struct client *c = &plugin.client;
    const struct graph_scratch *g = &ss->scratch;
    struct client_block *b = client_block_locked(c, g->out_size);
    if (!b)
        return client_usable(c) ? -ENOMEM : -ENODEV;
    memcpy(client_block_data(c, b), g->out, g->out_size);
    struct apir_msg msg = {
        .code = APIR_MSG_GRAPH_DEF,
        .u.graph_def = { .slot = (uint32_t)(s - ss->slot),
                         .stream = stream->id,
                         .blob = 1,
                         .blob_offset = b->offset,
                         .size = g->out_size },
    };
    b->until = client_put_locked(c, &msg);
    ss->n_def++;
    return b->until ? 0 : -ENODEV;
}

struct slot *slots_execute_locked(struct slots *ss, struct plugin_stream *stream,
                                  const struct gg_cgraph_head *graph, uint64_t *ret_pos,
                                  int *ret_rc)
{
    uint64_t uid = graph_uid(graph);
    uint32_t device = stream->device->index;
    struct slot *s = find_by_uid(ss, device, graph, uid);
    int rc = 0;
    if (!s) {
        const char *why = "";
        rc = graph_encode(&ss->scratch, graph, &why);
        if (rc) {
            apir_log(APIR_LOG_ERROR, "a graph cannot be sent to the host: %s", why);
            *ret_rc = rc;
            return NULL;
        }
        uint64_t hash = query_hash(ss->scratch.out, ss->scratch.out_size);
        s = find_by_payload(ss, device, hash);
        if (!s) {
            s = oldest(ss);
            s->valid = false;
            s->expect_ns = 0;
            rc = slot_remember(s, &ss->scratch);
            if (!rc)
                rc = put_definition(ss, stream, s);
            if (rc) {
                *ret_rc = rc;
                return NULL;
            }
            s->valid = true;
            s->device = device;
            s->hash = hash;
        }
        s->uid = uid;
        s->first = graph->nodes[0];
        s->n_nodes = graph->n_nodes;
    }
    s->last_used = ++ss->clock;
    struct apir_msg msg = {
        .code = APIR_MSG_GRAPH_EXEC,
        .u.graph_exec = { .slot = (uint32_t)(s - ss->slot), .stream = stream->id },
    };
    *ret_pos = client_put_locked(&plugin.client, &msg);
    ss->n_exec++;
    if (!*ret_pos) {
        *ret_rc = -ENODEV;
        return NULL;
    }
    return s;
}

void slots_forget_buffer_locked(struct slots *ss, uint32_t buffer_id)
{
    for (uint32_t i = 0; i < SLOTS_USED; i++) {
        struct slot *s = &ss->slot[i];
        for (uint32_t k = 0; s->valid && k < s->n_buffers; k++) {
            if (s->buffers[k] == buffer_id)
                s->valid = false;
        }
    }
}
