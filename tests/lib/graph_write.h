/* SPDX-License-Identifier: Apache-2.0 */
/* A decoded graph back to bytes, and a small well-formed one to start from. */
#ifndef APIR_TEST_GRAPH_WRITE_H
#define APIR_TEST_GRAPH_WRITE_H

#include <string.h>

#include "protocol/graph.h"

/* A graph of these arrays. */
#define GRAPH(names_, buffers_, tensors_, nodes)                                                   \
    ((struct apir_graph){.n_names = sizeof(names_) / sizeof(*(names_)),                            \
                         .n_buffers = sizeof(buffers_) / sizeof(*(buffers_)),                      \
                         .n_tensors = sizeof(tensors_) / sizeof(*(tensors_)),                      \
                         .n_nodes = (nodes),                                                       \
                         .names = (names_),                                                        \
                         .buffers = (buffers_),                                                    \
                         .tensors = (tensors_)})

/* Everything before the tensors. */
static inline void graph_write_front(struct apir_writer *w, const struct apir_graph *g)
{
    apir_writer_u32(w, g->flags);
    apir_writer_u16(w, (uint16_t)g->n_names);
    for (uint32_t i = 0; i < g->n_names; i++) {
        size_t n = strlen(g->names[i].name);
        apir_writer_u8(w, g->names[i].kind);
        apir_writer_u8(w, (uint8_t)n);
        apir_writer_bytes(w, g->names[i].name, n);
    }
    apir_writer_u32(w, g->n_buffers);
    for (uint32_t i = 0; i < g->n_buffers; i++) {
        apir_writer_u32(w, g->buffers[i].id);
        apir_writer_u32(w, g->buffers[i].usage);
    }
    apir_writer_u32(w, g->n_tensors);
    apir_writer_u32(w, g->n_nodes);
}

/* Returns the size, or 0 where it does not fit. */
static inline size_t graph_write(const struct apir_graph *g, void *buf, size_t cap)
{
    struct apir_writer w = apir_writer_init(buf, cap);
    graph_write_front(&w, g);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        apir_tensor_write(&w, &g->tensors[i]);
    return w.full ? 0 : w.size;
}

/*
 * A graph with one of everything: leaves in two buffers, a product, a unary with
 * its sub-op, a view, a node with an absent source and parameters, one with as
 * many sources as there may be. Static memory: for reading only.
 */
enum {
    SAMPLE_WEIGHT,
    SAMPLE_INPUT,
    SAMPLE_PRODUCT,
    SAMPLE_UNARY,
    SAMPLE_VIEW,
    SAMPLE_SOFT_MAX,
    SAMPLE_ALL_SRC,
    SAMPLE_TENSORS
};
enum { NAME_MUL_MAT, NAME_UNARY, NAME_SILU, NAME_VIEW, NAME_SOFT_MAX, NAME_FLASH, NAME_SWIGLU };

#define SAMPLE_NODES (SAMPLE_TENSORS - SAMPLE_PRODUCT)
#define SAMPLE_BYTES 4096

static inline struct apir_tensor sample_tensor(uint8_t bits, uint16_t op)
{
    struct apir_tensor t = {
        .bits = bits,
        .op = op,
        .sub = APIR_NO_NAME,
        .ne = {64, 4, 1, 1},
        .nb = {4, 256, 1024, 1024},
        .view_src = APIR_NO_TENSOR,
    };
    for (int i = 0; i < APIR_TENSOR_SRC; i++)
        t.src[i] = APIR_NO_TENSOR;
    return t;
}

static inline const struct apir_graph *sample_graph(void)
{
    static struct apir_name names[] = {
        {APIR_NAME_OP, "MUL_MAT"}, {APIR_NAME_OP, "UNARY"},    {APIR_NAME_UNARY, "SILU"},
        {APIR_NAME_OP, "VIEW"},    {APIR_NAME_OP, "SOFT_MAX"}, {APIR_NAME_OP, "FLASH_ATTN_EXT"},
        {APIR_NAME_GLU, "SWIGLU"},
    };
    static struct apir_graph_buffer buffers[] = {{1, 1}, {UINT32_MAX, 2}};
    static struct apir_tensor t[SAMPLE_TENSORS];

    t[SAMPLE_WEIGHT] = sample_tensor(APIR_TENSOR_BUFFER | APIR_TENSOR_NAMED, APIR_NO_NAME);
    t[SAMPLE_WEIGHT].type = 2;
    t[SAMPLE_WEIGHT].use_count = 1;
    memcpy(t[SAMPLE_WEIGHT].name, "blk.0.attn_q.weight", 20);
    t[SAMPLE_INPUT] = sample_tensor(APIR_TENSOR_BUFFER, APIR_NO_NAME);
    t[SAMPLE_INPUT].flags = APIR_TENSOR_FLAG_INPUT;
    t[SAMPLE_INPUT].buffer = 1;
    t[SAMPLE_INPUT].use_count = 2;

    t[SAMPLE_PRODUCT] = sample_tensor(APIR_TENSOR_NODE | APIR_TENSOR_BUFFER, NAME_MUL_MAT);
    t[SAMPLE_PRODUCT].n_src = 2;
    t[SAMPLE_PRODUCT].src[0] = SAMPLE_WEIGHT;
    t[SAMPLE_PRODUCT].src[1] = SAMPLE_INPUT;
    t[SAMPLE_PRODUCT].buffer = 1;
    t[SAMPLE_PRODUCT].offset = UINT64_C(1) << 40;
    t[SAMPLE_UNARY] = sample_tensor(APIR_TENSOR_NODE | APIR_TENSOR_BUFFER, NAME_UNARY);
    t[SAMPLE_UNARY].sub = NAME_SILU;
    t[SAMPLE_UNARY].n_src = 1;
    t[SAMPLE_UNARY].src[0] = SAMPLE_PRODUCT;
    t[SAMPLE_VIEW] =
        sample_tensor(APIR_TENSOR_NODE | APIR_TENSOR_VIEW | APIR_TENSOR_PARAM, NAME_VIEW);
    t[SAMPLE_VIEW].n_src = 1;
    t[SAMPLE_VIEW].src[0] = SAMPLE_UNARY;
    t[SAMPLE_VIEW].view_src = SAMPLE_UNARY;
    t[SAMPLE_VIEW].view_offs = 256;
    t[SAMPLE_VIEW].params[0] = 256;
    t[SAMPLE_SOFT_MAX] =
        sample_tensor(APIR_TENSOR_NODE | APIR_TENSOR_BUFFER | APIR_TENSOR_PARAM | APIR_TENSOR_NAMED,
                      NAME_SOFT_MAX);
    t[SAMPLE_SOFT_MAX].n_src = 3;
    t[SAMPLE_SOFT_MAX].src[0] = SAMPLE_VIEW;
    t[SAMPLE_SOFT_MAX].src[2] = SAMPLE_INPUT; /* [1] is absent */
    t[SAMPLE_SOFT_MAX].params[0] = INT32_MIN;
    t[SAMPLE_SOFT_MAX].params[15] = INT32_MAX;
    t[SAMPLE_SOFT_MAX].flags = APIR_TENSOR_FLAG_COMPUTE | APIR_TENSOR_FLAG_OUTPUT;
    memset(t[SAMPLE_SOFT_MAX].name, 'n', APIR_TENSOR_NAME - 1);
    t[SAMPLE_ALL_SRC] =
        sample_tensor(APIR_TENSOR_NODE | APIR_TENSOR_BUFFER | APIR_TENSOR_NAMED, NAME_FLASH);
    t[SAMPLE_ALL_SRC].n_src = APIR_TENSOR_SRC;
    for (uint32_t i = 0; i < APIR_TENSOR_SRC; i++)
        t[SAMPLE_ALL_SRC].src[i] = i % SAMPLE_ALL_SRC;

    static const struct apir_graph graph = {
        .flags = APIR_GRAPH_COMPUTE_FLAG,
        .n_names = sizeof(names) / sizeof(names[0]),
        .n_buffers = sizeof(buffers) / sizeof(buffers[0]),
        .n_tensors = SAMPLE_TENSORS,
        .n_nodes = SAMPLE_NODES,
        .names = names,
        .buffers = buffers,
        .tensors = t,
    };
    return &graph;
}

#endif
