/* SPDX-License-Identifier: Apache-2.0 */
/* Images and signals: a function per op that needs more than the columns of its row
 * (backend/worker/rules/rules.c). */
#pragma once

#include "backend/worker/rules/op.h"

rules_fn rules_conv_transpose_1d, rules_im2col, rules_im2col_back, rules_im2col_3d, rules_col2im_1d,
    rules_conv_2d, rules_conv_3d, rules_conv_2d_dw, rules_conv_transpose_2d, rules_pool_1d,
    rules_pool_2d, rules_pool_2d_back, rules_upscale, rules_pad, rules_pad_reflect, rules_roll,
    rules_arange, rules_timestep, rules_win_part, rules_win_unpart, rules_get_rel_pos,
    rules_add_rel_pos;
