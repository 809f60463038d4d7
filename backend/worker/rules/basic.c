/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of element-wise ops, rows, products, views and training. Where nothing else is
 * said, a rule repeats the GGML_ASSERTs of the op's builder in ggml.c; "kernel:" marks
 * what only ggml-cpu relies on.
 */
#include <stddef.h>
#include <string.h>

#include "backend/worker/rules/basic.h"

static bool is_quantised(const struct rules_op *o, const struct apir_tensor *t)
{
    return o->types[t->type].block > 1;
}

/* ---- element by element ------------------------------------------------------- */

/* kernel: all of one type, or a second source of F32 */
static bool cpu_types_go_together(const struct rules_op *o)
{
    if (S1->type == APIR_TYPE_F32)
        return D->type == S0->type || D->type == APIR_TYPE_F32;
    return S1->type == S0->type && D->type == S0->type;
}

const char *rules_repeat_b(const struct rules_op *o)
{
    if (!rules_repeats(S1, S0))
        return BAD_SHAPE;
    return o->cpu && !cpu_types_go_together(o) ? "op: type of a source" : NULL;
}

/* ADD, and ggml_add_cast(). */
const char *rules_arith(const struct rules_op *o)
{
    if (!rules_repeats(S1, S0))
        return BAD_SHAPE;
    if (!o->cpu)
        return NULL;
    if (is_quantised(o, S0)) {
        /* kernel: row by row, both of one shape, the sum quantised again or F32 */
        if (!rules_same_shape(S0, S1) || S1->type != APIR_TYPE_F32)
            return BAD_SHAPE;
        if (D->type != S0->type && D->type != APIR_TYPE_F32)
            return "op: type of the result";
        if (S0->nb[0] != rules_type_size(o, S0) || S1->nb[0] != 4 || D->nb[0] > D->nb[1] ||
            D->nb[1] > D->nb[2] || D->nb[2] > D->nb[3])
            return "op: the CPU wants its elements side by side";
        return NULL;
    }
    if (is_quantised(o, S1) || is_quantised(o, D) || !cpu_types_go_together(o))
        return "op: type of a source";
    if (S0->nb[0] != rules_type_size(o, S0) || D->nb[0] != rules_type_size(o, D))
        return "op: the CPU wants its elements side by side";
    return NULL;
}

const char *rules_unary(const struct rules_op *o)
{
    /* kernel: the one with parameters of its own */
    if (o->cpu && strcmp(o->sub, "XIELU") == 0 &&
        !(rules_contiguous(o, S0, 1) && rules_contiguous(o, D, 1)))
        return "op: the CPU wants its rows in line";
    return NULL;
}

const char *rules_add_id(const struct rules_op *o)
{
    return shape_if(S0->ne[0] == S1->ne[0] && S0->ne[1] == S2->ne[0] && S0->ne[2] == S2->ne[1]);
}

/* ggml_is_padded_1d() */
static bool is_padded_1d(const struct rules_op *o, const struct apir_tensor *t)
{
    return t->nb[0] == rules_type_size(o, t) &&
           t->nb[2] == rules_mul((rules_int)t->nb[1], t->ne[1]) &&
           t->nb[3] == rules_mul((rules_int)t->nb[2], t->ne[2]);
}

const char *rules_add1(const struct rules_op *o)
{
    if (rules_elements(S1) != 1 || !is_padded_1d(o, S0))
        return BAD_SHAPE;
    if (is_quantised(o, S0) && o->cpu && S1->type != APIR_TYPE_F32)
        return "op: type of a source";
    return S1->type == APIR_TYPE_F32 || S1->type == S0->type ? NULL : "op: type of a source";
}

/*
 * ACC and SET: b lands in the result at strides and an offset that are parameters. ggml
 * takes them as size_t from int32 and checks the last element only: a negative stride
 * would cancel out there.
 */
static const char *check_window(const struct rules_op *o)
{
    rules_int end = D->params[3], size = (rules_int)rules_type_size(o, D);
    if (rules_elements(S1) > rules_elements(S0))
        return BAD_SHAPE;
    if (is_quantised(o, D))
        return "op: type of the result";
    if (D->params[3] < 0)
        return "op: a negative offset";
    if (S1->ne[0] > 0)
        end += (rules_int)(S1->ne[0] - 1) * size;
    for (int i = 0; i < 3; i++) {
        if (D->params[i] < 0)
            return "op: a negative stride";
        if (S1->ne[i + 1] > 0)
            end += (rules_int)(S1->ne[i + 1] - 1) * D->params[i];
    }
    if (!rules_empty(S1))
        end += size;
    return end <= rules_elements(D) * size ? NULL : "op: a window that is not wholly inside";
}

const char *rules_acc(const struct rules_op *o)
{
    if (!rules_contiguous(o, D, 0))
        return "op: the result is not packed";
    return check_window(o);
}

const char *rules_set(const struct rules_op *o)
{
    if (o->cpu && D->type != APIR_TYPE_F32 && D->type != APIR_TYPE_I32)
        return "op: type of the result";
    /* Elsewhere the result may have rows of its own; its bytes are what counts. */
    if (!rules_contiguous(o, D, 0))
        return "op: the result is not packed";
    return check_window(o);
}

/*
 * kernel: of one type on both sides it copies bytes: all at once where both are packed, by rows
 * where both have the same shape and rows of blocks side by side, and to a result that is not
 * packed block by block. What is left, a packed result of something else, is filled by a row's
 * elements times a block's size, which for blocks is far beyond the row.
 */
static const char *check_bytes(const struct rules_op *o)
{
    const uint64_t size = rules_type_size(o, D);
    if (!o->cpu || !is_quantised(o, D) || !rules_contiguous(o, D, 0) ||
        rules_contiguous(o, S0, 0) ||
        (rules_same_shape(S0, D) && S0->nb[0] == size && D->nb[0] == size))
        return NULL;
    return "op: the CPU copies blocks that lie apart to the same shape only";
}

/* DUP and CONT: S0 and the result are of one type. */
const char *rules_dup(const struct rules_op *o)
{
    return check_bytes(o);
}

/* Copies element by element; source 1, if there, is where the result lies. */
const char *rules_cpy(const struct rules_op *o)
{
    if (rules_elements(S0) != rules_elements(D) || rules_elements(S1) != rules_elements(D))
        return BAD_SHAPE;
    /* kernel: the work buffer is sized by source 1's type, the work done by the result's;
     * blocks are written by source 1's strides to the result's memory */
    if (S1->type != D->type)
        return "op: type of the result";
    if (!rules_same_shape(S1, D) || !rules_same_strides(S1, D))
        return BAD_SHAPE;
    if (S0->type == D->type)
        return check_bytes(o);
    if (!o->cpu)
        return NULL;
    bool plain = !is_quantised(o, S0) && !is_quantised(o, D);
    bool from_ok =
        S0->type == APIR_TYPE_F32 || S0->type == APIR_TYPE_F16 || S0->type == APIR_TYPE_BF16;
    bool to_ok = D->type == APIR_TYPE_F32 || D->type == APIR_TYPE_F16 || D->type == APIR_TYPE_BF16;
    bool to_int = S0->type == APIR_TYPE_F32 && D->type == APIR_TYPE_I32;
    bool from_int = S0->type == APIR_TYPE_I32 && D->type == APIR_TYPE_F32;
    if (plain)
        return (from_ok && to_ok) || to_int || from_int ? NULL : "op: type of the result";
    if (is_quantised(o, S0)) {
        /* kernel: rows of blocks to rows of F32 */
        if (!rules_is_weight(S0))
            return "op: type of a source";
        if (D->type != APIR_TYPE_F32)
            return "op: type of the result";
        if (D->nb[0] != 4 || (!rules_contiguous(o, D, 0) && D->ne[0] % o->types[S0->type].block))
            return "op: the CPU wants its elements side by side";
        return NULL;
    }
    /* kernel: rows of floats, quantised one behind the other. The work buffer holds a row of
     * the result, the work is done on a row of the source. */
    if (!from_ok)
        return "op: type of a source";
    if (!rules_contiguous(o, D, 0) || S0->nb[0] != rules_type_size(o, S0) ||
        S0->ne[0] % o->types[D->type].block || S0->ne[0] > D->ne[0])
        return "op: the CPU wants its elements side by side";
    return NULL;
}

const char *rules_permute(const struct rules_op *o)
{
    unsigned seen = 0;
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        if (D->params[i] < 0 || D->params[i] >= APIR_TENSOR_DIMS)
            return BAD_PARAM;
        seen |= 1u << D->params[i];
        if (D->ne[D->params[i]] != S0->ne[i])
            return BAD_SHAPE;
    }
    return seen == 15 ? NULL : "op: no permutation";
}

const char *rules_tri(const struct rules_op *o)
{
    if (D->params[0] < 0 || D->params[0] > 3)
        return BAD_PARAM;
    return shape_if(S0->ne[0] == S0->ne[1]);
}

const char *rules_glu(const struct rules_op *o)
{
    if (S1 && !rules_same_shape(S0, S1))
        return BAD_SHAPE;
    /* kernel: of those with a limit none for BF16, and the CPU backend of 0.27 says that there is
     */
    if (o->cpu && S0->type == APIR_TYPE_BF16 &&
        (strcmp(o->sub, "SWIGLU_OAI") == 0 || strcmp(o->sub, "SWIGLU_CLAMP") == 0))
        return "op: type of a source";
    return shape_if(
        rules_shape_is(D, S1 ? S0->ne[0] : S0->ne[0] / 2, S0->ne[1], S0->ne[2], S0->ne[3]));
}

/* ---- rows --------------------------------------------------------------------- */

const char *rules_scale(const struct rules_op *o)
{
    /* kernel: F32 and BF16 */
    return o->cpu && S0->type == APIR_TYPE_F16 ? "op: type of a source" : NULL;
}

const char *rules_sum_rows(const struct rules_op *o)
{
    /* kernel: F32 alone */
    if (o->cpu && S0->type != APIR_TYPE_F32)
        return "op: type of a source";
    return shape_if(rules_shape_is(D, 1, S0->ne[1], S0->ne[2], S0->ne[3]));
}

const char *rules_argmax(const struct rules_op *o)
{
    if (S0->ne[2] != 1 || S0->ne[3] != 1)
        return BAD_SHAPE;
    return shape_if(rules_shape_is(D, S0->ne[1], 1, 1, 1));
}

const char *rules_count_equal(const struct rules_op *o)
{
    /* kernel: takes row numbers apart wrongly where there is more than one matrix, and
     * ends up before the tensor */
    if (o->cpu && (S0->ne[2] != 1 || S0->ne[3] != 1))
        return "op: the CPU counts in matrices only";
    return NULL;
}

const char *rules_repeat(const struct rules_op *o)
{
    if (!rules_repeats(S0, D))
        return BAD_SHAPE;
    bool known = S0->type == APIR_TYPE_F32 || S0->type == APIR_TYPE_F16 ||
                 S0->type == APIR_TYPE_BF16 || S0->type == APIR_TYPE_I16 ||
                 S0->type == APIR_TYPE_I32;
    return known || (!o->cpu && !is_quantised(o, S0)) ? NULL : "op: type of a source";
}

const char *rules_repeat_back(const struct rules_op *o)
{
    return shape_if(rules_repeats(D, S0));
}

const char *rules_concat(const struct rules_op *o)
{
    int32_t dim = D->params[0];
    if (dim < 0 || dim >= APIR_TENSOR_DIMS)
        return BAD_PARAM;
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        if (i == dim ? D->ne[i] != S0->ne[i] + S1->ne[i]
                     : D->ne[i] != S0->ne[i] || D->ne[i] != S1->ne[i])
            return BAD_SHAPE;
    }
    /* kernel: goes by all strides, but by rows of these */
    const bool by_rows = D->type > APIR_TYPE_F16 && D->type != APIR_TYPE_BF16 &&
                         (D->type < APIR_TYPE_I8 || D->type > APIR_TYPE_I32);
    if (o->cpu && by_rows && !(rules_row_is_packed(o, S0) && rules_row_is_packed(o, S1)))
        return "op: the CPU wants its elements side by side";
    return NULL;
}

/* kernel: eps >= 0 */
const char *rules_eps(const struct rules_op *o)
{
    return param_if(rules_param_float(D, 0) >= 0.0f);
}

const char *rules_group_norm(const struct rules_op *o)
{
    /* The groups' borders are counted in int, from a division by their number. */
    return param_if(D->params[0] >= 1 && D->params[0] <= (S0->ne[2] ? S0->ne[2] : 1));
}

const char *rules_get_rows(const struct rules_op *o)
{
    if (S0->ne[2] != S1->ne[1] || S0->ne[3] != S1->ne[2] || S1->ne[3] != 1)
        return BAD_SHAPE;
    if (!rules_shape_is(D, S0->ne[0], S1->ne[0], S1->ne[1], S1->ne[2]))
        return BAD_SHAPE;
    if (S0->type != APIR_TYPE_I32 && !rules_is_weight(S0))
        return "op: type of a source";
    return D->type == (S0->type == APIR_TYPE_I32 ? APIR_TYPE_I32 : APIR_TYPE_F32)
               ? NULL
               : "op: type of the result";
}

const char *rules_get_rows_back(const struct rules_op *o)
{
    bool matrix = S0->ne[2] == 1 && S0->ne[3] == 1 && D->ne[2] == 1 && D->ne[3] == 1;
    bool vector = S1->ne[1] == 1 && S1->ne[2] == 1 && S1->ne[3] == 1;
    if (!matrix || !vector || D->ne[0] != S0->ne[0])
        return BAD_SHAPE;
    /* kernel: a row of source 0 per index, which the builder does not look at */
    return shape_if(S0->ne[1] >= S1->ne[0]);
}

const char *rules_set_rows(const struct rules_op *o)
{
    /* Every dimension by its number: a stride hides where there is only one of it. */
    if (D->ne[0] != S0->ne[0] || D->ne[2] != S0->ne[2] || D->ne[3] != S0->ne[3] ||
        S0->ne[1] != S1->ne[0] || S1->ne[3] != 1)
        return BAD_SHAPE;
    if (!rules_divides(S1->ne[1], S0->ne[2]) || !rules_divides(S1->ne[2], S0->ne[3]))
        return BAD_SHAPE;
    if (S2 && (S2->type != D->type || !rules_same_shape(S2, D)))
        return BAD_SHAPE;
    if (D->nb[0] != rules_type_size(o, D) && D->ne[0] != o->types[D->type].block)
        return "op: a tensor has scattered rows";
    if (D->type == APIR_TYPE_I8 || D->type == APIR_TYPE_I16 || D->type == APIR_TYPE_I64 ||
        D->type == APIR_TYPE_F64)
        return "op: type of the result";
    return NULL;
}

const char *rules_diag(const struct rules_op *o)
{
    return shape_if(S0->ne[1] == 1 &&
                    rules_shape_is(D, S0->ne[0], S0->ne[0], S0->ne[2], S0->ne[3]));
}

const char *rules_diag_mask(const struct rules_op *o)
{
    if (D->params[0] < 0)
        return BAD_PARAM;
    if (!o->cpu)
        return NULL;
    /* kernel: a copy in one piece, unless both lie at the same place; matrices nb[2] apart */
    if (!(rules_contiguous(o, D, 0) && rules_contiguous(o, S0, 0)))
        return "op: the CPU wants it contiguous";
    if (rules_empty(D))
        return NULL;
    rules_int planes = rules_mul(D->ne[2], D->ne[3]);
    rules_reach(o, -1,
                rules_mul(planes - 1, (rules_int)D->nb[2]) +
                    rules_mul(D->ne[1] - 1, (rules_int)D->nb[1]) + rules_mul(D->ne[0], 4));
    return NULL;
}

const char *rules_argsort(const struct rules_op *o)
{
    return param_if(D->params[0] == 0 || D->params[0] == 1);
}

const char *rules_top_k(const struct rules_op *o)
{
    return shape_if(D->ne[0] <= S0->ne[0] &&
                    rules_shape_is(D, D->ne[0], S0->ne[1], S0->ne[2], S0->ne[3]));
}

/* ---- products ------------------------------------------------------------------- */

static bool is_transposed(const struct apir_tensor *t)
{
    return t->nb[0] > t->nb[1];
}

const char *rules_mul_mat(const struct rules_op *o)
{
    if (S0->ne[0] != S1->ne[0] || !rules_divides(S0->ne[2], S1->ne[2]) ||
        !rules_divides(S0->ne[3], S1->ne[3]))
        return BAD_SHAPE;
    if (is_transposed(S0))
        return "op: a transposed matrix";
    if (!rules_shape_is(D, S0->ne[1], S1->ne[1], S1->ne[2], S1->ne[3]))
        return BAD_SHAPE;
    /* GGML_HINT_SRC0_IS_HADAMARD. kernel: transforms source 1 in rows of the result, and
     * looks at nothing else. */
    if (D->params[1] == 1 && (S0->ne[0] != S0->ne[1] || (S0->ne[0] & (S0->ne[0] - 1))))
        return "op: no Hadamard matrix";
    return NULL;
}

const char *rules_mul_mat_id(const struct rules_op *o)
{
    const struct apir_tensor *as = S0, *b = S1, *ids = S2;
    if (as->ne[3] != 1 || b->ne[3] != 1 || ids->ne[2] != 1 || ids->ne[3] != 1 ||
        ids->ne[1] != b->ne[2] || as->ne[0] != b->ne[0] || !rules_divides(b->ne[1], ids->ne[0]))
        return BAD_SHAPE;
    if (is_transposed(as))
        return "op: a transposed matrix";
    if (!rules_empty(D) && as->ne[2] == 0)
        return BAD_SHAPE;
    return shape_if(rules_shape_is(D, as->ne[1], ids->ne[0], b->ne[2], 1));
}

const char *rules_out_prod(const struct rules_op *o)
{
    if (S0->ne[1] != S1->ne[1] || !rules_divides(S0->ne[2], S1->ne[2]) ||
        !rules_divides(S0->ne[3], S1->ne[3]))
        return BAD_SHAPE;
    if (is_transposed(S0))
        return "op: a transposed matrix";
    return shape_if(rules_shape_is(D, S0->ne[0], S1->ne[0], S1->ne[2], S1->ne[3]));
}

/* ---- training ------------------------------------------------------------------- */

const char *rules_cross_entropy_back(const struct rules_op *o)
{
    return shape_if(rules_elements(S0) == 1 && rules_same_shape(S1, S2) && rules_same_shape(S1, D));
}

/* Bytes from t's first to behind its last element: its numbers are checked. */
static rules_int extent(const struct rules_op *o, const struct apir_tensor *t)
{
    uint64_t n = 0;
    return worker_rules_extent(&o->types[t->type], t, &n) ? 0 : (rules_int)n;
}

const char *rules_adamw(const struct rules_op *o)
{
    if (!rules_same_shape(S0, S2) || !rules_same_shape(S0, S3) || rules_elements(S4) != 7)
        return BAD_SHAPE;
    /* kernel: goes through all of them with the strides of the first */
    for (int i = 1; i <= 3; i++)
        rules_reach(o, i, extent(o, S0));
    return NULL;
}

const char *rules_sgd(const struct rules_op *o)
{
    if (rules_elements(S2) != 2)
        return BAD_SHAPE;
    rules_reach(o, 1, extent(o, S0));
    return NULL;
}
