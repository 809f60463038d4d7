/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/graph.h"

#include <errno.h>
#include <stdlib.h>

/* Fewest bytes of one tensor on the wire: bounds the count before allocating. */
#define TENSOR_BYTES_MIN (4 + 4 + 8 * 4 + 8 * 4 + 4)

void apir_tensor_write(struct apir_writer *w, const struct apir_tensor *t)
{
    apir_writer_u8(w, t->bits);
    apir_writer_u8(w, t->type);
    apir_writer_u8(w, t->flags);
    apir_writer_u8(w, t->n_src);
    apir_writer_u16(w, t->op);
    apir_writer_u16(w, t->sub);
    apir_writer_bytes(w, t->ne, sizeof(t->ne));
    apir_writer_bytes(w, t->nb, sizeof(t->nb));
    apir_writer_u32(w, t->use_count);
    if (t->bits & APIR_TENSOR_BUFFER) {
        apir_writer_u32(w, t->buffer);
        apir_writer_u64(w, t->offset);
    }
    if (t->bits & APIR_TENSOR_VIEW) {
        apir_writer_u32(w, t->view_src);
        apir_writer_u64(w, t->view_offs);
    }
    for (unsigned i = 0; i < t->n_src && i < APIR_TENSOR_SRC; i++)
        apir_writer_u32(w, t->src[i] + 1); /* APIR_NO_TENSOR wraps to 0 */
    if (t->bits & APIR_TENSOR_PARAM)
        apir_writer_bytes(w, t->params, sizeof(t->params));
    if (t->bits & APIR_TENSOR_NAMED) {
        size_t n = strnlen(t->name, sizeof(t->name) - 1);
        apir_writer_u8(w, (uint8_t)n);
        apir_writer_bytes(w, t->name, n);
    }
}

/* The part that every tensor has. */
static const char *tensor_begin_read(struct apir_reader *r, const struct apir_graph *g,
                                     struct apir_tensor *t)
{
    memset(t, 0, sizeof(*t));
    t->bits = apir_reader_u8(r);
    t->type = apir_reader_u8(r);
    t->flags = apir_reader_u8(r);
    t->n_src = apir_reader_u8(r);
    t->op = apir_reader_u16(r);
    t->sub = apir_reader_u16(r);
    for (int i = 0; i < APIR_TENSOR_DIMS; i++)
        t->ne[i] = apir_reader_i64(r);
    for (int i = 0; i < APIR_TENSOR_DIMS; i++)
        t->nb[i] = apir_reader_u64(r);
    t->use_count = apir_reader_u32(r);
    if (t->bits & ~31u)
        return "tensor: unknown bits";
    if (t->flags & ~APIR_TENSOR_FLAGS_ALL)
        return "tensor: unknown flags";
    if (t->n_src > APIR_TENSOR_SRC)
        return "tensor: too many sources";
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        if (t->ne[i] < 0)
            return "tensor: negative dimension";
    }
    if (t->op != APIR_NO_NAME && (t->op >= g->n_names || g->names[t->op].kind != APIR_NAME_OP))
        return "tensor: op is not a name of this graph";
    if (t->sub != APIR_NO_NAME && (t->sub >= g->n_names || g->names[t->sub].kind == APIR_NAME_OP))
        return "tensor: sub-op is not a name of this graph";
    if ((t->bits & APIR_TENSOR_NODE) && t->op == APIR_NO_NAME)
        return "tensor: a node without an op";
    if (t->n_src && t->op == APIR_NO_NAME)
        return "tensor: sources without an op";
    return NULL;
}

/* Where it lies, what it is computed from, and the rest that its bits announce. */
static const char *tensor_rest_read(struct apir_reader *r, const struct apir_graph *g,
                                    uint32_t index, struct apir_tensor *t)
{
    if (t->bits & APIR_TENSOR_BUFFER) {
        t->buffer = apir_reader_u32(r);
        t->offset = apir_reader_u64(r);
        if (t->buffer >= g->n_buffers)
            return "tensor: buffer is not one of this graph";
    }
    t->view_src = APIR_NO_TENSOR;
    if (t->bits & APIR_TENSOR_VIEW) {
        if (t->bits & APIR_TENSOR_BUFFER)
            return "tensor: a view with a buffer of its own";
        t->view_src = apir_reader_u32(r);
        t->view_offs = apir_reader_u64(r);
        if (t->view_src >= index)
            return "tensor: view of a later tensor";
    }
    for (unsigned i = 0; i < APIR_TENSOR_SRC; i++) {
        t->src[i] = APIR_NO_TENSOR;
        if (i >= t->n_src)
            continue;
        t->src[i] = apir_reader_u32(r) - 1; /* 0 wraps to APIR_NO_TENSOR */
        if (t->src[i] != APIR_NO_TENSOR && t->src[i] >= index)
            return "tensor: source is a later tensor";
    }
    if (t->bits & APIR_TENSOR_PARAM) {
        for (int i = 0; i < APIR_TENSOR_PARAMS; i++)
            t->params[i] = apir_reader_i32(r);
    }
    if (t->bits & APIR_TENSOR_NAMED) {
        size_t n = apir_reader_u8(r);
        const char *s = apir_reader_bytes(r, n);
        if (n >= APIR_TENSOR_NAME)
            return "tensor: name too long";
        if (s) {
            if (!apir_name_is_clean(s, n))
                return "tensor: control character in a name";
            memcpy(t->name, s, n);
        }
    }
    return r->bad ? "tensor: truncated" : NULL;
}

/* Reads tensor `index` of g (whose names and buffers are decoded). NULL: well-formed. */
static const char *tensor_read(struct apir_reader *r, const struct apir_graph *g, uint32_t index,
                               struct apir_tensor *t)
{
    const char *why = tensor_begin_read(r, g, t);
    return why ? why : tensor_rest_read(r, g, index, t);
}

static const char *header_read(struct apir_reader *r, struct apir_graph *g, int *ret_err)
{
    g->flags = apir_reader_u32(r);
    if (g->flags & ~APIR_GRAPH_COMPUTE_FLAG)
        return "graph: unknown flags";
    g->n_names = apir_reader_u16(r);
    if (g->n_names > APIR_GRAPH_NAMES_MAX)
        return "graph: too many names";
    g->names = calloc(g->n_names ? g->n_names : 1, sizeof(*g->names));
    if (!g->names) {
        *ret_err = -ENOMEM;
        return "graph: out of memory";
    }
    for (uint32_t i = 0; i < g->n_names; i++) {
        g->names[i].kind = apir_reader_u8(r);
        size_t n = apir_reader_u8(r);
        const char *s = apir_reader_bytes(r, n);
        if (g->names[i].kind > APIR_NAME_GLU || n == 0 || n >= APIR_TENSOR_NAME || !s ||
            !apir_name_is_clean(s, n))
            return "graph: bad name";
        memcpy(g->names[i].name, s, n);
    }
    g->n_buffers = apir_reader_u32(r);
    if (g->n_buffers > APIR_GRAPH_BUFFERS_MAX || g->n_buffers > r->left / 8)
        return "graph: more buffers than bytes";
    g->buffers = calloc(g->n_buffers ? g->n_buffers : 1, sizeof(*g->buffers));
    if (!g->buffers) {
        *ret_err = -ENOMEM;
        return "graph: out of memory";
    }
    for (uint32_t i = 0; i < g->n_buffers; i++) {
        g->buffers[i].id = apir_reader_u32(r);
        g->buffers[i].usage = apir_reader_u32(r);
        if (g->buffers[i].usage > 2)
            return "graph: unknown buffer usage";
    }
    g->n_tensors = apir_reader_u32(r);
    g->n_nodes = apir_reader_u32(r);
    if (r->bad)
        return "graph: truncated";
    if (g->n_tensors == 0 || g->n_tensors > APIR_TENSORS_MAX ||
        g->n_tensors > r->left / TENSOR_BYTES_MIN)
        return "graph: more tensors than bytes";
    if (g->n_nodes == 0 || g->n_nodes > g->n_tensors)
        return "graph: node count";
    return NULL;
}

int apir_graph_decode(const void *data, size_t size, struct apir_graph *ret_graph,
                      const char **ret_why)
{
    struct apir_reader r = apir_reader_init(data, size);
    struct apir_graph g = {0};
    int rc = -EBADMSG;
    const char *why = header_read(&r, &g, &rc);
    if (why)
        goto fail;
    g.tensors = malloc(g.n_tensors * sizeof(*g.tensors));
    if (!g.tensors) {
        rc = -ENOMEM;
        why = "graph: out of memory";
        goto fail;
    }
    uint32_t n_nodes = 0;
    for (uint32_t i = 0; i < g.n_tensors; i++) {
        why = tensor_read(&r, &g, i, &g.tensors[i]);
        if (why)
            goto fail;
        n_nodes += (g.tensors[i].bits & APIR_TENSOR_NODE) != 0;
    }
    if (n_nodes != g.n_nodes) {
        why = "graph: node count differs from the nodes";
        goto fail;
    }
    if (r.left) {
        why = "graph: trailing bytes";
        goto fail;
    }
    *ret_graph = g;
    return 0;
fail:
    apir_graph_fini(&g);
    *ret_why = why;
    return rc;
}

void apir_graph_fini(struct apir_graph *g)
{
    free(g->names);
    free(g->buffers);
    free(g->tensors);
    *g = (struct apir_graph){0};
}
