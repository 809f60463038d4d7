/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules of all families share. Private to this folder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/worker/ggml/ggml.h"
#include "backend/worker/rules/reach.h"
#include "protocol/gguf.h"
#include "protocol/graph.h"

/* Wide enough for what the rules add and multiply; see rules_mul(). */
typedef __int128 rules_int;

/* An op with what it refers to. */
struct rules_op {
    const struct apir_tensor *d;                  /* the result */
    const struct apir_tensor *s[APIR_TENSOR_SRC]; /* NULL: absent */
    const char *op;
    const char *sub; /* UNARY and GLU: which one; else NULL */
    const struct host_type *types;
    bool cpu;
    struct worker_reach *reach;
};

/*
 * Bytes from a tensor's first to behind its last element, however a kernel
 * walks it: by nb[0], or with elements packed in dimension 0. NULL, or the static
 * reason why the numbers overflow or do not fit the type.
 */
const char *worker_rules_extent(const struct host_type *type, const struct apir_tensor *t,
                                uint64_t *ret_extent);

/* NULL, or what is wrong with the op. */
typedef const char *rules_fn(const struct rules_op *o);

#define BAD_SHAPE "op: shapes that do not fit"
#define BAD_PARAM "op: a parameter out of range"

static inline const char *shape_if(bool fits)
{
    return fits ? NULL : BAD_SHAPE;
}

static inline const char *param_if(bool valid)
{
    return valid ? NULL : BAD_PARAM;
}

/* In a rule, whose op is o: the result, its sources and parameters. */
#define D    (o->d)
#define S0   (o->s[0])
#define S1   (o->s[1])
#define S2   (o->s[2])
#define S3   (o->s[3])
#define S4   (o->s[4])
#define S5   (o->s[5])
#define S6   (o->s[6])
#define P(i) (D->params[i])

/* Of this tensor, which has an op: what the graph alone tells. */
struct rules_op rules_op_of(const struct apir_graph *g, const struct apir_tensor *t);

/* Product of two non-negative numbers; what is too large stays too large. */
rules_int rules_mul(rules_int a, rules_int b);
/* Bytes of a row whose elements (or blocks) are side by side. */
rules_int rules_row_size(const struct host_type *type, const struct apir_tensor *t);
rules_int rules_elements(const struct apir_tensor *t);
/* Rows as kernels count them: everything above dimension 0. */
rules_int rules_rows(const struct apir_tensor *t);
bool rules_empty(const struct apir_tensor *t);
/* a divides b; 0 divides only 0. */
bool rules_divides(int64_t a, int64_t b);
bool rules_same_shape(const struct apir_tensor *a, const struct apir_tensor *b);
bool rules_same_strides(const struct apir_tensor *a, const struct apir_tensor *b);
/* ggml_can_repeat(): a, repeated, fills b. */
bool rules_repeats(const struct apir_tensor *a, const struct apir_tensor *b);
bool rules_shape_is(const struct apir_tensor *t, rules_int n0, rules_int n1, rules_int n2,
                    rules_int n3);
/* ggml_is_contiguous_<n>(): dimensions above n are packed. */
bool rules_contiguous(const struct rules_op *o, const struct apir_tensor *t, int n);
/* ggml_is_contiguous_rows(): elements (or blocks) of a row are side by side. */
bool rules_row_is_packed(const struct rules_op *o, const struct apir_tensor *t);
/* Floats and blocks that hold weights: not integers, nor what kernels keep products in. */
bool rules_is_weight(const struct apir_tensor *t);
uint64_t rules_type_size(const struct rules_op *o, const struct apir_tensor *t);
float rules_param_float(const struct apir_tensor *t, int i);
/* Kernels touch this many bytes of a tensor (-1: the result) from its data on. */
void rules_reach(const struct rules_op *o, int source, rules_int bytes);
