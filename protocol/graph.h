/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs on the wire: the payload of GRAPH_DEF, GRAPH_OPTIMIZE and OP_QUERY.
 *
 * Nothing here is an enum of either side's ggml. Tensor types are GGUF's type
 * numbers (a file format, fixed); ops and the sub-ops of UNARY and GLU travel by
 * name in a table at the front of each payload; op parameters are the 16 int32
 * of ggml's tensor, as its ops read them. A tensor refers only to tensors before
 * it, so every payload is topologically sorted or malformed, and no decoder
 * recurses.
 *
 * Definition:
 *   u32 flags                              APIR_GRAPH_*
 *   u16 n_names   { u8 kind, u8 len, bytes } *
 *   u32 n_buffers { u32 id, u32 usage } *
 *   u32 n_tensors, u32 n_nodes
 *   tensor *
 * Tensor:
 *   u8 bits (APIR_TENSOR_*), u8 type, u8 flags, u8 n_src
 *   u16 op (name index; 0xffff: none), u16 sub (name index; 0xffff: none)
 *   i64 ne[4], u64 nb[4], u32 use_count
 *   [BUFFER] u32 buffer (index in the table), u64 offset in the buffer
 *   [VIEW]   u32 view_src (tensor index), u64 view_offs
 *   u32 src[n_src]  (tensor index + 1; 0: absent)
 *   [PARAMS] i32[16]
 *   [NAME]   u8 len, bytes
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "protocol/wire.h"

#define APIR_TENSOR_DIMS       4
#define APIR_TENSOR_SRC        10
#define APIR_TENSOR_PARAMS     16
#define APIR_TENSOR_NAME       64
#define APIR_TENSORS_MAX       (1u << 18) /* per graph */
#define APIR_GRAPH_NAMES_MAX   256u
#define APIR_GRAPH_BUFFERS_MAX 4096u
#define APIR_NO_NAME           0xffffu
#define APIR_NO_TENSOR         UINT32_MAX

/* The guest's ggml marks the nodes to compute (flag COMPUTE); without this bit
 * every node is computed. */
#define APIR_GRAPH_COMPUTE_FLAG 1u

enum apir_name_kind {
    APIR_NAME_OP = 0,
    APIR_NAME_UNARY = 1,
    APIR_NAME_GLU = 2,
};

enum apir_tensor_bits {
    APIR_TENSOR_NODE = 1,
    APIR_TENSOR_BUFFER = 2,
    APIR_TENSOR_VIEW = 4,
    APIR_TENSOR_PARAM = 8,
    APIR_TENSOR_NAMED = 16,
};

/* ggml's tensor flags, the same numbers in every layout known. */
enum apir_tensor_flag {
    APIR_TENSOR_FLAG_INPUT = 1,
    APIR_TENSOR_FLAG_OUTPUT = 2,
    APIR_TENSOR_FLAG_PARAM = 4,
    APIR_TENSOR_FLAG_LOSS = 8,
    APIR_TENSOR_FLAG_COMPUTE = 16,
};
#define APIR_TENSOR_FLAGS_ALL 31u

struct apir_name {
    uint8_t kind; /* enum apir_name_kind */
    char name[APIR_TENSOR_NAME];
};

/* Whether two names are the same. Tables of ops are searched by this for each node of a graph; most
 * names differ in their first letter, which saves a call. */
static inline bool apir_name_is(const char *a, const char *b)
{
    return a[0] == b[0] && strcmp(a, b) == 0;
}

/* Of a tensor: without control characters. */
static inline bool apir_name_is_clean(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return false;
    }
    return true;
}

/* Nothing is computed: the result lies in its source's memory, or is there already. */
static inline bool apir_op_is_view(const char *op)
{
    return apir_name_is(op, "NONE") || apir_name_is(op, "RESHAPE") || apir_name_is(op, "VIEW") ||
           apir_name_is(op, "PERMUTE") || apir_name_is(op, "TRANSPOSE");
}

struct apir_graph_buffer {
    uint32_t id;
    uint32_t usage; /* 0 any, 1 weights, 2 compute */
};

struct apir_tensor {
    uint8_t bits;
    uint8_t type;
    uint8_t flags;
    uint8_t n_src;
    uint16_t op;
    uint16_t sub;
    int64_t ne[APIR_TENSOR_DIMS];
    uint64_t nb[APIR_TENSOR_DIMS];
    uint32_t use_count;
    uint32_t buffer;
    uint64_t offset;
    uint32_t view_src; /* APIR_NO_TENSOR: no view */
    uint64_t view_offs;
    uint32_t src[APIR_TENSOR_SRC]; /* tensor index, or APIR_NO_TENSOR */
    int32_t params[APIR_TENSOR_PARAMS];
    char name[APIR_TENSOR_NAME];
};

struct apir_graph {
    uint32_t flags;
    uint32_t n_names;
    uint32_t n_buffers;
    uint32_t n_tensors;
    uint32_t n_nodes;
    struct apir_name *names;
    struct apir_graph_buffer *buffers;
    struct apir_tensor *tensors;
};

/* Writes one tensor; overflow shows in w->full. */
void apir_tensor_write(struct apir_writer *w, const struct apir_tensor *t);

/*
 * Decodes a definition from a private copy. Structure is checked here, once:
 * counts against the bytes that are there, indices (a tensor refers only to
 * earlier ones), name and buffer indices, printable names, ne ≥ 0, one NODE bit
 * per counted node, nothing trailing. What the numbers mean (types, sizes, ops)
 * is the worker's check. *ret_graph is heap memory of at most a small multiple
 * of `size`; free with apir_graph_fini. Returns 0, -ENOMEM or -EBADMSG with a
 * static text in *ret_why.
 */
int apir_graph_decode(const void *data, size_t size, struct apir_graph *ret_graph,
                      const char **ret_why);
void apir_graph_fini(struct apir_graph *g);

/* What t computes, for messages: a name without control characters. */
static inline const char *apir_graph_op_name(const struct apir_graph *g,
                                             const struct apir_tensor *t)
{
    return t->sub != APIR_NO_NAME  ? g->names[t->sub].name
           : t->op != APIR_NO_NAME ? g->names[t->op].name
                                   : "tensor";
}
