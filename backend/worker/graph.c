/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/graph.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/worker/extra.h"
#include "backend/worker/rules/op.h"
#include "backend/worker/rules/rules.h"
#include "backend/worker/table.h"
#include "protocol/gguf.h"

static void refuse(struct worker_outcome *out, uint32_t status, const struct apir_graph *wire,
                   uint32_t index, const char *why)
{
    const struct apir_tensor *t = &wire->tensors[index];
    out->status = status;
    snprintf(out->why, sizeof(out->why), "%s '%s': %s", apir_graph_op_name(wire, t), t->name, why);
}

/* Where a tensor's data lies. */
struct place {
    struct worker_buffer *buffer;
    uint64_t offset;
};

/* For what a graph is looked at: to be computed, or for a question about it. */
enum purpose { TO_COMPUTE, TO_ASK };

/* Whether t is an op here. In a graph to be computed, a node that the guest has marked as not to be
 * is a leaf: its op may be anything, and no backend need be trusted to leave it out. */
static bool is_op(const struct apir_graph *wire, const struct apir_tensor *t, enum purpose purpose)
{
    return t->op != APIR_NO_NAME &&
           (purpose == TO_ASK || !(wire->flags & APIR_GRAPH_COMPUTE_FLAG) ||
            !(t->bits & APIR_TENSOR_NODE) || (t->flags & APIR_TENSOR_FLAG_COMPUTE));
}

/* Fills g from t, data and buffer aside. */
static void tensor_translate(struct worker *w, const struct apir_graph *wire, uint32_t index,
                             enum purpose purpose, struct gg_tensor *all,
                             struct worker_outcome *out)
{
    const struct apir_tensor *t = &wire->tensors[index];
    struct gg_tensor *g = &all[index];
    *g = (struct gg_tensor){.type = t->type, .flags = t->flags};
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        g->ne[i] = t->ne[i];
        g->nb[i] = t->nb[i];
    }
    memcpy(g->op_params, t->params, sizeof(g->op_params));
    memcpy(g->name, t->name, sizeof(g->name));
    for (int i = 0; i < APIR_TENSOR_SRC; i++)
        g->src[i] = t->src[i] == APIR_NO_TENSOR ? NULL : &all[t->src[i]];
    if (t->view_src != APIR_NO_TENSOR) {
        g->view_src = &all[t->view_src];
        g->view_offs = t->view_offs;
    }
    if (!(wire->flags & APIR_GRAPH_COMPUTE_FLAG) && (t->bits & APIR_TENSOR_NODE))
        g->flags |= APIR_TENSOR_FLAG_COMPUTE;
    /* ggml takes a parameter for a node, also where there is nothing to compute. */
    if (!is_op(wire, t, purpose) || strcmp(wire->names[t->op].name, "NONE") == 0) {
        g->flags &= ~APIR_TENSOR_FLAG_PARAM;
        /* ggml goes by sources, whatever the op: by recursion, as deep as the guest likes. */
        memset(g->src, 0, sizeof(g->src));
        return;
    }
    int op = host_names_find(&w->ggml.ops, wire->names[t->op].name);
    if (op < 0) {
        refuse(out, APIR_E_UNSUPPORTED, wire, index, "the host's ggml has no such operation");
        return;
    }
    g->op = op;
    worker_meaning_complete(&w->meaning, wire->names[t->op].name, g->op_params);
    if (t->sub != APIR_NO_NAME) {
        const struct host_names *names =
            wire->names[t->sub].kind == APIR_NAME_UNARY ? &w->ggml.unary : &w->ggml.glu;
        int sub = host_names_find(names, wire->names[t->sub].name);
        if (sub < 0) {
            refuse(out, APIR_E_UNSUPPORTED, wire, index, "the host's ggml has no such operation");
            return;
        }
        g->op_params[0] = sub;
    }
}

/*
 * The one check of a tensor's type, numbers and op, for definitions and questions. What it refers
 * to comes before it and has been checked. *ret_extent: bytes that the tensor covers.
 */
static void tensor_check(struct worker *w, const struct apir_graph *wire, uint32_t index,
                         enum purpose purpose, bool cpu, uint64_t *ret_extent,
                         struct worker_reach *ret_reach, struct worker_outcome *out)
{
    const struct apir_tensor *t = &wire->tensors[index];
    *ret_reach = (struct worker_reach){.only_asked = NULL};
    if (t->type >= HOST_TYPES_MAX || w->ggml.types[t->type].block == 0) {
        refuse(out, APIR_E_UNSUPPORTED, wire, index, "the host's ggml does not know its type");
        return;
    }
    out->fatal = worker_rules_extent(&w->ggml.types[t->type], t, ret_extent);
    if (!out->fatal && is_op(wire, t, purpose))
        out->fatal = worker_rules_check(wire, index, w->ggml.types, cpu, ret_reach);
    if (!out->fatal && is_op(wire, t, purpose) &&
        !worker_meaning_is_known(&w->meaning, wire, index, cpu))
        refuse(out, APIR_E_UNSUPPORTED, wire, index, "the host's ggml knows no such parameters");
}

/* Gives g its buffer and address; the range is wholly inside the buffer. */
static void tensor_locate(struct worker *w, const struct worker_slot *slot, uint32_t index,
                          uint64_t need, struct gg_tensor *all, struct place *places,
                          struct worker_outcome *out)
{
    const struct apir_graph *wire = &slot->wire;
    const struct apir_tensor *t = &wire->tensors[index];
    struct gg_tensor *g = &all[index];
    struct place p = {0};
    if (t->view_src != APIR_NO_TENSOR) {
        p = places[t->view_src];
        if (wire->tensors[t->view_src].view_src != APIR_NO_TENSOR) {
            out->fatal = "tensor: view of a view";
            return;
        }
        if (p.buffer) {
            if (t->view_offs > p.buffer->host.size - p.offset) {
                out->fatal = "tensor: view begins outside its buffer";
                return;
            }
            p.offset += t->view_offs;
        }
    } else if (t->bits & APIR_TENSOR_BUFFER) {
        p.buffer = worker_buffer_find(w, wire->buffers[t->buffer].id);
        if (!p.buffer) {
            out->fatal = "tensor: buffer does not exist";
            return;
        }
        p.offset = t->offset;
        /* ggml's own allocator asks for this many bytes; kernels use them. */
        uint64_t alloc = need ? host_tensor_alloc_size(&w->ggml, p.buffer->host.buft, g) : 0;
        if (alloc > need)
            need = alloc;
    }
    if (!p.buffer) {
        out->fatal = "tensor: neither buffer nor view";
        return;
    }
    if (p.buffer->extra && (g->view_src || g->op || !worker_extra_has(w, p.buffer, t, p.offset))) {
        refuse(out, APIR_E_FAILED, wire, index, "the host has no such weight");
        return;
    }
    if (p.offset > p.buffer->host.size || need > p.buffer->host.size - p.offset) {
        out->fatal = "tensor: data outside its buffer";
        return;
    }
    /* A backend takes what is in a buffer of another one for its own. */
    if (p.buffer->device != slot->device) {
        refuse(out, APIR_E_FAILED, wire, index, "it is in memory of another device");
        return;
    }
    places[index] = p;
    g->buffer = p.buffer->host.handle;
    g->data = p.buffer->host.base + p.offset;
    if (need && host_tensor_init(&w->ggml, g) < 0)
        refuse(out, APIR_E_FAILED, wire, index, "the host's backend does not take this tensor");
}

/* What kernels touch beyond a tensor's own bytes is in its buffer, too, or behind it. */
static const char *reach_check(const struct apir_graph *wire, uint32_t index,
                               const struct place *places, const struct worker_reach *reach)
{
    for (int i = -1; i < APIR_TENSOR_SRC; i++) {
        uint64_t bytes = reach->bytes[1 + i];
        uint32_t at = i < 0 ? index : wire->tensors[index].src[i];
        if (bytes == 0)
            continue;
        const struct place *p = &places[at];
        if (bytes > p->buffer->host.size - p->offset + p->buffer->host.slack)
            return "op: would go beyond a buffer";
    }
    return NULL;
}

/* Contiguous within a row, and rows in order: what kernels for extra types take for granted. */
static bool is_plain_f32(const struct apir_tensor *t)
{
    return t->type == 0 && t->nb[0] == 4 && t->nb[1] >= t->nb[0] && t->nb[2] >= t->nb[1] &&
           t->nb[3] >= t->nb[2];
}

/* A weight in an extra type's layout is the first source of a product, and nothing else. */
static bool extras_ok(const struct apir_graph *wire, uint32_t index, const struct place *places)
{
    const struct apir_tensor *t = &wire->tensors[index];
    for (uint32_t i = 0; i < APIR_TENSOR_SRC; i++) {
        if (t->src[i] == APIR_NO_TENSOR || !places[t->src[i]].buffer ||
            !places[t->src[i]].buffer->extra)
            continue;
        const char *op = t->op == APIR_NO_NAME ? "" : wire->names[t->op].name;
        if (i != 0 || (strcmp(op, "MUL_MAT") != 0 && strcmp(op, "MUL_MAT_ID") != 0) ||
            !is_plain_f32(t) || !is_plain_f32(&wire->tensors[t->src[1]]))
            return false;
    }
    return true;
}

/* The same where it is not known yet where the tensors will lie: it must fit wherever that is. What
 * goes further is computed by the guest, as it would be natively. */
static bool reach_is_modest(const struct worker *w, const struct apir_graph *wire, uint32_t index,
                            const struct worker_reach *reach)
{
    for (int i = -1; i < APIR_TENSOR_SRC; i++) {
        uint64_t bytes = reach->bytes[1 + i], own = 0;
        const struct apir_tensor *t =
            &wire->tensors[i < 0 || bytes == 0 ? index : wire->tensors[index].src[i]];
        if (bytes == 0)
            continue;
        (void)worker_rules_extent(&w->ggml.types[t->type], t, &own); /* it has been checked */
        if (bytes > own + HOST_SLACK)
            return false;
    }
    return true;
}

/* ---- row numbers -------------------------------------------------------------- */

static bool is_leaf(const struct apir_graph *wire, uint32_t index)
{
    const struct apir_tensor *t = &wire->tensors[index];
    if (t->view_src != APIR_NO_TENSOR)
        t = &wire->tensors[t->view_src];
    return t->op == APIR_NO_NAME || strcmp(wire->names[t->op].name, "NONE") == 0;
}

/*
 * Notes what node `index` is looked up by. Not those that the graph computes itself (a
 * choice of experts), nor those in a device's own memory: there the kernels are trusted, and
 * the process boundary.
 */
static void index_note(struct worker_slot *slot, uint32_t index, const struct place *places)
{
    const struct apir_graph *wire = &slot->wire;
    int64_t limit;
    int source = worker_rules_index(wire, index, &limit);
    if (source < 0)
        return;
    uint32_t at = wire->tensors[index].src[source];
    const struct apir_tensor *t = &wire->tensors[at];
    if (!places[at].buffer->host.memory || !is_leaf(wire, at))
        return;
    struct worker_index *ids = &slot->indices[slot->n_indices++];
    *ids = (struct worker_index){.node = index,
                                 .data = places[at].buffer->host.memory + places[at].offset,
                                 .wide = t->type == APIR_TYPE_I64,
                                 .limit = limit};
    memcpy(ids->ne, t->ne, sizeof(ids->ne));
    memcpy(ids->nb, t->nb, sizeof(ids->nb));
}

/* *ret_id: the first that is not. */
static bool row_ok(const struct worker_index *ids, const uint8_t *row, int64_t *ret_id)
{
    for (int64_t i = 0; i < ids->ne[0]; i++) {
        int64_t id;
        if (ids->wide) {
            memcpy(&id, row + (uint64_t)i * ids->nb[0], sizeof(id));
        } else {
            int32_t narrow;
            memcpy(&narrow, row + (uint64_t)i * ids->nb[0], sizeof(narrow));
            id = narrow;
        }
        if (id < 0 || id >= ids->limit) {
            *ret_id = id;
            return false;
        }
    }
    return true;
}

static bool index_ok(const struct worker_index *ids, int64_t *ret_id)
{
    for (int64_t i3 = 0; i3 < ids->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < ids->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < ids->ne[1]; i1++) {
                if (!row_ok(ids,
                            ids->data + (uint64_t)i1 * ids->nb[1] + (uint64_t)i2 * ids->nb[2] +
                                (uint64_t)i3 * ids->nb[3],
                            ret_id))
                    return false;
            }
        }
    }
    return true;
}

bool worker_slot_indices_ok(const struct worker_slot *slot, char *why)
{
    for (uint32_t k = 0; k < slot->n_indices; k++) {
        const struct worker_index *ids = &slot->indices[k];
        int64_t id;
        if (index_ok(ids, &id))
            continue;
        const struct apir_tensor *t = &slot->wire.tensors[ids->node];
        snprintf(why, APIR_WHY_SIZE, "%s '%s': row %" PRId64 " is asked for, of %" PRId64,
                 apir_graph_op_name(&slot->wire, t), t->name, id, ids->limit);
        return false;
    }
    return true;
}

void worker_slot_last(const struct worker_slot *slot, const char **ret_op, const char **ret_name)
{
    const struct apir_graph *wire = &slot->wire;
    *ret_op = *ret_name = "";
    for (uint32_t i = wire->n_tensors; i-- > 0;) {
        if (!(wire->tensors[i].bits & APIR_TENSOR_NODE))
            continue;
        *ret_op = apir_graph_op_name(wire, &wire->tensors[i]);
        *ret_name = wire->tensors[i].name;
        return;
    }
}

void worker_slot_break(struct worker_slot *slot, uint32_t status, const char *why)
{
    slot->state = SLOT_BROKEN;
    slot->status = status;
    snprintf(slot->why, sizeof(slot->why), "%s", why);
}

/* ---- definition --------------------------------------------------------------- */

bool worker_op_is_view(const struct worker *w, int32_t op)
{
    return apir_op_is_view(w->ggml.ops.name[op]);
}

/* What slot_realise needs while it works; all owned. */
struct realising {
    bool cpu;
    struct place *places; /* per tensor */
    uint32_t *counts;     /* per tensor: how often it is a source */
    uint32_t *nodes;      /* n_nodes: indices of tensors */
    uint32_t n_nodes;
};

static void buffers_use(struct worker *w, const struct apir_graph *wire, struct worker_outcome *out)
{
    for (uint32_t i = 0; i < wire->n_buffers && !out->fatal; i++) {
        struct worker_buffer *b = worker_buffer_find(w, wire->buffers[i].id);
        if (!b) {
            out->fatal = "graph: buffer does not exist";
            continue;
        }
        host_buffer_set_usage(&w->ggml, &b->host, wire->buffers[i].usage);
    }
}

/* Checks one tensor, fills its place in slot->tensors, and notes it if it is a node. */
static void tensor_realise(struct worker *w, struct worker_slot *slot, uint32_t i,
                           struct realising *r, struct worker_outcome *out)
{
    const struct apir_graph *wire = &slot->wire;
    struct worker_reach reach;
    uint64_t extent = 0;
    tensor_check(w, wire, i, TO_COMPUTE, r->cpu, &extent, &reach, out);
    if (!out->fatal && !out->status)
        tensor_translate(w, wire, i, TO_COMPUTE, slot->tensors, out);
    if (!out->fatal && !out->status)
        tensor_locate(w, slot, i, extent, slot->tensors, r->places, out);
    if (!out->fatal && !out->status)
        out->fatal = reach_check(wire, i, r->places, &reach);
    if (!out->fatal && !out->status && reach.only_asked)
        refuse(out, APIR_E_UNSUPPORTED, wire, i, reach.only_asked);
    r->counts[i] = wire->tensors[i].use_count;
    struct gg_tensor *g = &slot->tensors[i];
    /* Without an op there is nothing to compute; and ggml would take it for a leaf. */
    if (out->fatal || out->status || !(wire->tensors[i].bits & APIR_TENSOR_NODE) || g->op == 0)
        return;
    if (!extras_ok(wire, i, r->places) ||
        (!worker_op_is_view(w, g->op) &&
         !host_tensor_supported(&w->ggml, &w->ggml.devices[slot->device], g)))
        refuse(out, APIR_E_UNSUPPORTED, wire, i, "the host's device does not support it");
    r->nodes[r->n_nodes++] = i;
    index_note(slot, i, r->places);
}

static void no_memory(struct worker_outcome *out)
{
    out->status = APIR_E_NOMEM;
    snprintf(out->why, sizeof(out->why), "the host has no memory for a graph");
}

static void graph_realise(struct worker *w, struct worker_slot *slot, const struct realising *r,
                          struct worker_outcome *out)
{
    int rc = host_graph_build(&w->ggml, slot->tensors, slot->wire.n_tensors, r->nodes, r->n_nodes,
                              r->counts, &slot->graph);
    if (rc == -EINVAL)
        out->fatal = "graph: a source is neither leaf nor node";
    else if (rc)
        no_memory(out);
}

/*
 * Checks slot->wire, fills slot->tensors and builds the graph. Sets the slot's state. Returns
 * the reason for FATAL or NULL.
 */
static const char *slot_realise(struct worker *w, struct worker_slot *slot)
{
    const struct apir_graph *wire = &slot->wire;
    struct worker_outcome out = {0};
    struct realising r = {
        .cpu = host_device_is_cpu(&w->ggml.devices[slot->device]),
        .places = calloc(wire->n_tensors, sizeof(*r.places)),
        .counts = malloc(wire->n_tensors * sizeof(*r.counts)),
        .nodes = malloc(wire->n_nodes * sizeof(*r.nodes)),
    };
    slot->indices = calloc(wire->n_nodes, sizeof(*slot->indices));
    if (!r.places || !r.nodes || !r.counts || !slot->indices)
        no_memory(&out);
    else
        buffers_use(w, wire, &out);
    for (uint32_t i = 0; i < wire->n_tensors && !out.fatal && !out.status; i++)
        tensor_realise(w, slot, i, &r, &out);
    if (!out.fatal && !out.status)
        graph_realise(w, slot, &r, &out);
    free(r.places);
    free(r.nodes);
    free(r.counts);
    slot->status = APIR_OK;
    slot->state = SLOT_READY;
    if (out.status)
        worker_slot_break(slot, out.status, out.why);
    return out.fatal;
}

/* ggml's own graph: a node's place in its lists and in its hash table. */
#define GRAPH_NODE_BYTES 64u

static uint64_t graph_bytes(const struct apir_graph *wire)
{
    return wire->n_tensors *
               (sizeof(struct apir_tensor) + sizeof(struct gg_tensor) + GRAPH_NODE_BYTES) +
           wire->n_nodes * sizeof(struct worker_index) + wire->n_names * sizeof(struct apir_name) +
           wire->n_buffers * sizeof(struct apir_graph_buffer);
}

const char *worker_slot_define(struct worker *w, struct worker_slot *slot, uint32_t device,
                               const void *payload, uint64_t size)
{
    worker_slot_clear(w, slot);
    const char *why = NULL;
    int rc = apir_graph_decode(payload, size, &slot->wire, &why);
    if (rc == -EBADMSG)
        return why;
    slot->device = device;
    const uint64_t bytes = rc ? 0 : graph_bytes(&slot->wire);
    const bool fits = !w->graph_limit || bytes <= w->graph_limit - w->graph_bytes;
    if (!rc && fits)
        slot->tensors = calloc(slot->wire.n_tensors, sizeof(*slot->tensors));
    if (!slot->tensors) {
        worker_slot_clear(w, slot);
        if (fits)
            worker_slot_break(slot, APIR_E_NOMEM, "the host has no memory for a graph");
        else
            worker_slot_break(slot, APIR_E_LIMIT,
                              "no room for its graphs: the host's limit context_graph_mib");
        return NULL;
    }
    slot->bytes = bytes;
    w->graph_bytes += bytes;
    return slot_realise(w, slot);
}

void worker_slot_clear(struct worker *w, struct worker_slot *slot)
{
    w->graph_bytes -= slot->bytes;
    host_graph_fini(&w->ggml, &slot->graph);
    apir_graph_fini(&slot->wire);
    free(slot->tensors);
    free(slot->indices);
    *slot = (struct worker_slot){0};
}

bool worker_slot_uses(const struct worker_slot *slot, uint32_t buffer_id)
{
    for (uint32_t i = 0; i < slot->wire.n_buffers; i++) {
        if (slot->wire.buffers[i].id == buffer_id)
            return true;
    }
    return false;
}

void worker_tensors_imagine(struct worker *w, const struct apir_graph *wire, uint32_t device,
                            struct gg_tensor *tensors, struct worker_outcome *out)
{
    bool cpu = host_device_is_cpu(&w->ggml.devices[device]);
    for (uint32_t i = 0; i < wire->n_tensors && !out->fatal && !out->status; i++) {
        struct worker_reach reach;
        uint64_t extent;
        tensor_check(w, wire, i, TO_ASK, cpu, &extent, &reach, out);
        if (!out->fatal && !out->status && !reach_is_modest(w, wire, i, &reach))
            out->fatal = "op: would go beyond a buffer";
        if (!out->fatal && !out->status)
            tensor_translate(w, wire, i, TO_ASK, tensors, out);
    }
}
