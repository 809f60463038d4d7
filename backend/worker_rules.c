/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker_rules.h"

#include <stddef.h>
#include <string.h>

/*
 * Per op: the sources that must be there (counted from the first) and the
 * highest number of sources. CUSTOM, MAP_CUSTOM1 to 3 are absent on purpose:
 * their parameters are function pointers.
 */
struct rule {
    const char *op;
    uint8_t min_src;
    uint8_t max_src;
};

static const struct rule rules[] = {
    { "NONE", 0, 0 },
    { "DUP", 1, 2 },
    { "ADD", 2, 2 },
    { "ADD_ID", 3, 3 },
    { "ADD1", 2, 2 },
    { "ACC", 2, 2 },
    { "SUB", 2, 2 },
    { "MUL", 2, 2 },
    { "DIV", 2, 2 },
    { "SQR", 1, 1 },
    { "SQRT", 1, 1 },
    { "LOG", 1, 1 },
    { "SIN", 1, 1 },
    { "COS", 1, 1 },
    { "SUM", 1, 1 },
    { "SUM_ROWS", 1, 1 },
    { "CUMSUM", 1, 1 },
    { "MEAN", 1, 1 },
    { "ARGMAX", 1, 1 },
    { "COUNT_EQUAL", 2, 2 },
    { "REPEAT", 1, 2 },
    { "REPEAT_BACK", 1, 2 },
    { "CONCAT", 2, 2 },
    { "SILU_BACK", 2, 2 },
    { "NORM", 1, 1 },
    { "RMS_NORM", 1, 1 },
    { "RMS_NORM_BACK", 2, 2 },
    { "GROUP_NORM", 1, 1 },
    { "L2_NORM", 1, 1 },
    { "MUL_MAT", 2, 2 },
    { "MUL_MAT_ID", 3, 3 },
    { "OUT_PROD", 2, 2 },
    { "SCALE", 1, 1 },
    { "SET", 2, 2 },
    { "CPY", 2, 2 },
    { "CONT", 1, 1 },
    { "RESHAPE", 1, 1 },
    { "VIEW", 1, 1 },
    { "PERMUTE", 1, 1 },
    { "TRANSPOSE", 1, 1 },
    { "GET_ROWS", 2, 2 },
    { "GET_ROWS_BACK", 2, 3 },
    { "SET_ROWS", 2, 3 },
    { "DIAG", 1, 1 },
    { "DIAG_MASK_INF", 1, 1 },
    { "DIAG_MASK_ZERO", 1, 1 },
    { "SOFT_MAX", 1, 3 },
    { "SOFT_MAX_BACK", 2, 2 },
    { "ROPE", 2, 3 },
    { "ROPE_BACK", 2, 3 },
    { "CLAMP", 1, 1 },
    { "CONV_TRANSPOSE_1D", 2, 2 },
    { "IM2COL", 2, 2 },
    { "IM2COL_BACK", 2, 2 },
    { "IM2COL_3D", 2, 2 },
    { "COL2IM_1D", 1, 2 },
    { "CONV_2D", 2, 2 },
    { "CONV_3D", 2, 2 },
    { "CONV_2D_DW", 2, 2 },
    { "CONV_TRANSPOSE_2D", 2, 2 },
    { "POOL_1D", 1, 1 },
    { "POOL_2D", 1, 1 },
    { "POOL_2D_BACK", 2, 2 },
    { "UPSCALE", 1, 1 },
    { "PAD", 1, 1 },
    { "PAD_REFLECT_1D", 1, 1 },
    { "ROLL", 1, 1 },
    { "ARANGE", 0, 0 },
    { "TIMESTEP_EMBEDDING", 1, 1 },
    { "ARGSORT", 1, 1 },
    { "TOP_K", 1, 1 },
    { "LEAKY_RELU", 1, 1 },
    { "TRI", 1, 1 },
    { "FILL", 1, 1 },
    { "FLASH_ATTN_EXT", 3, 10 },
    { "FLASH_ATTN_BACK", 4, 4 },
    { "SSM_CONV", 2, 2 },
    { "SSM_SCAN", 6, 7 },
    { "WIN_PART", 1, 1 },
    { "WIN_UNPART", 1, 1 },
    { "GET_REL_POS", 1, 1 },
    { "ADD_REL_POS", 3, 3 },
    { "RWKV_WKV6", 6, 6 },
    { "GATED_LINEAR_ATTN", 5, 5 },
    { "RWKV_WKV7", 7, 7 },
    { "SOLVE_TRI", 2, 2 },
    { "GATED_DELTA_NET", 6, 6 },
    { "LIGHTNING_INDEXER", 4, 4 },
    { "DSV4_HC_COMB", 3, 3 },
    { "DSV4_HC_PRE", 2, 3 },
    { "DSV4_HC_POST", 3, 4 },
    { "UNARY", 1, 1 },
    { "CROSS_ENTROPY_LOSS", 2, 2 },
    { "CROSS_ENTROPY_LOSS_BACK", 3, 3 },
    { "OPT_STEP_ADAMW", 5, 5 },
    { "OPT_STEP_SGD", 3, 3 },
    { "GLU", 1, 2 },
};

const char *worker_rules_check(const struct apir_graph *g, uint32_t index)
{
    const struct apir_tensor *t = &g->tensors[index];
    const char *op = g->names[t->op].name;
    const struct rule *rule = NULL;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && !rule; i++) {
        if (strcmp(rules[i].op, op) == 0)
            rule = &rules[i];
    }
    if (!rule)
        return "op: not one that may be computed here";
    if (t->n_src > rule->max_src)
        return "op: too many sources";
    for (unsigned i = 0; i < rule->min_src; i++) {
        if (t->src[i] == APIR_NO_TENSOR)
            return "op: a source is missing";
    }
    bool unary = strcmp(op, "UNARY") == 0, glu = strcmp(op, "GLU") == 0;
    if ((unary || glu) != (t->sub != APIR_NO_NAME))
        return "op: a sub-op is due for UNARY and GLU, and for them only";
    if (t->sub != APIR_NO_NAME &&
        g->names[t->sub].kind != (unary ? APIR_NAME_UNARY : APIR_NAME_GLU))
        return "op: sub-op of another kind";
    return NULL;
}
