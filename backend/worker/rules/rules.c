/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/rules/rules.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "backend/worker/rules/basic.h"
#include "backend/worker/rules/image.h"
#include "backend/worker/rules/model.h"

/*
 * A row per op. CUSTOM and MAP_CUSTOM1 to 3 are absent on purpose: their
 * parameters are function pointers. FLASH_ATTN_BACK is: ggml's own builder
 * refuses to make one.
 *
 *   sources  how many must be there (counted from the first), how many there may be
 *   types    a letter for the result, then one per source; missing ones are '*'
 *              f F32   h F16   2 F32 F16   3 F32 F16 BF16   i I32   l I64   j I32 I64
 *              q 3 or quantised   0 that of source 0   * any
 *   layout   the same for strides, a word per tensor
 *            what builders make or assert, for every device:
 *              N packed in every dimension (a new tensor)
 *              V that, or the strides of source 0 (the op in place)
 *              C ggml_is_contiguous   1 ggml_is_contiguous_1   R ggml_is_contiguous_rows
 *            what the CPU's kernels assert:
 *              e nb[0] is an element   c contiguous   w ggml_is_contiguous_rows
 *            how the CPU's kernels walk it, whatever its strides say:
 *              p all elements packed   r rows nb[1] apart, those of dimension 2 and 3 too
 *   shape    S: the result has the shape of source 0
 *            L: dimension 0 may be larger than an int
 *            0: sources may be empty where the result is not
 *            B: source 1 has the shape of source 0
 *            E: the result has as many elements as source 0   1: it has one
 *   check    the rest, see the other files here
 */
struct rule {
    const char *op;
    uint8_t min_src;
    uint8_t max_src;
    const char *types;
    const char *layout;
    const char *shape;
    rules_fn *check;
};

static const struct rule rules[] = {
    {"NONE", 0, 0, "*", ".", "", NULL},
    /* views: nothing is computed; where they lie is checked by the bounds of their buffer */
    {"RESHAPE", 1, 1, "0*", ". C", "E", NULL},
    {"VIEW", 1, 1, "0*", ".", "", NULL},
    {"PERMUTE", 1, 1, "0*", ".", "", rules_permute},
    {"TRANSPOSE", 1, 1, "0*", ".", "", NULL},
    /* element by element */
    {"DUP", 1, 2, "0*", "V", "SL", rules_dup},
    {"ADD", 2, 2, "qqq", "V", "S", rules_arith},
    {"ADD_ID", 3, 3, "fffi", "Ve e e .", "S", rules_add_id},
    {"ADD1", 2, 2, "0q3", "Ve e", "S", rules_add1},
    {"ACC", 2, 2, "fff", "V C e", "S0", rules_acc},
    {"SUB", 2, 2, "333", "Ve e", "S", rules_repeat_b},
    {"MUL", 2, 2, "333", "Ve e", "S", rules_repeat_b},
    {"DIV", 2, 2, "333", "Ve e", "S", rules_repeat_b},
    {"SQR", 1, 1, "03", "Ve e", "S", NULL},
    {"SQRT", 1, 1, "03", "Ve e", "S", NULL},
    {"LOG", 1, 1, "03", "Ve e", "S", NULL},
    {"SIN", 1, 1, "03", "Ve e", "S", NULL},
    {"COS", 1, 1, "03", "Ve e", "S", NULL},
    {"SCALE", 1, 1, "03", "Vcr cr", "S", rules_scale},
    {"SET", 2, 2, "000", "Vc c e", "S0", rules_set},
    {"CPY", 2, 2, "***", ".", "L", rules_cpy},
    {"CONT", 1, 1, "0*", "N", "EL", rules_dup},
    {"CLAMP", 1, 1, "02", "Ver er", "S", NULL},
    {"LEAKY_RELU", 1, 1, "02", "Ver er", "S", NULL},
    {"FILL", 1, 1, "02", "V C", "S", NULL},
    {"TRI", 1, 1, "ff", "V C", "S", rules_tri},
    {"SILU_BACK", 2, 2, "022", "Ver er er", "SB", NULL},
    {"UNARY", 1, 1, "03", "Ve we", "S", rules_unary},
    {"GLU", 1, 2, "030", "Nr 1er 1er", "", rules_glu},
    /* rows */
    {"SUM", 1, 1, "03", "N", "01", NULL},
    {"SUM_ROWS", 1, 1, "03", "N e", "0", rules_sum_rows},
    {"CUMSUM", 1, 1, "ff", "Ve e", "S", NULL},
    {"MEAN", 1, 1, "ff", "N e", "0", rules_sum_rows},
    {"ARGMAX", 1, 1, "if", "N e", "", rules_argmax},
    {"COUNT_EQUAL", 2, 2, "lii", "N", "0B1", rules_count_equal},
    {"REPEAT", 1, 2, "0*", "N e", "", rules_repeat},
    {"REPEAT_BACK", 1, 2, "ff", "N e", "", rules_repeat_back},
    {"CONCAT", 2, 2, "0*0", "N", "0", rules_concat},
    {"NORM", 1, 1, "ff", "Ve", "S", rules_eps},
    {"RMS_NORM", 1, 1, "ff", "Ve e", "S", rules_eps},
    {"RMS_NORM_BACK", 2, 2, "fff", "Ve e e", "SB", NULL},
    {"GROUP_NORM", 1, 1, "ff", "Ve e", "S", rules_group_norm},
    {"L2_NORM", 1, 1, "ff", "Ve", "S", rules_eps},
    {"GET_ROWS", 2, 2, "**i", "N e", "", rules_get_rows},
    {"GET_ROWS_BACK", 2, 3, "f2i*", "N e cp", "0", rules_get_rows_back},
    {"SET_ROWS", 2, 3, "*2j*", ". R", "0", rules_set_rows},
    {"DIAG", 1, 1, "ff", "N e", "", rules_diag},
    {"DIAG_MASK_INF", 1, 1, "ff", "Ve e", "S", rules_diag_mask},
    {"DIAG_MASK_ZERO", 1, 1, "ff", "Ve e", "S", rules_diag_mask},
    {"ARGSORT", 1, 1, "if", "Nr er", "S", rules_argsort},
    {"TOP_K", 1, 1, "if", "Nr er", "", rules_top_k},
    /* products */
    {"MUL_MAT", 2, 2, "fqq", "N e e", "0", rules_mul_mat},
    {"MUL_MAT_ID", 3, 3, "fqqi", "N e e", "0", rules_mul_mat_id},
    {"OUT_PROD", 2, 2, "fqq", "N e", "0", rules_out_prod},
    /* attention and recurrences */
    {"SOFT_MAX", 1, 3, "0f2f", "Vc C C p", "S", rules_soft_max},
    {"SOFT_MAX_BACK", 2, 2, "fff", "Vcr cr cr", "SB", rules_soft_max_back},
    {"ROPE", 2, 3, "02if", "Ve e p p", "S", rules_rope},
    {"ROPE_BACK", 2, 3, "02if", "Ve e p p", "S", rules_rope},
    {"FLASH_ATTN_EXT", 3, 5, "ffqqhf", "N e e e C p", "", rules_flash_attn},
    {"SSM_CONV", 2, 2, "fff", "N e ep", "", rules_ssm_conv},
    {"SSM_SCAN", 6, 7, "fffffffi", "N Cep e Ce Cep e e ep", "", rules_ssm_scan},
    {"RWKV_WKV6", 6, 6, "fffffff", "N Cp Cp Cp Cp Cp Cp", "", rules_wkv6},
    {"GATED_LINEAR_ATTN", 5, 5, "ffffff", "N Cp Cp Cp Cp Cp", "", rules_gla},
    {"RWKV_WKV7", 7, 7, "ffffffff", "N Cp Cp Cp Cp Cp Cp Cp", "", rules_wkv7},
    {"SOLVE_TRI", 2, 2, "fff", "N Cp Cp", "", rules_solve_tri},
    {"GATED_DELTA_NET", 6, 6, "fffffff", "N R R R C C Cp", "", rules_delta_net},
    {"LIGHTNING_INDEXER", 4, 4, "ffqfh", "N e e e e", "", rules_indexer},
    {"DSV4_HC_COMB", 3, 3, "ffff", "N", "", rules_hc_comb},
    {"DSV4_HC_PRE", 2, 3, "ffff", "N", "", rules_hc_pre},
    {"DSV4_HC_POST", 3, 4, "fffff", "N", "", rules_hc_post},
    /* images and signals */
    {"CONV_TRANSPOSE_1D", 2, 2, "f3f", "N e e", "", rules_conv_transpose_1d},
    {"IM2COL", 2, 2, "333", "N . e", "", rules_im2col},
    {"IM2COL_BACK", 2, 2, "ff2", "N p", "", rules_im2col_back},
    {"IM2COL_3D", 2, 2, "333", "N . e", "", rules_im2col_3d},
    {"COL2IM_1D", 1, 2, "03", "N C", "", rules_col2im_1d},
    {"CONV_2D", 2, 2, "f2f", "N cp", "0", rules_conv_2d},
    {"CONV_3D", 2, 2, "f2f", "N cp", "0", rules_conv_3d},
    {"CONV_2D_DW", 2, 2, "f2f", "p p p", "", rules_conv_2d_dw},
    {"CONV_TRANSPOSE_2D", 2, 2, "f2f", "N e e", "", rules_conv_transpose_2d},
    {"POOL_1D", 1, 1, "f2", "Nr r", "", rules_pool_1d},
    {"POOL_2D", 1, 1, "f2", "N", "", rules_pool_2d},
    {"POOL_2D_BACK", 2, 2, "2f0", "N p p", "", rules_pool_2d_back},
    {"UPSCALE", 1, 1, "ff", "N", "", rules_upscale},
    {"PAD", 1, 1, "03", "N", "", rules_pad},
    {"PAD_REFLECT_1D", 1, 1, "ff", "N C", "", rules_pad_reflect},
    {"ROLL", 1, 1, "ff", "V e", "S", rules_roll},
    {"ARANGE", 0, 0, "f", "N", "", rules_arange},
    {"TIMESTEP_EMBEDDING", 1, 1, "ff", "N e", "", rules_timestep},
    {"WIN_PART", 1, 1, "ff", "N p", "", rules_win_part},
    {"WIN_UNPART", 1, 1, "ff", "N p", "", rules_win_unpart},
    {"GET_REL_POS", 1, 1, "h3", "N p", "", rules_get_rel_pos},
    {"ADD_REL_POS", 3, 3, "ffff", "Vp Cp Cp Cp", "S", rules_add_rel_pos},
    /* training */
    {"CROSS_ENTROPY_LOSS", 2, 2, "fff", "N er er", "B1", NULL},
    {"CROSS_ENTROPY_LOSS_BACK", 3, 3, "ffff", "Nr p cr cr", "", rules_cross_entropy_back},
    {"OPT_STEP_ADAMW", 5, 5, "ffffff", "V e . . . p", "SB", rules_adamw},
    {"OPT_STEP_SGD", 3, 3, "ffff", "V e . p", "SB", rules_sgd},
};

/* ---- layout ----------------------------------------------------------------- */

/* As ggml_new_tensor() lays it out: no stride hides in a dimension of 1. */
static bool is_new(const struct rules_op *o, const struct apir_tensor *t)
{
    const struct host_type *type = &o->types[t->type];
    rules_int next = rules_row_size(type, t);
    bool packed = t->nb[0] == type->size;
    for (int i = 1; i < APIR_TENSOR_DIMS; i++) {
        packed = packed && t->nb[i] == next;
        next = rules_mul(next, t->ne[i]);
    }
    return packed;
}

static const char *check_layout_letter(const struct rules_op *o, const struct apir_tensor *t,
                                       int source, char letter)
{
    const struct host_type *type = &o->types[t->type];
    switch (letter) {
    case 'N':
        return is_new(o, t) ? NULL : "op: the result is not packed";
    case 'V':
        return is_new(o, t) || rules_same_strides(t, o->s[0])
                   ? NULL
                   : "op: the result is neither packed nor in place";
    case 'C':
        return rules_contiguous(o, t, 0) ? NULL : "op: a tensor is not contiguous";
    case '1':
        return rules_contiguous(o, t, 1) ? NULL : "op: a tensor has rows that are not in line";
    case 'R':
        return rules_row_is_packed(o, t) ? NULL : "op: a tensor has scattered rows";
    default:
        break;
    }
    if (!o->cpu)
        return NULL;
    switch (letter) {
    case 'e':
        return t->nb[0] == type->size ? NULL : "op: the CPU wants its elements side by side";
    case 'w':
        return rules_row_is_packed(o, t) ? NULL : "op: the CPU wants its elements side by side";
    case 'c':
        return rules_contiguous(o, t, 0) ? NULL : "op: the CPU wants it contiguous";
    case 'p':
        rules_reach(o, source, rules_mul(rules_row_size(type, t), rules_rows(t)));
        break;
    case 'r':
        if (!rules_empty(t))
            rules_reach(o, source,
                        rules_mul(rules_rows(t) - 1, t->nb[1]) + rules_row_size(type, t));
        break;
    default:
        break;
    }
    return NULL;
}

static const char *check_layout(const struct rules_op *o, const char *layout)
{
    int source = -1;
    for (const char *p = layout; *p; p++) {
        const struct apir_tensor *t = source < 0 ? o->d : o->s[source];
        const char *why = NULL;
        if (*p == ' ')
            source++;
        else if (t)
            why = check_layout_letter(o, t, source, *p);
        if (why)
            return why;
    }
    return NULL;
}

/* ---- types ------------------------------------------------------------------ */

static bool type_fits(const struct rules_op *o, const struct apir_tensor *t, char letter)
{
    switch (letter) {
    case 'f':
        return t->type == APIR_TYPE_F32;
    case 'h':
        return t->type == APIR_TYPE_F16;
    case '2':
        return t->type == APIR_TYPE_F32 || t->type == APIR_TYPE_F16;
    case '3':
        return t->type == APIR_TYPE_F32 || t->type == APIR_TYPE_F16 || t->type == APIR_TYPE_BF16;
    case 'i':
        return t->type == APIR_TYPE_I32;
    case 'l':
        return t->type == APIR_TYPE_I64;
    case 'j':
        return t->type == APIR_TYPE_I32 || t->type == APIR_TYPE_I64;
    case 'q':
        return rules_is_weight(t);
    case '0':
        return o->s[0] && t->type == o->s[0]->type;
    default:
        return true;
    }
}

static const char *check_types(const struct rules_op *o, const char *types)
{
    for (int i = 0; types[i]; i++) {
        const struct apir_tensor *t = i == 0 ? o->d : o->s[i - 1];
        if (t && !type_fits(o, t, types[i]))
            return i == 0 ? "op: type of the result" : "op: type of a source";
    }
    return NULL;
}

/* ---- every tensor of an op that computes ---------------------------------------- */

static const char *check_tensor(const struct rules_op *o, const struct apir_tensor *t, bool large)
{
    const struct host_type *type = &o->types[t->type];
    /* Kernels count in int. */
    for (int i = large ? 1 : 0; i < APIR_TENSOR_DIMS; i++) {
        if (t->ne[i] > INT_MAX)
            return "op: a dimension beyond 2^31";
    }
    if (o->cpu && rules_rows(t) > INT_MAX)
        return "op: more rows than the CPU can count";
    /* GPU kernels divide strides by the element's size; blocks have no inside. */
    for (int i = 0; i < APIR_TENSOR_DIMS; i++) {
        if (t->ne[i] > (i == 0 ? (int64_t)type->block : 1) && t->nb[i] % type->size)
            return "op: a stride of broken elements";
    }
    if (type->block > 1 && t->ne[0] > type->block && t->nb[0] != type->size)
        return "op: a row of blocks that are not side by side";
    return NULL;
}

static const char *check_tensors(const struct rules_op *o, const struct rule *rule)
{
    bool large = strchr(rule->shape, 'L');
    const char *why = check_tensor(o, o->d, large);
    for (unsigned i = 0; i < APIR_TENSOR_SRC && !why; i++) {
        if (!o->s[i])
            continue;
        why = check_tensor(o, o->s[i], large);
        if (!why && rules_empty(o->s[i]) && !rules_empty(o->d) && !strchr(rule->shape, '0'))
            why = "op: a source without elements";
    }
    return why;
}

static const char *check_shape(const struct rules_op *o, const char *shape)
{
    return shape_if((!strchr(shape, 'B') || rules_same_shape(S0, S1)) &&
                    (!strchr(shape, 'E') || rules_elements(S0) == rules_elements(D)) &&
                    (!strchr(shape, '1') || rules_elements(D) == 1));
}

/* ---- entry ------------------------------------------------------------------ */

static const struct rule *rule_find(const char *op)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (apir_name_is(op, rules[i].op))
            return &rules[i];
    }
    return NULL;
}

static const char *check_sub_op(const struct apir_graph *g, const struct apir_tensor *t,
                                const char *op)
{
    bool unary = strcmp(op, "UNARY") == 0, glu = strcmp(op, "GLU") == 0;
    if ((unary || glu) != (t->sub != APIR_NO_NAME))
        return "op: a sub-op is due for UNARY and GLU, and for them only";
    if (t->sub != APIR_NO_NAME &&
        g->names[t->sub].kind != (unary ? APIR_NAME_UNARY : APIR_NAME_GLU))
        return "op: sub-op of another kind";
    return NULL;
}

const char *worker_rules_check(const struct apir_graph *g, uint32_t index,
                               const struct host_type *types, bool cpu,
                               struct worker_reach *ret_reach)
{
    const struct apir_tensor *t = &g->tensors[index];
    struct worker_reach reach = {.only_asked = NULL};
    struct rules_op o = rules_op_of(g, t);
    o.types = types;
    o.cpu = cpu;
    o.reach = &reach;
    const struct rule *rule = rule_find(o.op);
    if (!rule)
        return "op: not one that may be computed here";
    if (t->n_src > rule->max_src)
        return "op: too many sources";
    for (unsigned i = 0; i < rule->max_src; i++) {
        if (!o.s[i] && i < rule->min_src)
            return "op: a source is missing";
    }
    const char *why = check_sub_op(g, t, o.op);
    if (!why)
        why = check_types(&o, rule->types);
    if (!why && !apir_op_is_view(o.op))
        why = check_tensors(&o, rule);
    if (!why && strchr(rule->shape, 'S') && !rules_same_shape(t, o.s[0]))
        why = "op: the result has not the shape of its source";
    if (!why)
        why = check_shape(&o, rule->shape);
    if (!why)
        why = check_layout(&o, rule->layout);
    if (!why && rule->check)
        why = rule->check(&o);
    if (!why)
        *ret_reach = reach;
    return why;
}

/* ---- indices ---------------------------------------------------------------- */

int worker_rules_index(const struct apir_graph *g, uint32_t index, int64_t *ret_limit)
{
    /* The dimension of `of` (a source; -1: the result) that bounds the indices. */
    static const struct {
        const char *op;
        int ids, of, dimension;
    } indexed[] = {
        {"GET_ROWS", 1, 0, 1}, {"SET_ROWS", 1, -1, 1},      {"MUL_MAT_ID", 2, 0, 2},
        {"ADD_ID", 2, 1, 1},   {"GET_ROWS_BACK", 1, -1, 1}, {"SSM_SCAN", 6, 0, 3},
    };
    const struct apir_tensor *t = &g->tensors[index];
    if (t->op == APIR_NO_NAME)
        return -1;
    for (size_t i = 0; i < sizeof(indexed) / sizeof(indexed[0]); i++) {
        int ids = indexed[i].ids, of = indexed[i].of;
        if (!apir_name_is(g->names[t->op].name, indexed[i].op) || t->src[ids] == APIR_NO_TENSOR)
            continue;
        const struct apir_tensor *table = of < 0 ? t : &g->tensors[t->src[of]];
        *ret_limit = table->ne[indexed[i].dimension];
        return ids;
    }
    return -1;
}
