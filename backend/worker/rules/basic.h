/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic, norms, products, copies and rows: a function per op that needs more than the columns
 * of its row (backend/worker/rules/rules.c). */
#pragma once

#include "backend/worker/rules/op.h"

rules_fn rules_arith, rules_repeat_b, rules_add_id, rules_add1, rules_acc, rules_set, rules_scale,
    rules_sum_rows, rules_argmax, rules_count_equal, rules_repeat, rules_repeat_back, rules_concat,
    rules_eps, rules_group_norm, rules_mul_mat, rules_mul_mat_id, rules_out_prod, rules_dup,
    rules_cpy, rules_permute, rules_get_rows, rules_get_rows_back, rules_set_rows, rules_diag,
    rules_diag_mask, rules_glu, rules_argsort, rules_top_k, rules_tri, rules_unary,
    rules_cross_entropy_back, rules_adamw, rules_sgd;
