/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/differ/ggml_grow.h"

#include <string.h>

#define R(n) ((int64_t)differ_below(&b->r, (uint32_t)(n)))

/* ---- leaves ------------------------------------------------------------------------ */

static struct ggml_tensor *leaf(struct builder *b, enum ggml_type type, int64_t n0, int64_t n1,
                                int64_t n2, int64_t n3)
{
    return ggml_new_tensor_4d(b->ctx, type, n0, n1, n2, n3);
}

/* Written by a graph, read by its next run: as a cache is. */
static struct ggml_tensor *kept(struct builder *b, enum ggml_type type, int64_t n0, int64_t n1,
                                int64_t n2)
{
    struct ggml_tensor *t = leaf(b, type, n0, n1, n2, 1);
    return ggml_set_name(t, "kept");
}

struct ggml_tensor *grow_leaf(struct builder *b)
{
    static const uint8_t rows[] = {1, 2, 4, 8, 16, 32, 32, 64, 64, 96, 128, 33, 7};
    static const uint8_t counts[] = {1, 1, 2, 3, 4, 8, 17, 32};
    const int64_t n0 = rows[R(sizeof(rows))], n1 = counts[R(sizeof(counts))];
    return leaf(b, GGML_TYPE_F32, n0, n1, R(2) ? 1 : 1 + R(4), R(4) ? 1 : 1 + R(2));
}

static enum ggml_type weight_type(struct builder *b, int64_t n0)
{
    static const enum ggml_type types[] = {
        GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q8_0,   GGML_TYPE_Q4_0,
        GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4};
    return types[R(n0 % 32 ? 3 : (int)(sizeof(types) / sizeof(types[0])))];
}

static struct ggml_tensor *pick_any(struct builder *b)
{
    return b->pool[R(b->n_pool)];
}

/* Not an empty one: some builders divide by a dimension. */
static struct ggml_tensor *pick(struct builder *b)
{
    for (int i = 0; i < 20; i++) {
        struct ggml_tensor *t = pick_any(b);
        if (!ggml_is_empty(t))
            return t;
    }
    return grow_leaf(b);
}

/* ---- shapes ------------------------------------------------------------------------ */

static struct ggml_tensor *grow_view(struct builder *b)
{
    struct ggml_tensor *a = pick(b);
    const int64_t first = R(a->ne[1] + 1);
    /* ggml_view_3d() takes the elements of a row to be neighbours, and asks nobody. */
    switch (R(ggml_is_contiguous(a) ? 7 : 3)) {
    case 0:
        return ggml_transpose(b->ctx, a);
    case 1:
        return ggml_permute(b->ctx, a, 0, 2, 1, 3);
    case 2:
        return ggml_permute(b->ctx, a, 2, 0, 1, 3);
    case 3:
        return ggml_reshape_2d(b->ctx, a, a->ne[0] * a->ne[1], a->ne[2] * a->ne[3]);
    case 4: {
        /* Part of each row: rows with room between them. */
        const int64_t n0 = 1 + R(a->ne[0]);
        return ggml_view_3d(b->ctx, a, n0, a->ne[1], a->ne[2], a->nb[1], a->nb[2],
                            (size_t)R(a->ne[0] - n0 + 1) * a->nb[0]);
    }
    case 5:
        /* Some rows, perhaps none. */
        return ggml_view_3d(b->ctx, a, a->ne[0], a->ne[1] - first, a->ne[2], a->nb[1], a->nb[2],
                            first < a->ne[1] ? (size_t)first * a->nb[1] : 0);
    default:
        return ggml_reshape_1d(b->ctx, a, ggml_nelements(a));
    }
}

static struct ggml_tensor *grow_cont(struct builder *b)
{
    struct ggml_tensor *a = R(2) ? grow_view(b) : pick_any(b);
    switch (R(5)) {
    case 0:
        return ggml_dup(b->ctx, a);
    case 1:
        return ggml_cont_2d(b->ctx, a, a->ne[0] * a->ne[1], a->ne[2] * a->ne[3]);
    case 2:
        return ggml_cast(b->ctx, a, GGML_TYPE_F16);
    case 3:
        return ggml_cast(b->ctx, ggml_cast(b->ctx, a, GGML_TYPE_BF16), GGML_TYPE_F32);
    default:
        return ggml_cont(b->ctx, a);
    }
}

static struct ggml_tensor *grow_join(struct builder *b)
{
    struct ggml_tensor *a = pick(b);
    int64_t ne[4];
    memcpy(ne, a->ne, sizeof(ne));
    const int axis = (int)R(4);
    if (R(2)) {
        ne[axis] = R(5); /* perhaps nothing */
        return ggml_concat(b->ctx, a, leaf(b, a->type, ne[0], ne[1], ne[2], ne[3]), axis);
    }
    ne[axis] *= 1 + R(3);
    return ggml_repeat_4d(b->ctx, a, ne[0], ne[1], ne[2], ne[3]);
}

/* ---- numbers ----------------------------------------------------------------------- */

static struct ggml_tensor *grow_pair(struct builder *b)
{
    struct ggml_tensor *x = pick(b), *y = NULL;
    for (unsigned i = 0; i < b->n_pool && !y; i++) {
        struct ggml_tensor *other = b->pool[R(b->n_pool)];
        if (ggml_can_repeat(other, x) && other->type == GGML_TYPE_F32)
            y = other;
    }
    if (!y || R(3) == 0)
        y = leaf(b, GGML_TYPE_F32, R(4) ? x->ne[0] : 1, R(2) ? x->ne[1] : 1, R(2) ? x->ne[2] : 1,
                 R(2) ? x->ne[3] : 1);
    typedef struct ggml_tensor *(*operation)(struct ggml_context *, struct ggml_tensor *,
                                             struct ggml_tensor *);
    static const operation fresh[] = {ggml_sub, ggml_mul, ggml_div, ggml_add, ggml_add};
    static const operation in_place[] = {ggml_sub_inplace, ggml_mul_inplace, ggml_div_inplace,
                                         ggml_add_inplace, ggml_add_inplace};
    const operation *operations = b->plan->in_place && R(4) == 0 ? in_place : fresh;
    return operations[R(5)](b->ctx, x, y);
}

static struct ggml_tensor *grow_single(struct builder *b)
{
    struct ggml_tensor *a = pick_any(b);
    const bool in_place = b->plan->in_place && R(3) == 0;
    const float f = differ_float(&b->r), g = differ_float(&b->r);
    const enum ggml_unary_op op = (enum ggml_unary_op)R(GGML_UNARY_OP_XIELU);
    switch (R(10)) {
    case 0:
        return in_place ? ggml_scale_inplace(b->ctx, a, f) : ggml_scale(b->ctx, a, f);
    case 1:
        return in_place ? ggml_scale_bias_inplace(b->ctx, a, f, g)
                        : ggml_scale_bias(b->ctx, a, f, g);
    case 2:
        return ggml_clamp(b->ctx, a, f < g ? f : g, f < g ? g : f);
    case 3:
        return in_place ? ggml_sqr_inplace(b->ctx, a) : ggml_sqr(b->ctx, a);
    case 4:
        return ggml_sum_rows(b->ctx, a);
    case 5:
        return ggml_mean(b->ctx, a);
    case 6:
        return ggml_cumsum(b->ctx, a);
    default:
        return in_place ? ggml_unary_inplace(b->ctx, a, op) : ggml_unary(b->ctx, a, op);
    }
}

/* With the multiplication and addition that follow it in models: backends fuse them. */
static struct ggml_tensor *grow_norm(struct builder *b)
{
    struct ggml_tensor *a = pick_any(b), *t;
    const float eps = R(2) ? 1e-5f : 1e-6f;
    switch (R(5)) {
    case 0:
        t = ggml_norm(b->ctx, a, eps);
        break;
    case 1:
        t = ggml_l2_norm(b->ctx, a, eps);
        break;
    case 2:
        t = b->plan->in_place ? ggml_rms_norm_inplace(b->ctx, a, eps)
                              : ggml_rms_norm(b->ctx, a, eps);
        break;
    default:
        t = ggml_rms_norm(b->ctx, a, eps);
        break;
    }
    if (R(2))
        t = ggml_mul(b->ctx, t, leaf(b, GGML_TYPE_F32, a->ne[0], 1, 1, 1));
    if (R(3) == 0)
        t = ggml_add(b->ctx, t, leaf(b, GGML_TYPE_F32, a->ne[0], 1, 1, 1));
    return t;
}

static struct ggml_tensor *grow_soft_max(struct builder *b)
{
    struct ggml_tensor *a = pick(b);
    struct ggml_tensor *mask =
        R(2) ? leaf(b, R(2) ? GGML_TYPE_F16 : GGML_TYPE_F32, a->ne[0], a->ne[1], 1, 1) : NULL;
    const float scale = 0.1f + 0.01f * (float)R(100);
    if (b->plan->in_place && R(4) == 0)
        return ggml_soft_max_ext_inplace(b->ctx, a, mask, scale, 0);
    return ggml_soft_max_ext(b->ctx, a, mask, scale, mask && R(2) ? 4.0f : 0.0f);
}

static struct ggml_tensor *grow_glu(struct builder *b)
{
    struct ggml_tensor *a = pick_any(b);
    const enum ggml_glu_op op = (enum ggml_glu_op)R(GGML_GLU_OP_GEGLU_QUICK + 1);
    if (R(2))
        return ggml_glu(b->ctx, a, op, R(2));
    return ggml_glu_split(b->ctx, a, leaf(b, a->type, a->ne[0], a->ne[1], a->ne[2], a->ne[3]), op);
}

static struct ggml_tensor *grow_rope(struct builder *b)
{
    struct ggml_tensor *a = pick(b);
    const int n_dims = (int)(2 * (1 + R(a->ne[0] / 2 ? a->ne[0] / 2 : 1)));
    struct ggml_tensor *pos = leaf(b, GGML_TYPE_I32, a->ne[2], 1, 1, 1);
    return ggml_rope_ext(b->ctx, a, pos, NULL, n_dims, R(2) ? 0 : 2, 128, R(2) ? 1e4f : 1e6f, 1, 0,
                         1, 32, 1);
}

/* ---- products ---------------------------------------------------------------------- */

static struct ggml_tensor *grow_product(struct builder *b)
{
    struct ggml_tensor *x = pick(b);
    struct ggml_tensor *weight =
        leaf(b, weight_type(b, x->ne[0]), x->ne[0], 1 + R(64), R(3) ? 1 : x->ne[2], 1);
    return ggml_mul_mat(b->ctx, weight, x);
}

/* Two results with each other, as queries with keys. */
static struct ggml_tensor *grow_square(struct builder *b)
{
    struct ggml_tensor *x = pick(b), *y = pick(b);
    return ggml_mul_mat(b->ctx, x, x->ne[0] == y->ne[0] && R(2) ? y : x);
}

/* As a mixture of experts: who is asked is computed first. */
static struct ggml_tensor *grow_experts(struct builder *b)
{
    const int64_t n = 32 * (1 + R(3)), experts = 2 + R(6), used = 1 + R(experts), tokens = 1 + R(9);
    struct ggml_tensor *scores = leaf(b, GGML_TYPE_F32, experts, tokens, 1, 1);
    struct ggml_tensor *ids = R(2) ? ggml_argsort_top_k(b->ctx, scores, (int)used)
                                   : leaf(b, GGML_TYPE_I32, used, tokens, 1, 1);
    struct ggml_tensor *x = leaf(b, GGML_TYPE_F32, n, R(2) ? 1 : used, tokens, 1);
    struct ggml_tensor *t =
        ggml_mul_mat_id(b->ctx, leaf(b, weight_type(b, n), n, 1 + R(40), experts, 1), x, ids);
    if (R(2))
        return t;
    return ggml_add_id(b->ctx, t, leaf(b, GGML_TYPE_F32, t->ne[0], experts, 1, 1), ids);
}

/* ---- rows -------------------------------------------------------------------------- */

static struct ggml_tensor *grow_get_rows(struct builder *b)
{
    struct ggml_tensor *a = pick(b);
    if (R(2))
        return ggml_get_rows(b->ctx, a, leaf(b, GGML_TYPE_I32, 1 + R(9), a->ne[2], a->ne[3], 1));
    const int64_t n = 32 * (1 + R(4));
    return ggml_get_rows(b->ctx, leaf(b, weight_type(b, n), n, 1 + R(40), 1, 1),
                         leaf(b, GGML_TYPE_I32, 1 + R(9), 1, 1, 1));
}

static enum ggml_type cache_type(struct builder *b, int64_t n0)
{
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q5_1};
    return types[R(n0 % 32 ? 3 : 6)];
}

/* Rows into a cache, and the first rows of the cache out again. */
static struct ggml_tensor *grow_set_rows(struct builder *b)
{
    struct ggml_tensor *x = pick(b);
    if (!b->plan->keep)
        return NULL;
    struct ggml_tensor *cache =
        kept(b, cache_type(b, x->ne[0]), x->ne[0], x->ne[1] + R(20), x->ne[2]);
    struct ggml_tensor *ids =
        leaf(b, R(2) ? GGML_TYPE_I64 : GGML_TYPE_I32, x->ne[1], x->ne[2], 1, 1);
    struct ggml_tensor *t = ggml_set_rows(b->ctx, cache, x, ids);
    if (R(2) || cache->type != GGML_TYPE_F32)
        return t;
    return ggml_scale(b->ctx, ggml_view_2d(b->ctx, t, t->ne[0], 1 + R(t->ne[1]), t->nb[1], 0),
                      0.5f);
}

/* Into part of a tensor that is kept: the state of a recurrent model. */
static struct ggml_tensor *grow_store(struct builder *b)
{
    struct ggml_tensor *x = pick(b);
    if (!b->plan->keep)
        return NULL;
    struct ggml_tensor *state = kept(b, GGML_TYPE_F32, x->ne[0] + R(8), x->ne[1] + R(4), x->ne[2]);
    struct ggml_tensor *part =
        ggml_view_3d(b->ctx, state, x->ne[0], x->ne[1], x->ne[2], state->nb[1], state->nb[2], 0);
    return ggml_cpy(b->ctx, R(2) ? ggml_add(b->ctx, part, x) : x, part);
}

/* What models end a state with: read it, change it, write it back, read it. */
static struct ggml_tensor *grow_state(struct builder *b)
{
    if (!b->plan->keep)
        return NULL;
    const int64_t n = 8 * (1 + R(8));
    struct ggml_tensor *state = kept(b, GGML_TYPE_F32, n, 1 + R(6), 1);
    struct ggml_tensor *rows =
        ggml_get_rows(b->ctx, state, leaf(b, GGML_TYPE_I32, 1 + R(3), 1, 1, 1));
    struct ggml_tensor *t = ggml_scale_bias(b->ctx, rows, 0.5f, 0.25f);
    struct ggml_tensor *to =
        ggml_view_2d(b->ctx, state, n, 1, state->nb[1], (size_t)R(state->ne[1]) * state->nb[1]);
    ggml_build_forward_expand(b->graph,
                              ggml_cpy(b->ctx, ggml_view_2d(b->ctx, t, n, 1, t->nb[1], 0), to));
    return t;
}

static struct ggml_tensor *grow_attention(struct builder *b)
{
    const int64_t n = 32 * (1 + R(3)), heads = 1 + R(2), group = 1 + R(2), kv = 1 + R(70),
                  tokens = 1 + R(8);
    const enum ggml_type type = R(3) ? GGML_TYPE_F16 : cache_type(b, n);
    struct ggml_tensor *cache[2];
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor *t = leaf(b, type, n * heads, kv + R(10), 1, 1);
        cache[i] = ggml_view_3d(b->ctx, t, n, kv, heads, t->nb[1], ggml_row_size(type, n), 0);
    }
    struct ggml_tensor *q = leaf(b, GGML_TYPE_F32, n, heads * group, tokens, 1);
    struct ggml_tensor *mask = R(3) ? leaf(b, GGML_TYPE_F16, kv, tokens, 1, 1) : NULL;
    return ggml_flash_attn_ext(b->ctx, ggml_permute(b->ctx, q, 0, 2, 1, 3), cache[0], cache[1],
                               mask, 0.25f, 0, R(3) ? 0 : 8.0f);
}

/* Nothing at all is computed, and its result has a place of no size. */
static struct ggml_tensor *grow_nothing(struct builder *b)
{
    if (R(4))
        return NULL;
    struct ggml_tensor *a = leaf(b, GGML_TYPE_F32, 8, R(2) ? 0 : 2, R(2), 1);
    return R(2) ? ggml_scale(b->ctx, a, 2) : ggml_add(b->ctx, a, a);
}

struct ggml_tensor *grow_relay(struct builder *b)
{
    const int64_t n = 1024, rows = 20 + R(280);
    struct ggml_tensor *state = ggml_set_name(leaf(b, GGML_TYPE_F32, n, rows, 1, 1), "kept-cpu");
    struct ggml_tensor *sum = ggml_set_name(leaf(b, GGML_TYPE_F32, n, rows, 1, 1), "kept-dev");
    struct ggml_tensor *next =
        ggml_set_name(ggml_scale_bias(b->ctx, state, 0.75f, 0.125f), "at-cpu");
    struct ggml_tensor *total = ggml_set_name(ggml_add(b->ctx, sum, next), "at-dev");
    ggml_build_forward_expand(b->graph, ggml_cpy(b->ctx, next, state));
    ggml_build_forward_expand(b->graph, ggml_cpy(b->ctx, total, sum));
    return total;
}

static struct ggml_tensor *grow(struct builder *b)
{
    static struct ggml_tensor *(*const growers[])(struct builder *b) = {
        grow_view,    grow_cont,    grow_cont,      grow_join,     grow_pair,     grow_pair,
        grow_single,  grow_single,  grow_norm,      grow_soft_max, grow_glu,      grow_rope,
        grow_product, grow_product, grow_square,    grow_experts,  grow_get_rows, grow_set_rows,
        grow_store,   grow_state,   grow_attention, grow_nothing,
    };
    return growers[R(sizeof(growers) / sizeof(growers[0]))](b);
}

struct ggml_tensor *grow_any(struct builder *b)
{
    return build_try(b, grow);
}
