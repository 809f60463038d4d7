/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/graph/encode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/plugin/buffer.h"

struct encoder {
    struct graph_scratch *s;
    enum graph_form form;
    struct apir_writer w; /* tensors */
    uint32_t n_tensors;
    const struct gg_cgraph_head *graph; /* NULL for GRAPH_OP */
    const struct plugin_device *device; /* GRAPH_PLACED only, as the next */
    const struct plugin_buffer *home;   /* where the node at hand lies */
    int rc;
    struct apir_name names[APIR_GRAPH_NAMES_MAX];
    uint32_t n_names;
    uint16_t op_index[3][256]; /* name index + 1 by kind and the guest's number */
    uint32_t usages[APIR_GRAPH_BUFFERS_MAX];
};

/* Keeps the first reason. */
static void fail(struct encoder *e, const struct gg_tensor *t, const char *why)
{
    if (e->rc)
        return;
    e->rc = -EINVAL;
    const size_t n = strnlen(t->name, sizeof(t->name) - 1);
    const bool plain = apir_name_is_clean(t->name, n);
    snprintf(e->s->why, sizeof(e->s->why), "'%.*s' %s", plain ? (int)n : 1, plain ? t->name : "?",
             why);
}

/* ---- the index of tensors ----------------------------------------------------- */

static uint32_t hash_pointer(const void *p)
{
    uint64_t v = (uintptr_t)p >> 4;
    v *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(v >> 32);
}

static uint32_t index_slot(const struct graph_scratch *s, const struct gg_tensor *t)
{
    uint32_t i = hash_pointer(t) & (s->cap - 1);
    while (s->keys[i] && s->keys[i] != t)
        i = (i + 1) & (s->cap - 1);
    return i;
}

uint32_t graph_scratch_index(const struct graph_scratch *s, const struct gg_tensor *t)
{
    uint32_t i = index_slot(s, t);
    return s->keys[i] ? s->values[i] : APIR_NO_TENSOR;
}

/* Room for n tensors at a load of at most a half. */
static int index_reset(struct graph_scratch *s, uint32_t n)
{
    uint32_t cap = 64;
    while (cap < n * 2)
        cap *= 2;
    if (cap > s->cap) {
        free((void *)s->keys);
        free(s->values);
        s->keys = malloc(cap * sizeof(*s->keys));
        s->values = malloc(cap * sizeof(*s->values));
        s->cap = s->keys && s->values ? cap : 0;
        if (!s->cap) {
            free((void *)s->keys);
            free(s->values);
            s->keys = NULL;
            s->values = NULL;
            return -ENOMEM;
        }
    }
    memset((void *)s->keys, 0, s->cap * sizeof(*s->keys));
    if (s->tensors_cap < s->cap / 2) {
        /* the index is at most half full */
        free((void *)s->tensors);
        s->tensors = malloc(s->cap / 2 * sizeof(*s->tensors));
        s->tensors_cap = s->tensors ? s->cap / 2 : 0;
    }
    return s->tensors_cap ? 0 : -ENOMEM;
}

/* ---- names -------------------------------------------------------------------- */

/* Of the op (or sub-op) of t. */
static uint16_t name_index(struct encoder *e, const struct gg_tensor *t, unsigned kind, int number)
{
    if (number < 0 || number >= 256) {
        fail(e, t, "is of an operation whose number is out of range");
        return APIR_NO_NAME;
    }
    uint16_t *known = &e->op_index[kind][number];
    if (*known)
        return (uint16_t)(*known - 1);
    const char *text = kind == APIR_NAME_OP      ? plugin.op_name(number)
                       : kind == APIR_NAME_UNARY ? plugin.unary_op_name(number)
                       : plugin.glu_op_name      ? plugin.glu_op_name(number)
                                                 : NULL;
    if (!text || e->n_names == APIR_GRAPH_NAMES_MAX || strlen(text) >= APIR_TENSOR_NAME) {
        fail(e, t, "is of an operation without a name");
        return APIR_NO_NAME;
    }
    struct apir_name *n = &e->names[e->n_names];
    n->kind = (uint8_t)kind;
    memset(n->name, 0, sizeof(n->name));
    memcpy(n->name, text, strlen(text));
    *known = (uint16_t)++e->n_names;
    return (uint16_t)(e->n_names - 1);
}

/* ---- buffers ------------------------------------------------------------------ */

static uint32_t buffer_index(struct encoder *e, const struct gg_tensor *t,
                             const struct plugin_buffer *b)
{
    struct graph_scratch *s = e->s;
    for (uint32_t i = s->n_buffers; i-- > 0;) {
        if (s->buffers[i] == b->id)
            return i;
    }
    if (s->n_buffers == APIR_GRAPH_BUFFERS_MAX) {
        fail(e, t, "is in a buffer more than a graph may name");
        return 0;
    }
    int32_t usage = GG_AT(t->buffer, plugin.layout.buffer.usage, int32_t);
    e->usages[s->n_buffers] = usage >= 0 && usage <= 2 ? (uint32_t)usage : 0;
    s->buffers[s->n_buffers] = b->id;
    return s->n_buffers++;
}

/* ---- tensors ------------------------------------------------------------------ */

/* How often the whole graph uses t, from ggml's own counts; 0 where it has none. */
uint32_t graph_use_count(const struct gg_cgraph_head *graph, const struct gg_tensor *t)
{
    if (!graph || !plugin.layout.cgraph_use_counts)
        return 0;
    const int32_t *counts = GG_AT(graph, plugin.layout.cgraph_use_counts, const int32_t *);
    const struct gg_hash_set *set =
        &GG_AT(graph, plugin.layout.cgraph_hash_set, const struct gg_hash_set);
    if (!counts || !set->size || !set->keys || !set->used)
        return 0;
    size_t start = ((uintptr_t)t >> 4) % set->size;
    for (size_t i = start;;) {
        if (!(set->used[i / 32] & (1u << (i % 32))))
            return 0;
        if (set->keys[i] == t)
            return counts[i] > 0 ? (uint32_t)counts[i] : 0;
        i = i + 1 == set->size ? 0 : i + 1;
        if (i == start)
            return 0;
    }
}

static uint32_t tensor_encode(struct encoder *e, const struct gg_tensor *t, bool node);

/* Its number in the payload, to which it is appended where it is new. */
static uint32_t tensor_index(struct encoder *e, const struct gg_tensor *t)
{
    uint32_t i = graph_scratch_index(e->s, t);
    return i != APIR_NO_TENSOR ? i : tensor_encode(e, t, false);
}

static bool is_empty(const struct gg_tensor *t)
{
    return t->ne[0] == 0 || t->ne[1] == 0 || t->ne[2] == 0 || t->ne[3] == 0;
}

/* A row that ends within a block: ggml makes such views of blocks, and computes nothing right with
 * them. No backend is asked to. */
static bool is_broken(const struct gg_tensor *t)
{
    const int block = plugin.blck_size(t->type); /* 0: a type that ggml has no more */
    return block <= 0 || t->ne[0] % block != 0;
}

/* The device's buffer that t lies in, or NULL: the host's backend could not reach another one's. */
static const struct plugin_buffer *own_buffer(const struct encoder *e, const struct gg_tensor *t)
{
    const struct plugin_buffer *b = plugin_buffer_of(t);
    return b && b->device == e->device ? b : NULL;
}

/* Where t lies in a buffer of the device. */
static void tensor_place(struct encoder *e, const struct gg_tensor *t, struct apir_tensor *out)
{
    const struct plugin_buffer *b = own_buffer(e, t);
    uint64_t at = b ? (uint64_t)((uintptr_t)t->data - (uintptr_t)b->base) : 0;
    /* No byte of it is used, so any place will do: ggml gives it one outside every buffer, or in
     * one that is as empty. */
    if (is_empty(t) && (!b || at > b->size)) {
        b = e->home;
        at = 0;
    }
    if (!b || at > b->size) {
        fail(e, t, "is in no buffer of this device");
        return;
    }
    out->bits |= APIR_TENSOR_BUFFER;
    out->buffer = buffer_index(e, t, b);
    out->offset = at;
}

/* A function of the program's own: its parameters are addresses, which are nobody else's business.
 */
static bool is_function(const char *op)
{
    return strcmp(op, "CUSTOM") == 0 || strncmp(op, "MAP_", 4) == 0;
}

/* What makes it a node. */
static void node_encode(struct encoder *e, const struct gg_tensor *t, struct apir_tensor *out)
{
    out->bits |= APIR_TENSOR_NODE | (e->form != GRAPH_STRUCTURE ? APIR_TENSOR_PARAM : 0);
    out->op = name_index(e, t, APIR_NAME_OP, t->op);
    memcpy(out->params, t->op_params, sizeof(out->params));
    if (out->op != APIR_NO_NAME) {
        const char *op = e->names[out->op].name;
        if (is_function(op))
            fail(e, t, "is a function of the program's own");
        bool unary = strcmp(op, "UNARY") == 0, glu = strcmp(op, "GLU") == 0;
        if (unary || glu) {
            out->sub = name_index(e, t, unary ? APIR_NAME_UNARY : APIR_NAME_GLU, out->params[0]);
            out->params[0] = 0;
        }
    }
    for (unsigned i = 0; i < APIR_TENSOR_SRC; i++) {
        out->src[i] = t->src[i] ? tensor_index(e, t->src[i]) : APIR_NO_TENSOR;
        if (t->src[i])
            out->n_src = (uint8_t)(i + 1);
    }
}

/* Appends t; what it refers to is there first. Recurses one level (view source of a
 * source), as deep as ggml nests: a view's source is never itself a view. */
static uint32_t tensor_encode(struct encoder *e, const struct gg_tensor *t, bool node)
{
    struct apir_tensor out = {
        .type = (uint8_t)t->type,
        .flags = e->form != GRAPH_OP ? (uint8_t)((uint32_t)t->flags & APIR_TENSOR_FLAGS_ALL) : 0,
        .op = APIR_NO_NAME,
        .sub = APIR_NO_NAME,
        .view_src = APIR_NO_TENSOR,
        .use_count = graph_use_count(e->graph, t),
    };
    if (t->type < 0 || t->type > 255) {
        fail(e, t, "is of a type whose number is out of range");
        return 0;
    }
    if (is_broken(t)) {
        fail(e, t, "has rows that end within a block");
        return 0;
    }
    for (int i = 0; i < 4; i++) {
        /* ggml's builders make such results, where nothing is left over; they can only be asked
         * about. */
        if (t->ne[i] < 0)
            fail(e, t, "has a negative dimension");
        if (e->form != GRAPH_STRUCTURE) {
            out.ne[i] = t->ne[i];
            out.nb[i] = t->nb[i];
        }
    }
    if (t->view_src && e->form != GRAPH_OP && !(e->form == GRAPH_PLACED && is_empty(t))) {
        if (t->view_src->view_src) {
            fail(e, t, "is a view of a view");
            return 0;
        }
        out.bits |= APIR_TENSOR_VIEW;
        out.view_src = tensor_index(e, t->view_src);
        out.view_offs = e->form != GRAPH_STRUCTURE ? t->view_offs : 0;
    } else if (e->form == GRAPH_PLACED) {
        tensor_place(e, t, &out);
    }
    if (node)
        node_encode(e, t, &out);
    size_t n = strnlen(t->name, sizeof(t->name) - 1);
    if (n && e->form != GRAPH_OP && e->form != GRAPH_STRUCTURE && apir_name_is_clean(t->name, n)) {
        out.bits |= APIR_TENSOR_NAMED;
        memcpy(out.name, t->name, n);
    }
    if (e->rc)
        return 0;
    uint32_t slot = index_slot(e->s, t);
    e->s->keys[slot] = t;
    e->s->values[slot] = e->n_tensors;
    e->s->tensors[e->n_tensors] = t;
    apir_tensor_write(&e->w, &out);
    return e->n_tensors++;
}

/* ---- assembling --------------------------------------------------------------- */

/* The front of the payload is known last: it is built behind and moved. */
#define FRONT_MAX (16 + APIR_GRAPH_NAMES_MAX * (APIR_TENSOR_NAME + 2) + APIR_GRAPH_BUFFERS_MAX * 8)

static void front_write(const struct encoder *e, struct apir_writer *w, uint32_t n_nodes)
{
    apir_writer_u32(w, plugin.layout.has_compute_flag ? APIR_GRAPH_COMPUTE_FLAG : 0);
    apir_writer_u16(w, (uint16_t)e->n_names);
    for (uint32_t i = 0; i < e->n_names; i++) {
        size_t n = strlen(e->names[i].name);
        apir_writer_u8(w, e->names[i].kind);
        apir_writer_u8(w, (uint8_t)n);
        apir_writer_bytes(w, e->names[i].name, n);
    }
    apir_writer_u32(w, e->s->n_buffers);
    for (uint32_t i = 0; i < e->s->n_buffers; i++) {
        apir_writer_u32(w, e->s->buffers[i]);
        apir_writer_u32(w, e->usages[i]);
    }
    apir_writer_u32(w, e->n_tensors);
    apir_writer_u32(w, n_nodes);
}

static size_t front_size(const struct encoder *e)
{
    size_t n = 4 + 2 + 4 + 4 + 4 + (size_t)e->s->n_buffers * 8;
    for (uint32_t i = 0; i < e->n_names; i++)
        n += 2 + strlen(e->names[i].name);
    return n;
}

static int scratch_reserve(struct graph_scratch *s, size_t cap)
{
    if (cap <= s->out_cap)
        return 0;
    uint8_t *p = realloc(s->out, cap);
    if (!p)
        return -ENOMEM;
    s->out = p;
    s->out_cap = cap;
    return 0;
}

/* Whether a graph is to compute this node: it has elements, and is not of a branch that is left
 * out. */
static bool node_is_computed(const struct gg_tensor *node)
{
    return !is_empty(node) &&
           (!plugin.layout.has_compute_flag || ((uint32_t)node->flags & APIR_TENSOR_FLAG_COMPUTE));
}

/* Whether there is nothing to send of this node; see graph_encode(). */
static bool node_is_idle(const struct encoder *e, const struct gg_tensor *node)
{
    if (e->form != GRAPH_PLACED)
        return false;
    if (!node_is_computed(node))
        return true;
    return plugin_op_is_view(node->op) && (!own_buffer(e, node) || is_broken(node));
}

/* One pass with the capacity at hand; -ENOSPC asks for more. */
static int encode_once(struct encoder *e, struct gg_tensor *const *nodes, uint32_t n_nodes)
{
    struct graph_scratch *s = e->s;
    s->n_buffers = 0;
    s->n_nodes = 0;
    uint8_t *body = s->out + FRONT_MAX;
    e->w = apir_writer_init(body, s->out_cap - FRONT_MAX);
    for (uint32_t i = 0; i < n_nodes && !e->rc && !e->w.full; i++) {
        if (node_is_idle(e, nodes[i]))
            continue;
        if (graph_scratch_index(s, nodes[i]) != APIR_NO_TENSOR) {
            /* A backend's order may have a view behind what uses it: that has brought it along. */
            if (e->form == GRAPH_PLACED && plugin_op_is_view(nodes[i]->op))
                continue;
            fail(e, nodes[i], "comes after a node that uses it");
            break;
        }
        /* Every node may bring its sources and their views: half full is the limit. */
        if (e->n_tensors + 2 * APIR_TENSOR_SRC + 2 > s->cap / 2)
            return -E2BIG;
        e->home = e->form == GRAPH_PLACED ? own_buffer(e, nodes[i]) : NULL;
        tensor_encode(e, nodes[i], true);
        s->n_nodes++;
    }
    if (e->rc)
        return e->rc;
    if (e->w.full)
        return -ENOSPC;
    size_t n = front_size(e);
    struct apir_writer front = apir_writer_init(body - n, n);
    front_write(e, &front, s->n_nodes);
    s->out_size = n + e->w.size;
    s->n_tensors = e->n_tensors;
    memmove(s->out, body - n, s->out_size);
    return 0;
}

static int encode(struct graph_scratch *s, enum graph_form form, const struct plugin_device *device,
                  const struct gg_cgraph_head *graph, struct gg_tensor *const *nodes,
                  uint32_t n_nodes)
{
    uint32_t room = n_nodes * 3 + 64;
    size_t cap = FRONT_MAX + 65536;
    if (cap < s->out_cap)
        cap = s->out_cap;
    struct encoder *e = malloc(sizeof(*e));
    if (!e)
        return -ENOMEM;
    int rc;
    do {
        memset(e, 0, sizeof(*e));
        e->s = s;
        e->form = form;
        e->graph = graph;
        e->device = device;
        rc = index_reset(s, room);
        if (!rc)
            rc = scratch_reserve(s, cap);
        if (!rc)
            rc = encode_once(e, nodes, n_nodes);
        if (rc == -ENOSPC)
            cap *= 2;
        if (rc == -E2BIG)
            room *= 2;
    } while ((rc == -ENOSPC && cap <= APIR_PAYLOAD_MAX * 2) ||
             (rc == -E2BIG && room < APIR_TENSORS_MAX * 8));
    if (!e->rc)
        snprintf(s->why, sizeof(s->why), "%s", rc == -ENOMEM ? "no memory" : "it is too large");
    free(e);
    return rc;
}

int graph_encode(struct graph_scratch *scratch, enum graph_form form,
                 const struct plugin_device *device, const struct gg_cgraph_head *graph)
{
    return encode(scratch, form, device, graph, graph->nodes, (uint32_t)graph->n_nodes);
}

int graph_encode_op(struct graph_scratch *scratch, const struct gg_tensor *op)
{
    struct gg_tensor *node = (struct gg_tensor *)(uintptr_t)op;
    return encode(scratch, GRAPH_OP, NULL, NULL, &node, 1);
}
