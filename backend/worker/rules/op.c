/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/rules/op.h"

#include <string.h>

struct rules_op rules_op_of(const struct apir_graph *g, const struct apir_tensor *t)
{
    struct rules_op o = {.d = t, .op = g->names[t->op].name};
    for (unsigned i = 0; i < APIR_TENSOR_SRC; i++)
        o.s[i] = t->src[i] != APIR_NO_TENSOR ? &g->tensors[t->src[i]] : NULL;
    if (t->sub != APIR_NO_NAME)
        o.sub = g->names[t->sub].name;
    return o;
}

/* ---- arithmetic ------------------------------------------------------------- */

#define TOO_LARGE ((rules_int)1 << 110)

rules_int rules_mul(rules_int a, rules_int b)
{
    /* Most are below 2^54, and so is their product below the limit: a division of this width is
     * slow (docs/decisions.md, A new graph costs little). */
    if (((a | b) >> 54) == 0 || b == 0)
        return a * b;
    return a > TOO_LARGE / b ? TOO_LARGE : a * b;
}

rules_int rules_elements(const struct apir_tensor *t)
{
    return rules_mul(t->ne[0], rules_rows(t));
}

rules_int rules_rows(const struct apir_tensor *t)
{
    return rules_mul(rules_mul(t->ne[1], t->ne[2]), t->ne[3]);
}

bool rules_empty(const struct apir_tensor *t)
{
    return rules_elements(t) == 0;
}

bool rules_divides(int64_t a, int64_t b)
{
    return a == 0 ? b == 0 : b % a == 0;
}

bool rules_same_shape(const struct apir_tensor *a, const struct apir_tensor *b)
{
    return memcmp(a->ne, b->ne, sizeof(a->ne)) == 0;
}

bool rules_same_strides(const struct apir_tensor *a, const struct apir_tensor *b)
{
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        if (a->nb[i] != b->nb[i])
            return false;
    }
    return true;
}

bool rules_repeats(const struct apir_tensor *a, const struct apir_tensor *b)
{
    if (rules_empty(a))
        return rules_empty(b);
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        if (b->ne[i] % a->ne[i])
            return false;
    }
    return true;
}

bool rules_shape_is(const struct apir_tensor *t, rules_int n0, rules_int n1, rules_int n2,
                    rules_int n3)
{
    return t->ne[0] == n0 && t->ne[1] == n1 && t->ne[2] == n2 && t->ne[3] == n3;
}

bool rules_is_weight(const struct apir_tensor *t)
{
    /* kernel: Q8_1 and Q8_K have no functions of their own, and none is looked for */
    return (t->type < APIR_TYPE_I8 || t->type > APIR_TYPE_F64) && t->type != APIR_TYPE_Q8_1 &&
           t->type != APIR_TYPE_Q8_K;
}

uint64_t rules_type_size(const struct rules_op *o, const struct apir_tensor *t)
{
    return o->types[t->type].size;
}

float rules_param_float(const struct apir_tensor *t, int i)
{
    float f;
    memcpy(&f, &t->params[i], sizeof(f));
    return f;
}

void rules_reach(const struct rules_op *o, int source, rules_int bytes)
{
    uint64_t *reach = &o->reach->bytes[1 + source];
    uint64_t n = bytes < 0 || bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes;
    if (n > *reach)
        *reach = n;
}

/* ---- layout ----------------------------------------------------------------- */

rules_int rules_row_size(const struct host_type *type, const struct apir_tensor *t)
{
    return rules_mul(t->ne[0] / type->block, type->size);
}

bool rules_contiguous(const struct rules_op *o, const struct apir_tensor *t, int n)
{
    const struct host_type *type = &o->types[t->type];
    if (t->ne[0] != type->block && t->nb[0] != type->size)
        return false;
    rules_int next = rules_row_size(type, t);
    for (int i = 1; i < APIR_TENSOR_DIMS; i++) {
        if (i <= n) {
            next = rules_mul(t->ne[i], (rules_int)t->nb[i]);
            continue;
        }
        if (t->ne[i] != 1 && t->nb[i] != next)
            return false;
        next = rules_mul(next, t->ne[i]);
    }
    return true;
}

bool rules_row_is_packed(const struct rules_op *o, const struct apir_tensor *t)
{
    const struct host_type *type = &o->types[t->type];
    return t->ne[0] == type->block || t->nb[0] == type->size;
}

/* ---- extent ------------------------------------------------------------------ */

const char *worker_rules_extent(const struct host_type *type, const struct apir_tensor *t,
                                uint64_t *ret_extent)
{
    static const char overflow[] = "tensor: shape and strides overflow";
    rules_int elements = 1;
    bool empty = false;
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        /* An empty dimension hides none of the others. */
        elements = rules_mul(elements, t->ne[i] ? t->ne[i] : 1);
        empty = empty || t->ne[i] == 0;
        if (t->ne[i] < 0 || elements > (rules_int)APIR_SIZE_MAX || t->nb[i] > APIR_SIZE_MAX)
            return overflow;
    }
    if ((uint64_t)t->ne[0] % type->block)
        return "tensor: a row ends within a block";
    if (empty) {
        *ret_extent = 0;
        return NULL;
    }
    rules_int blocks = t->ne[0] / type->block;
    rules_int packed = blocks * type->size;
    rules_int strided = (blocks - 1) * (rules_int)t->nb[0] + type->size;
    rules_int end = packed > strided ? packed : strided;
    for (int i = 1; i < APIR_TENSOR_DIMS; i++)
        end += (rules_int)(t->ne[i] - 1) * (rules_int)t->nb[i];
    if (end > (rules_int)APIR_SIZE_MAX)
        return overflow;
    *ret_extent = (uint64_t)end;
    return NULL;
}
