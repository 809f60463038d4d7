/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, recurrences and what single architectures have: a function per op that needs more than
 * the columns of its row (backend/worker/rules/rules.c). */
#pragma once

#include "backend/worker/rules/op.h"

rules_fn rules_soft_max, rules_soft_max_back, rules_rope, rules_flash_attn, rules_ssm_conv,
    rules_ssm_scan, rules_wkv6, rules_gla, rules_wkv7, rules_solve_tri, rules_delta_net,
    rules_indexer, rules_hc_comb, rules_hc_pre, rules_hc_post;
