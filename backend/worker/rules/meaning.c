/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/rules/meaning.h"

#include <stddef.h>
#include <string.h>

#include "backend/worker/rules/op.h"
#include "protocol/gguf.h"

typedef bool meaning_fn(const struct rules_op *o);

static bool pads_before(const struct rules_op *o)
{
    return P(0) || P(2) || P(4) || P(6);
}

static bool pads_in_a_circle(const struct rules_op *o)
{
    return P(8) != 0;
}

/* By something else than the nearest or a straight line; or with flags, in the higher bits. */
static bool scales_otherwise(const struct rules_op *o)
{
    return P(0) < 0 || P(0) > 1;
}

static bool turns_interleaved(const struct rules_op *o)
{
    return P(2) == 40;
}

static bool turns_at_an_offset(const struct rules_op *o)
{
    return P(15) != 0;
}

static bool sets_by_i32(const struct rules_op *o)
{
    return S1 && S1->type == APIR_TYPE_I32;
}

static bool sets_from_f16(const struct rules_op *o)
{
    return S0 && S0->type == APIR_TYPE_F16;
}

static bool keeps_states(const struct rules_op *o)
{
    return P(0) > 1;
}

static bool has_third_source(const struct rules_op *o)
{
    return S2;
}

static bool has_fifth_source(const struct rules_op *o)
{
    return S4;
}

static bool has_precision_of_source(const struct rules_op *o)
{
    return P(3) != 0;
}

/*
 * In which its sums are to be: nothing (0), or the number of F32 or, since there is
 * ggml_prec_set_acc, of another type. F32 was 1 before April 25, 2025, which no other type has
 * become: either number says F32, whichever ggml the guest has.
 */
enum { F32_ONCE = 1, F32_SINCE = 10 };

static bool is_f32(int32_t precision)
{
    return precision == F32_ONCE || precision == F32_SINCE;
}

/* Which parameter that is; -1: the op has none. */
static int precision_at(const char *op)
{
    if (strcmp(op, "MUL_MAT") == 0 || strcmp(op, "MUL_MAT_ID") == 0)
        return 0;
    return strcmp(op, "FLASH_ATTN_EXT") == 0 ? 3 : -1;
}

static bool has_other_precision(const struct rules_op *o)
{
    int32_t precision = P(precision_at(o->op));
    return precision != 0 && !is_f32(precision);
}

static bool joins_blocks(const struct rules_op *o)
{
    switch (D->type) {
    case APIR_TYPE_F32:
    case APIR_TYPE_F16:
    case APIR_TYPE_BF16:
    case APIR_TYPE_I8:
    case APIR_TYPE_I16:
    case APIR_TYPE_I32:
    case APIR_TYPE_I64:
    case APIR_TYPE_F64:
        return false;
    default:
        return true;
    }
}

static bool fills_f16(const struct rules_op *o)
{
    return D->type == APIR_TYPE_F16;
}

enum { ONE = 0x3f800000 /* 1.0f */ };

static bool is_gated_or_scaled(const struct rules_op *o)
{
    return P(1) != 0 || (P(0) != 0 && P(0) != ONE);
}

static bool has_no_fourth_source(const struct rules_op *o)
{
    return !S3;
}

static bool is_gelu_of_bf16(const struct rules_op *o)
{
    return o->sub && strncmp(o->sub, "GELU", 4) == 0 && D->type == APIR_TYPE_BF16;
}

static bool is_glu_of_others(const struct rules_op *o)
{
    return D->type == APIR_TYPE_BF16 ||
           (D->type == APIR_TYPE_F16 && o->sub && strcmp(o->sub, "SWIGLU_OAI") == 0);
}

static bool pools_over_steps(const struct rules_op *o)
{
    return P(1) != P(2) || P(3) || (S0 && S0->type == APIR_TYPE_F16);
}

static bool adds_a_bias(const struct rules_op *o)
{
    return P(1) != 0;
}

static bool has_f32_kernel(const struct rules_op *o)
{
    return S0 && S0->type == APIR_TYPE_F32;
}

static bool has_f16_kernel(const struct rules_op *o)
{
    return S0 && S0->type == APIR_TYPE_F16;
}

static bool has_columns_of_f16(const struct rules_op *o)
{
    return D->type == APIR_TYPE_F16 && has_f32_kernel(o);
}

/* The second operand is repeated, and its numbers do not lie side by side. */
static bool broadcasts_strided(const struct rules_op *o)
{
    const struct apir_tensor *b = S1;
    return b && b->nb[0] != (b->type == APIR_TYPE_F32 ? 4 : 2) &&
           memcmp(b->ne, D->ne, sizeof(b->ne)) != 0;
}

/* llama.cpp used to pad a mask to a multiple of 64 rows, of which each query takes one. */
static bool has_unpadded_mask(const struct rules_op *o)
{
    const struct apir_tensor *q = S0, *mask = S3;
    return q && mask && (mask->ne[1] % 64 != 0 || mask->ne[1] < q->ne[1]);
}

/*
 * A meaning and what tells of it: a function that came with it, or a later one (a host from in
 * between leaves the op to the guest for nothing).
 */
struct meaning {
    const char *op;
    meaning_fn *asks; /* NULL: the op itself */
    const char *since;
};

static const struct meaning meanings[] = {
    {"SOFT_MAX", has_third_source, "ggml_soft_max_add_sinks"},
    {"FLASH_ATTN_EXT", has_fifth_source, "ggml_flash_attn_ext_add_sinks"},
    {"PAD", pads_before, "ggml_pad_ext"},
    {"ROPE", turns_interleaved, "ggml_cumsum"},
    {"ROPE_BACK", turns_interleaved, "ggml_cumsum"},
    {"SET_ROWS", sets_by_i32, "ggml_cumsum"},
    {"PAD", pads_in_a_circle, "ggml_pad_ext_circular"},
    {"UPSCALE", scales_otherwise, "ggml_build_forward_select"},
    /* Before 0.15 the number of states was no parameter, and states had another shape. */
    {"GATED_DELTA_NET", NULL, "ggml_rope_set_offset"},
    {"SET_ROWS", sets_from_f16, "ggml_rope_set_offset"},
    {"SSM_SCAN", keeps_states, "ggml_rope_set_offset"},
    {"ROPE", turns_at_an_offset, "ggml_rope_set_offset"},
    {"ROPE_BACK", turns_at_an_offset, "ggml_rope_set_offset"},
    {"CONCAT", joins_blocks, "ggml_rope_set_offset"},
    {"FILL", fills_f16, "ggml_rope_set_offset"},
    {"CONV_2D_DW", has_f16_kernel, "ggml_rope_set_offset"},
    {"DSV4_HC_PRE", is_gated_or_scaled, "ggml_dsv4_hc_pre_gated"},
    {"DSV4_HC_POST", has_no_fourth_source, "ggml_dsv4_hc_pre_gated"},
    /* F32 was all that there was beside the default, and sources had none. */
    {"MUL_MAT", has_other_precision, "ggml_prec_set_acc"},
    {"MUL_MAT", has_precision_of_source, "ggml_prec_set_acc"},
    {"MUL_MAT_ID", has_other_precision, "ggml_prec_set_acc"},
    {"MUL_MAT_ID", has_precision_of_source, "ggml_prec_set_acc"},
    {"FLASH_ATTN_EXT", has_other_precision, "ggml_prec_set_acc"},
};

/* Where the CPU backend has no kernel, and aborts; or one that is wrong. */
static const struct meaning cpu_kernels[] = {
    {"POOL_1D", pools_over_steps, "ggml_build_forward_select"},
    /* With AVX2 and without AVX-512 that of node-llama-cpp 3.13.0 computes something else. */
    {"SCALE", adds_a_bias, "ggml_build_forward_select"},
    {"ADD", broadcasts_strided, "ggml_build_forward_select"},
    {"SUB", broadcasts_strided, "ggml_build_forward_select"},
    {"MUL", broadcasts_strided, "ggml_build_forward_select"},
    {"DIV", broadcasts_strided, "ggml_build_forward_select"},
    {"CONV_TRANSPOSE_2D", has_f32_kernel, "ggml_rope_set_offset"},
    {"IM2COL", has_columns_of_f16, "ggml_rope_set_offset"},
    {"IM2COL_3D", has_columns_of_f16, "ggml_rope_set_offset"},
    {"UNARY", is_gelu_of_bf16, "ggml_backend_buft_alloc_buffer_n"},
    {"GLU", is_glu_of_others, "ggml_backend_buft_alloc_buffer_n"},
};

/* What GPU backends abort over: Vulkan's of 2025 does, and the others' of that time are taken for
 * alike. */
static const struct meaning gpu_kernels[] = {
    {"FLASH_ATTN_EXT", has_unpadded_mask, "ggml_build_forward_select"},
};

static bool all_known(const struct meaning *table, size_t n, const struct worker_meaning *m,
                      const struct rules_op *o)
{
    for (size_t i = 0; i < n; i++) {
        if (apir_name_is(o->op, table[i].op) && (!table[i].asks || table[i].asks(o)) &&
            !m->has(m->data, table[i].since))
            return false;
    }
    return true;
}

#define ALL_KNOWN(table) all_known(table, sizeof(table) / sizeof(table[0]), m, &o)

/* ggml_l2_norm came five weeks before the new number of F32, ggml_opt_alloc two weeks after it. */
void worker_meaning_init(struct worker_meaning *m, meaning_has *has, const void *data)
{
    *m = (struct worker_meaning){.has = has, .data = data};
    if (has(data, "ggml_opt_alloc"))
        m->f32 = F32_SINCE;
    else if (!has(data, "ggml_l2_norm"))
        m->f32 = F32_ONCE;
}

bool worker_meaning_is_known(const struct worker_meaning *m, const struct apir_graph *g,
                             uint32_t index, bool cpu)
{
    const struct rules_op o = rules_op_of(g, &g->tensors[index]);
    const int at = precision_at(o.op);
    if (m->f32 == 0 && at >= 0 && is_f32(o.d->params[at]))
        return false;
    return ALL_KNOWN(meanings) && (cpu ? ALL_KNOWN(cpu_kernels) : ALL_KNOWN(gpu_kernels));
}

void worker_meaning_complete(const struct worker_meaning *m, const char *op, int32_t *params)
{
    int at = precision_at(op);
    if (at >= 0 && is_f32(params[at]) && m->f32 != 0)
        params[at] = m->f32;
    /* There was no scale before 0.25, which is one of 1; a newer guest says so. */
    if (strcmp(op, "DSV4_HC_PRE") == 0 && params[0] == 0)
        params[0] = ONE;
}
