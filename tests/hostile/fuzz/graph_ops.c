/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/fuzz/graph_ops.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/graph_write.h"

uint32_t dice_roll(struct dice *d, uint32_t sides)
{
    if (d->left) {
        d->state = (d->state ^ *d->data++) * UINT64_C(0x100000001b3);
        d->left--;
    } else {
        d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    }
    return (uint32_t)((d->state >> 33) % sides);
}

/* Small, mostly; sometimes long enough for a kernel's fast path. */
static int64_t dim(struct dice *d)
{
    static const uint8_t sizes[] = {1, 2, 3, 4, 5, 8, 1, 2, 3, 7, 16, 32, 33};
    return sizes[dice_roll(d, sizeof(sizes))];
}

static enum ggml_type floats(struct dice *d)
{
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_F16,
                                           GGML_TYPE_BF16};
    return types[dice_roll(d, 4)];
}

/* Any type that weights have. */
static enum ggml_type weights(struct dice *d)
{
    static const enum ggml_type types[] = {
        GGML_TYPE_F32,   GGML_TYPE_F16,   GGML_TYPE_BF16,  GGML_TYPE_Q4_0,   GGML_TYPE_Q4_1,
        GGML_TYPE_Q5_0,  GGML_TYPE_Q5_1,  GGML_TYPE_Q8_0,  GGML_TYPE_Q2_K,   GGML_TYPE_Q3_K,
        GGML_TYPE_Q4_K,  GGML_TYPE_Q5_K,  GGML_TYPE_Q6_K,  GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS,
        GGML_TYPE_TQ1_0, GGML_TYPE_TQ2_0, GGML_TYPE_MXFP4, GGML_TYPE_NVFP4,  GGML_TYPE_Q8_1,
        GGML_TYPE_Q8_K,  GGML_TYPE_Q1_0,  GGML_TYPE_Q2_0,
    };
    return types[dice_roll(d, sizeof(types) / sizeof(types[0]))];
}

static int64_t row_of(struct dice *d, enum ggml_type type)
{
    int64_t block = ggml_blck_size(type);
    return block == 1 ? dim(d) : block * (1 + dice_roll(d, 2));
}

/* Dimensions exchanged: as packed as before, in another order. Blocks stay in their row. */
static void permute(struct ggml_tensor *t, struct dice *d)
{
    static const uint8_t pairs[][2] = {{1, 2}, {2, 3}, {1, 3}, {0, 1}, {0, 2}};
    const bool blocks = ggml_blck_size(t->type) > 1;
    const uint8_t *p = pairs[dice_roll(d, blocks ? 3 : 5)];
    size_t nb[4], size = ggml_type_size(t->type);
    int64_t order[4] = {0, 1, 2, 3};
    order[p[0]] = p[1];
    order[p[1]] = p[0];
    for (int i = 0; i < 4; i++) {
        nb[order[i]] = size;
        size *= (size_t)t->ne[order[i]] / (order[i] == 0 ? (size_t)ggml_blck_size(t->type) : 1);
    }
    memcpy(t->nb, nb, sizeof(nb));
}

/* A leaf. One of three has strides that ggml's kernels treat in a way of its own. */
static struct ggml_tensor *leaf(struct ggml_context *c, struct dice *d, enum ggml_type type,
                                int64_t n0, int64_t n1, int64_t n2, int64_t n3)
{
    struct ggml_tensor *t = ggml_new_tensor_4d(c, type, n0, n1, n2, n3);
    const size_t size = ggml_type_size(type);
    const bool in_line = ggml_blck_size(type) > 1 && n0 > ggml_blck_size(type);
    switch (dice_roll(d, 18)) {
    case 0: /* rows apart */
        for (int i = 1; i < 4; i++)
            t->nb[i] += size * 4;
        break;
    case 1:
    case 2:
        permute(t, d);
        break;
    case 3: /* rows, planes or all over each other */
        for (uint32_t i = 1 + dice_roll(d, 3); i < 4; i++)
            t->nb[i] = dice_roll(d, 2) ? size : 0;
        break;
    case 4: /* elements apart, with what follows from it; several blocks of a row never are */
        if (in_line)
            break;
        t->nb[0] *= 2 + dice_roll(d, 3);
        for (int i = 1; i < 4; i++)
            t->nb[i] *= t->nb[0] / size;
        break;
    case 5: /* or without: where a row is one element or block, nb[0] says nothing */
        if (!in_line)
            t->nb[0] *= 2 + dice_roll(d, 3);
        break;
    default:
        break;
    }
    return t;
}

#define F32          GGML_TYPE_F32
#define I32          GGML_TYPE_I32
#define T(type, ...) leaf(c, d, type, __VA_ARGS__)
#define R(n)         ((int)dice_roll(d, (n)))
#define OP(name)     static struct ggml_tensor *op_##name(struct ggml_context *c, struct dice *d)

OP(unary)
{
    struct ggml_tensor *a = T(floats(d), dim(d), dim(d), dim(d), R(3) + 1);
    enum ggml_unary_op op = (enum ggml_unary_op)R(GGML_UNARY_OP_COUNT);
    if (op == GGML_UNARY_OP_XIELU)
        return ggml_xielu(c, a, 1, 2, 3, 4);
    return R(2) ? ggml_unary(c, a, op) : ggml_unary_inplace(c, a, op);
}

OP(math)
{
    struct ggml_tensor *a = T(floats(d), dim(d), dim(d), dim(d), R(3) + 1);
    static struct ggml_tensor *(*const plain[])(struct ggml_context *, struct ggml_tensor *) = {
        ggml_sqr, ggml_sqrt,     ggml_log,    ggml_sin,  ggml_cos,
        ggml_sum, ggml_sum_rows, ggml_cumsum, ggml_mean,
    };
    const int which = R(16);
    if (which < 9)
        return plain[which](c, a);
    switch (which) {
    case 9:
        return ggml_scale_bias(c, a, 2, 1);
    case 10:
        return ggml_clamp(c, a, 0, 1);
    case 11:
        return ggml_leaky_relu(c, a, 0.1f, R(2));
    case 12:
        return ggml_fill(c, a, 1);
    case 13:
        return ggml_silu_back(c, a, T(a->type, a->ne[0], a->ne[1], a->ne[2], a->ne[3]));
    case 14:
        return ggml_dup(c, a);
    default:
        return ggml_cont(c, a);
    }
}

OP(arith)
{
    enum ggml_type type = R(4) ? floats(d) : weights(d);
    int64_t n0 = row_of(d, type), n1 = dim(d), n2 = dim(d), n3 = R(3) + 1;
    struct ggml_tensor *b = T(floats(d), R(2) ? n0 : 1, R(2) ? n1 : 1, R(2) ? n2 : 1, n3);
    struct ggml_tensor *a = T(type, n0, n1, n2, n3);
    static struct ggml_tensor *(*const plain[])(struct ggml_context *, struct ggml_tensor *,
                                                struct ggml_tensor *) = {
        ggml_add, ggml_sub, ggml_mul_inplace, ggml_div, ggml_add_inplace,
    };
    const int which = R(6);
    if (which == 4)
        return ggml_add_cast(c, a, b, F32);
    return plain[which < 4 ? which : 4](c, a, b);
}

OP(add_id)
{
    int64_t n = dim(d), used = dim(d), tokens = dim(d);
    return ggml_add_id(c, T(F32, n, used, tokens, 1), T(F32, n, dim(d), 1, 1),
                       T(I32, used, tokens, 1, 1));
}

OP(window)
{
    int64_t n0 = dim(d), n1 = dim(d), n2 = dim(d);
    struct ggml_tensor *a = T(F32, n0, n1, n2, 1), *b = T(F32, n0, n1, 1, 1);
    size_t offset = (size_t)R(2) * (size_t)(n2 - 1) * a->nb[2];
    return R(2) ? ggml_acc(c, a, b, a->nb[1], a->nb[2], a->nb[3], offset)
                : ggml_set(c, a, b, a->nb[1], a->nb[2], a->nb[3], offset);
}

OP(argmax)
{
    struct ggml_tensor *a = T(F32, dim(d), dim(d), 1, 1);
    if (R(2))
        return ggml_argmax(c, a);
    return ggml_count_equal(c, T(I32, a->ne[0], a->ne[1], 1, 1), T(I32, a->ne[0], a->ne[1], 1, 1));
}

OP(repeat)
{
    struct ggml_tensor *a = T(R(2) ? F32 : floats(d), dim(d), dim(d), R(3) + 1, 1);
    struct ggml_tensor *b = T(F32, a->ne[0] * (R(3) + 1), a->ne[1] * (R(3) + 1), a->ne[2], 2);
    return R(2) ? ggml_repeat(c, a, b) : ggml_repeat_back(c, b, a);
}

OP(concat)
{
    enum ggml_type type = R(3) ? floats(d) : R(2) ? I32 : weights(d);
    int64_t ne[4] = {row_of(d, type), dim(d), dim(d), 1};
    struct ggml_tensor *a = T(type, ne[0], ne[1], ne[2], ne[3]);
    int axis = R(4);
    ne[axis] = axis ? dim(d) : row_of(d, type);
    return ggml_concat(c, a, T(type, ne[0], ne[1], ne[2], ne[3]), axis);
}

OP(norm)
{
    struct ggml_tensor *a = T(F32, dim(d), dim(d), dim(d), R(2) + 1);
    switch (R(5)) {
    case 0:
        return ggml_norm(c, a, 1e-5f);
    case 1:
        return ggml_rms_norm(c, a, 1e-5f);
    case 2:
        return ggml_rms_norm_back(c, a, T(F32, a->ne[0], a->ne[1], a->ne[2], a->ne[3]), 1e-5f);
    case 3:
        return ggml_group_norm(c, a, 1 + R((uint32_t)a->ne[2]), 1e-5f);
    default:
        return ggml_l2_norm(c, a, 1e-5f);
    }
}

OP(mul_mat)
{
    enum ggml_type type = weights(d);
    int64_t k = row_of(d, type), r = R(2) + 1;
    struct ggml_tensor *a = T(type, k, dim(d), R(2) + 1, 1);
    struct ggml_tensor *t =
        ggml_mul_mat(c, a, T(R(4) ? F32 : floats(d), k, dim(d), a->ne[2] * r, R(3) + 1));
    if (R(16) == 0)
        ggml_mul_mat_set_hint(t, GGML_HINT_SRC0_IS_HADAMARD);
    return t;
}

OP(mul_mat_id)
{
    enum ggml_type type = weights(d);
    int64_t k = row_of(d, type), used = dim(d), tokens = dim(d);
    return ggml_mul_mat_id(c, T(type, k, dim(d), dim(d), 1), T(F32, k, R(2) ? used : 1, tokens, 1),
                           T(I32, used, tokens, 1, 1));
}

OP(out_prod)
{
    enum ggml_type type = R(2) ? F32 : weights(d);
    int64_t n = dim(d), n2 = dim(d);
    return ggml_out_prod(c, T(type, row_of(d, type), n, n2, 1), T(F32, dim(d), n, n2, 1));
}

OP(cpy)
{
    enum ggml_type from = R(2) ? F32 : R(2) ? I32 : weights(d), to = R(4) ? weights(d) : I32;
    if (R(3) == 0)
        to = from = weights(d); /* bytes, not numbers, are copied then */
    int64_t n0 = R(2) ? 256 : R(2) ? row_of(d, to) : 32, n1 = dim(d), n2 = R(3) + 1;
    struct ggml_tensor *a = T(from, n0, n1, n2, 1);
    switch (R(6)) {
    case 0:
        return ggml_cast(c, a, to);
    case 1:
        return ggml_dup(c, a);
    case 2:
        return R(2) ? ggml_cont(c, a) : ggml_cont_2d(c, a, n0 * n1, n2);
    default:
        return ggml_cpy(c, a, R(2) ? T(to, n0, n1, n2, 1) : T(to, n0 * n1, n2, 1, 1));
    }
}

OP(views)
{
    struct ggml_tensor *a = T(F32, dim(d), dim(d), dim(d), 1);
    switch (R(4)) {
    case 0:
        return ggml_transpose(c, a);
    case 1:
        return ggml_permute(c, a, 1, 2, 0, 3);
    case 2:
        return ggml_reshape_1d(c, a, ggml_nelements(a));
    default:
        return ggml_view_2d(c, a, a->ne[0], a->ne[1], a->nb[1], 0);
    }
}

OP(get_rows)
{
    enum ggml_type type = R(4) ? weights(d) : I32;
    int64_t n2 = R(3) + 1, n3 = R(2) + 1;
    return ggml_get_rows(c, T(type, row_of(d, type), dim(d), n2, n3), T(I32, dim(d), n2, n3, 1));
}

OP(get_rows_back)
{
    int64_t n = dim(d), ids = dim(d);
    return ggml_get_rows_back(c, T(R(2) ? F32 : GGML_TYPE_F16, n, ids, 1, 1), T(I32, ids, 1, 1, 1),
                              T(F32, n, dim(d), 1, 1));
}

OP(set_rows)
{
    enum ggml_type type = weights(d);
    int64_t n0 = row_of(d, type), ids = dim(d), n2 = R(3) + 1, n3 = R(2) + 1;
    return ggml_set_rows(c, T(type, n0, dim(d), n2, n3),
                         T(R(2) ? F32 : GGML_TYPE_F16, n0, ids, n2, n3),
                         T(R(2) ? I32 : GGML_TYPE_I64, ids, R(2) ? n2 : 1, 1, 1));
}

OP(diag)
{
    int64_t n = dim(d);
    switch (R(5)) {
    case 0:
        return ggml_diag(c, T(F32, n, 1, dim(d), 2));
    case 1:
        return ggml_diag_mask_inf(c, T(F32, n, dim(d), dim(d), 1), R(3));
    case 2:
        return ggml_diag_mask_zero_inplace(c, T(F32, n, dim(d), dim(d), 2), R(3));
    case 3:
        return ggml_tri(c, T(F32, n, n, dim(d), 1), (enum ggml_tri_type)R(4));
    default:
        return ggml_solve_tri(c, T(F32, n, n, 2, 1), T(F32, dim(d), n, 2, 1), 1, 1, 0);
    }
}

OP(soft_max)
{
    int64_t n0 = dim(d), n1 = dim(d), n2 = dim(d), n3 = R(2) + 1;
    struct ggml_tensor *a = T(F32, n0, n1, n2, n3);
    if (R(4) == 0)
        return ggml_soft_max_ext_back(c, a, T(F32, n0, n1, n2, n3), 1, 0);
    struct ggml_tensor *mask =
        R(3) ? T(R(2) ? F32 : GGML_TYPE_F16, n0, n1 + R(2), R(2) ? n2 : 1, 1) : NULL;
    struct ggml_tensor *t = ggml_soft_max_ext(c, a, mask, 0.5f, mask && R(2) ? 1.0f : 0.0f);
    if (R(2))
        ggml_soft_max_add_sinks(t, T(F32, n2, 1, 1, 1));
    return t;
}

OP(rope)
{
    static const int modes[] = {0, 2, 8, 24, 40};
    int mode = modes[R(5)], n_dims = mode == 24 ? 2 * (1 + R(8)) : 2 * R(9);
    int sections[4] = {R(3) + 1, R(3), R(3), R(2)};
    int64_t n0 = mode == 24 ? 2 * n_dims : n_dims + 2 * R(4) + 2 * !n_dims, tokens = dim(d);
    struct ggml_tensor *a = T(R(2) ? F32 : GGML_TYPE_F16, n0, dim(d), tokens, R(2) + 1);
    struct ggml_tensor *pos = T(I32, mode & 8 ? 4 * tokens : tokens, 1, 1, 1);
    struct ggml_tensor *ff = R(2) ? T(F32, n_dims / 2 + R(3) + !n_dims, 1, 1, 1) : NULL;
    if (R(4) == 0)
        return ggml_rope_multi_back(c, a, pos, ff, n_dims, sections, mode, 32, 1e4f, 1, 0, 1, 32,
                                    1);
    return ggml_rope_multi(c, a, pos, ff, n_dims, sections, mode, 32, 1e4f, 1, (float)R(2), 1, 32,
                           1);
}

OP(flash)
{
    enum ggml_type type = R(2) ? GGML_TYPE_F16 : weights(d);
    int64_t dk = row_of(d, type), dv = row_of(d, type), kv = R(8) ? dim(d) : 513;
    int64_t heads = R(3) + 1, rep = R(2) + 1, n = R(4) ? dim(d) : 64, n3 = R(2) + 1;
    struct ggml_tensor *mask = R(2) ? T(GGML_TYPE_F16, kv, n, R(2) ? heads * rep : 1, 1) : NULL;
    struct ggml_tensor *t =
        ggml_flash_attn_ext(c, T(F32, dk, n, heads * rep, n3), T(type, dk, kv, heads, n3),
                            T(type, dv, kv, heads, n3), mask, 1, mask && R(2), R(2) ? 0 : 10);
    if (R(2))
        ggml_flash_attn_ext_add_sinks(t, T(F32, heads * rep, 1, 1, 1));
    return t;
}

OP(ssm)
{
    if (R(3) == 0) {
        int64_t k = dim(d), inner = dim(d);
        return ggml_ssm_conv(c, T(F32, k - 1 + dim(d), inner, R(3) + 1, 1), T(F32, k, inner, 1, 1));
    }
    int64_t state = dim(d), head = dim(d), groups = R(2) + 1, heads = groups * (R(3) + 1),
            tokens = dim(d), seqs = R(3) + 1, k = R(3) ? 1 : 3;
    return ggml_ssm_scan(c, T(F32, state, head, heads, seqs + R(2)),
                         T(F32, head, heads, tokens, seqs), T(F32, heads, tokens, seqs, 1),
                         T(F32, k > 1 || R(2) ? 1 : state, heads, 1, 1),
                         T(F32, state, groups, tokens, seqs), T(F32, state, groups, tokens, seqs),
                         T(I32, seqs, 1, 1, 1), k);
}

OP(rwkv)
{
    int64_t s = dim(d), h = R(4) + 1, seqs = R(3) + 1, tokens = seqs * (R(3) + 1);
#define STREAM T(F32, s, h, tokens, 1)
    struct ggml_tensor *state = T(F32, s * s * h, seqs, 1, 1);
    switch (R(3)) {
    case 0:
        return ggml_rwkv_wkv6(c, STREAM, STREAM, STREAM, T(F32, s, h, 1, 1), STREAM, state);
    case 1:
        return ggml_gated_linear_attn(c, STREAM, STREAM, STREAM, STREAM, state, 1);
    default:
        return ggml_rwkv_wkv7(c, STREAM, STREAM, STREAM, STREAM, STREAM, STREAM, state);
    }
}

OP(delta)
{
    int64_t s = dim(d), hk = R(3) + 1, h = hk * (R(2) + 1), tokens = dim(d), seqs = R(2) + 1;
    return ggml_gated_delta_net(c, T(F32, s, hk, tokens, seqs), T(F32, s, hk, tokens, seqs),
                                T(F32, s, h, tokens, seqs), T(F32, R(2) ? 1 : s, h, tokens, seqs),
                                T(F32, 1, h, tokens, seqs), T(F32, s, s, h, seqs), R(4) + 1);
}

OP(deepseek)
{
    int64_t n = dim(d), tokens = dim(d), hc = R(4) + 1, heads = dim(d), kv = dim(d);
    switch (R(5)) {
    case 0:
        return ggml_lightning_indexer(c, T(F32, n, heads, tokens, 1), T(GGML_TYPE_F16, n, 1, kv, 1),
                                      T(F32, heads, tokens, 1, 1),
                                      T(GGML_TYPE_F16, kv, tokens, 1, 1));
    case 1:
        return ggml_dsv4_hc_comb(c, T(F32, 24, tokens, 1, 1), T(F32, 3, 1, 1, 1),
                                 T(F32, 24, 1, 1, 1), 1e-6f, 1 + R(4));
    case 2:
        return ggml_dsv4_hc_pre(c, T(F32, n, hc, tokens, 1), T(F32, hc, tokens, 1, 1));
    case 3:
        return ggml_dsv4_hc_pre_gated(c, T(F32, n, hc, tokens, 1), T(F32, n, hc, tokens, 1), 1);
    default:
        return ggml_dsv4_hc_post(c, T(F32, n, tokens, 1, 1), T(F32, n, hc, tokens, 1),
                                 T(F32, hc, tokens, 1, 1), R(2) ? T(F32, hc, hc, tokens, 1) : NULL);
    }
}

OP(conv)
{
    enum ggml_type kt = R(2) ? F32 : GGML_TYPE_F16;
    int64_t kw = R(4) + 1, kh = R(4) + 1, in = dim(d), out = dim(d), n = R(2) + 1;
    int64_t w = kw + dim(d), h = kh + dim(d);
    int s = R(3) + 1, p = R(3), dl = R(2) + 1;
    struct ggml_tensor *image = T(F32, w, h, in, n);
    switch (R(10)) {
    case 0:
        return ggml_conv_2d_direct(c, T(kt, kw, kh, in, out), image, s, s, p, p, dl, dl);
    case 1:
        return ggml_conv_2d_dw_direct(c, T(kt, kw, kh, 1, in), image, s, s, p, p, dl, dl);
    case 2:
        return ggml_conv_transpose_2d_p0(c, T(kt, kw, kh, out, in), T(F32, w, h, in, 1), s);
    case 3:
        return ggml_conv_transpose_1d(c, T(kt, kw, out, in, 1), T(F32, w, in, 1, 1), s, 0, 1);
    case 4:
        return ggml_im2col(c, T(kt, kw, kh, in, out), image, s, s, p, p, dl, dl, 1,
                           R(2) ? F32 : GGML_TYPE_F16);
    case 5:
        return ggml_im2col(c, T(kt, kw, in, out, 1), T(F32, w, in, n, 1), s, 0, p, 0, dl, 0, 0,
                           R(2) ? F32 : GGML_TYPE_F16);
    case 6: {
        int64_t ne[4] = {w, h, in, n};
        struct ggml_tensor *k = T(kt, kw, kh, in, out);
        struct ggml_tensor *columns = ggml_im2col(c, k, image, s, s, p, p, dl, dl, 1, F32);
        columns = T(F32, columns->ne[0], columns->ne[1], columns->ne[2], columns->ne[3]);
        return ggml_im2col_back(c, columns, k, ne, s, s, p, p, dl, dl, 1);
    }
    case 7:
        return ggml_im2col_3d(c, T(kt, kw, kh, 2, 2 * in), T(F32, w, h, 4, in * n), in, s, s, s, p,
                              p, p, dl, dl, dl, R(2) ? F32 : GGML_TYPE_F16);
    case 8:
        return ggml_conv_3d_direct(c, T(kt, kw, kh, 2, in * 2), T(F32, w, h, 4, in * n), s, s, s, p,
                                   p, p, dl, dl, dl, (int)in, (int)n, 2);
    default:
        return ggml_col2im_1d(c, T(floats(d), out * kw, w, 1, 1), s, (int)out, R(2));
    }
}

OP(pool)
{
    struct ggml_tensor *a = T(R(2) ? F32 : GGML_TYPE_F16, dim(d) + 3, dim(d) + 3, dim(d), R(2) + 1);
    int k = R(3) + 1, s = R(3) + 1, p = R(2);
    enum ggml_op_pool op = (enum ggml_op_pool)R(2);
    switch (R(3)) {
    case 0:
        return ggml_pool_1d(c, a, op, k, s, p);
    case 1:
        return ggml_pool_2d(c, a, op, k, k, s, s, (float)p, (float)p);
    default: {
        struct ggml_tensor *f = ggml_pool_2d(c, a, op, k, k, s, s, (float)p, (float)p);
        return ggml_pool_2d_back(c, T(F32, f->ne[0], f->ne[1], f->ne[2], f->ne[3]),
                                 T(F32, a->ne[0], a->ne[1], a->ne[2], a->ne[3]), op, k, k, s, s,
                                 (float)p, (float)p);
    }
    }
}

OP(sizes)
{
    struct ggml_tensor *a = T(F32, dim(d), dim(d), dim(d), R(2) + 1);
    switch (R(9)) {
    case 0:
        return ggml_interpolate(c, a, a->ne[0] * 2, dim(d), a->ne[2], a->ne[3],
                                (uint32_t)R(3) |
                                    (R(2) ? (uint32_t)GGML_SCALE_FLAG_ALIGN_CORNERS : 0));
    case 1:
        return ggml_interpolate(c, a, dim(d), dim(d), dim(d), a->ne[3],
                                (uint32_t)GGML_SCALE_MODE_BILINEAR | GGML_SCALE_FLAG_ANTIALIAS);
    case 2:
        return ggml_pad_ext(c, a, R(3), R(3), R(3), R(3), R(3), R(3), R(2), R(2));
    case 3:
        return ggml_pad_ext_circular(c, a, R(3), R(3), R(3), R(3), R(3), R(3), R(2), R(2));
    case 4:
        return ggml_pad_reflect_1d(c, a, R(4), R(4));
    case 5:
        return ggml_roll(c, a, R(3) - 1, R(3) - 1, R(3) - 1, 0);
    case 6:
        return ggml_arange(c, 0, (float)dim(d), R(2) ? 1.0f : 0.5f);
    case 7:
        return ggml_timestep_embedding(c, T(F32, dim(d), 1, 1, 1), (int)dim(d), 1000);
    default:
        return R(2) ? ggml_argsort(c, a, (enum ggml_sort_order)R(2))
                    : ggml_top_k(c, a, 1 + R((uint32_t)a->ne[0]));
    }
}

OP(sam)
{
    int64_t n = dim(d), w = R(4) + 1, h = R(4) + 1, b = R(3) + 1;
    switch (R(4)) {
    case 0:
        return ggml_win_part(c, T(F32, n, dim(d), dim(d), 1), (int)w);
    case 1: {
        int64_t w0 = dim(d), h0 = dim(d);
        int64_t parts = ((w0 + w - 1) / w) * ((h0 + w - 1) / w);
        return ggml_win_unpart(c, T(F32, n, w, w, parts), (int)w0, (int)h0, (int)w);
    }
    case 2:
        return ggml_get_rel_pos(c, T(GGML_TYPE_F16, n, 2 * w - 1, 1, 1), (int)w, (int)w);
    default:
        return ggml_add_rel_pos(c, T(F32, w * w, h * h, b, 1), T(F32, w, h, h, b),
                                T(F32, w, h, h, b));
    }
}

OP(glu)
{
    struct ggml_tensor *a = T(floats(d), 2 * dim(d), dim(d), dim(d), R(2) + 1);
    enum ggml_glu_op op = (enum ggml_glu_op)R(GGML_GLU_OP_COUNT);
    return R(2) ? ggml_glu(c, a, op, R(2))
                : ggml_glu_split(c, a, T(a->type, a->ne[0], a->ne[1], a->ne[2], a->ne[3]), op);
}

OP(train)
{
    int64_t n0 = dim(d), n1 = dim(d), n2 = dim(d);
#define SAME T(F32, n0, n1, n2, 1)
    struct ggml_tensor *a = SAME;
    switch (R(4)) {
    case 0:
        return ggml_cross_entropy_loss(c, a, SAME);
    case 1:
        return ggml_cross_entropy_loss_back(c, T(F32, 1, 1, 1, 1), a, SAME);
    case 2:
        ggml_set_param(a);
        return ggml_opt_step_adamw(c, a, SAME, SAME, SAME, T(F32, 7, 1, 1, 1));
    default:
        ggml_set_param(a);
        return ggml_opt_step_sgd(c, a, SAME, T(F32, 2, 1, 1, 1));
    }
}

static struct ggml_tensor *(*const ops[])(struct ggml_context *, struct dice *) = {
    op_unary,    op_math,          op_arith,    op_add_id,     op_window,   op_argmax, op_repeat,
    op_concat,   op_norm,          op_mul_mat,  op_mul_mat_id, op_out_prod, op_cpy,    op_views,
    op_get_rows, op_get_rows_back, op_set_rows, op_diag,       op_soft_max, op_rope,   op_flash,
    op_ssm,      op_rwkv,          op_delta,    op_deepseek,   op_conv,     op_pool,   op_sizes,
    op_sam,      op_glu,           op_train,
};
const unsigned graph_ops_count = sizeof(ops) / sizeof(ops[0]);

struct ggml_tensor *graph_op_make(struct ggml_context *ctx, struct dice *d, unsigned which)
{
    return ops[which % graph_ops_count](ctx, d);
}

/* ---- from ggml's tensors to the wire ------------------------------------------------------ */

static uint32_t scene_leaf(struct graph_scene *s, const struct ggml_tensor *t)
{
    for (uint32_t i = 0; i < s->g.n_tensors; i++) {
        if (s->from[i] == t)
            return i;
    }
    uint32_t at = s->g.n_tensors++;
    struct apir_tensor *out = &s->tensors[at];
    *out = sample_tensor(APIR_TENSOR_BUFFER, APIR_NO_NAME);
    out->type = (uint8_t)t->type;
    out->flags = (uint8_t)(t->flags & APIR_TENSOR_FLAG_PARAM);
    out->buffer = at;
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        out->ne[i] = t->ne[i];
        out->nb[i] = t->nb[i];
    }
    s->from[at] = t;
    return at;
}

void graph_scene_make(struct graph_scene *s, const struct ggml_tensor *t)
{
    *s = (struct graph_scene){.g = {.n_names = 1, .n_buffers = GRAPH_SCENE_MAX, .n_nodes = 1}};
    s->g.names = s->names;
    s->g.buffers = s->buffers;
    s->g.tensors = s->tensors;
    snprintf(s->names[0].name, sizeof(s->names[0].name), "%s", ggml_op_name(t->op));
    for (uint32_t i = 0; i < GRAPH_SCENE_MAX; i++)
        s->buffers[i] = (struct apir_graph_buffer){i + 1, i == 0 ? 1 : 2};
    uint32_t src[APIR_TENSOR_SRC];
    struct ggml_tensor self = *t; /* ggml_cast() makes a result its own source */
    for (int i = 0; i < APIR_TENSOR_SRC; i++)
        src[i] = t->src[i] ? scene_leaf(s, t->src[i] == t ? &self : t->src[i]) : APIR_NO_TENSOR;
    uint32_t view = t->view_src ? scene_leaf(s, t->view_src) : APIR_NO_TENSOR;
    uint32_t at = scene_leaf(s, t);
    struct apir_tensor *out = &s->tensors[at];
    out->bits |= APIR_TENSOR_NODE | APIR_TENSOR_PARAM;
    out->op = 0;
    memcpy(out->params, t->op_params, sizeof(out->params));
    for (unsigned i = 0; i < APIR_TENSOR_SRC; i++) {
        out->src[i] = src[i];
        if (src[i] != APIR_NO_TENSOR)
            out->n_src = (uint8_t)(i + 1);
    }
    if (t->op == GGML_OP_UNARY || t->op == GGML_OP_GLU) {
        bool unary = t->op == GGML_OP_UNARY;
        s->g.n_names = 2;
        s->names[1].kind = unary ? APIR_NAME_UNARY : APIR_NAME_GLU;
        snprintf(s->names[1].name, sizeof(s->names[1].name), "%s",
                 unary ? ggml_unary_op_name(ggml_get_unary_op(t))
                       : ggml_glu_op_name(ggml_get_glu_op(t)));
        out->sub = 1;
    }
    if (view != APIR_NO_TENSOR) {
        out->bits = (uint8_t)((out->bits & ~APIR_TENSOR_BUFFER) | APIR_TENSOR_VIEW);
        out->view_src = view;
        out->view_offs = t->view_offs;
    }
}
