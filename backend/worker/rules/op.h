/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules of all families share. Private to this folder. */
#ifndef APIR_WORKER_RULES_OP_H
#define APIR_WORKER_RULES_OP_H

#include "backend/worker/rules/rules.h"

/* Wide enough for what the rules add and multiply; see rules_mul(). */
typedef __int128 rules_int;

/* GGUF's type numbers. */
enum {
    RULES_F32 = 0,
    RULES_F16 = 1,
    RULES_Q8_1 = 9,
    RULES_Q8_K = 15,
    RULES_I8 = 24,
    RULES_I16 = 25,
    RULES_I32 = 26,
    RULES_I64 = 27,
    RULES_F64 = 28,
    RULES_BF16 = 30,
};

/* An op with what it refers to. */
struct rules_op {
    const struct apir_tensor *d;                  /* the result */
    const struct apir_tensor *s[APIR_TENSOR_SRC]; /* NULL: absent */
    const char *sub;                              /* UNARY and GLU: which one */
    const struct host_type *types;
    bool cpu;
    struct worker_reach *reach;
};

/* NULL, or what is wrong with the op. */
typedef const char *rules_fn(const struct rules_op *o);

/* Product of two non-negative numbers; what is too large stays too large. */
rules_int rules_mul(rules_int a, rules_int b);
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

/* One function per op that needs more than the table's columns; by family. */
/* backend/worker/rules/basic.c */
rules_fn rules_arith, rules_repeat_b, rules_add_id, rules_add1, rules_acc, rules_set, rules_scalar,
    rules_scale, rules_sum_rows, rules_argmax, rules_count_equal, rules_repeat, rules_repeat_back,
    rules_concat, rules_same_b, rules_eps, rules_group_norm, rules_mul_mat, rules_mul_mat_id,
    rules_out_prod, rules_dup, rules_cpy, rules_cont, rules_reshape, rules_permute, rules_get_rows,
    rules_get_rows_back, rules_set_rows, rules_diag, rules_diag_mask, rules_glu, rules_argsort,
    rules_top_k, rules_tri, rules_unary, rules_cross_entropy, rules_cross_entropy_back, rules_adamw,
    rules_sgd;
/* backend/worker/rules/image.c */
rules_fn rules_conv_transpose_1d, rules_im2col, rules_im2col_back, rules_im2col_3d, rules_col2im_1d,
    rules_conv_2d, rules_conv_3d, rules_conv_2d_dw, rules_conv_transpose_2d, rules_pool_1d,
    rules_pool_2d, rules_pool_2d_back, rules_upscale, rules_pad, rules_pad_reflect, rules_roll,
    rules_arange, rules_timestep, rules_win_part, rules_win_unpart, rules_get_rel_pos,
    rules_add_rel_pos;
/* backend/worker/rules/model.c */
rules_fn rules_soft_max, rules_soft_max_back, rules_rope, rules_flash_attn, rules_ssm_conv,
    rules_ssm_scan, rules_wkv6, rules_gla, rules_wkv7, rules_solve_tri, rules_delta_net,
    rules_indexer, rules_hc_comb, rules_hc_pre, rules_hc_post;

#endif
