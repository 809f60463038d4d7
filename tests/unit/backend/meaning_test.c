/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/rules/meaning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/gguf.h"

/* data names the function that this host lacks; "" is one that has all. */
static bool has(const void *data, const char *function)
{
    return strcmp(data, function) != 0;
}

static const char all[] = "";

static bool is_known(const struct apir_graph *g, uint32_t index, bool cpu, const char *lacks)
{
    struct worker_meaning m;
    worker_meaning_init(&m, has, lacks);
    return worker_meaning_is_known(&m, g, index, cpu);
}

/* An op with sources of these types; 0: F32, -1: none. */
struct op {
    const char *name, *sub;
    int type, src[5];
    int32_t at, value; /* a parameter */
};

static bool known_to(const struct worker_meaning *m, const struct op *op, bool cpu)
{
    struct apir_name names[2] = {{0}, {.kind = APIR_NAME_GLU}};
    struct apir_tensor tensors[6] = {{0}};
    struct apir_graph g = {.names = names, .n_names = 2, .tensors = tensors, .n_tensors = 6};
    snprintf(names[0].name, sizeof(names[0].name), "%s", op->name);
    snprintf(names[1].name, sizeof(names[1].name), "%s", op->sub ? op->sub : "");
    struct apir_tensor *t = &tensors[5];
    t->type = (uint8_t)op->type;
    t->op = 0;
    t->sub = op->sub ? 1 : APIR_NO_NAME;
    for (unsigned i = 0; i < APIR_TENSOR_SRC; i++)
        t->src[i] = i < 5 && op->src[i] >= 0 ? i : APIR_NO_TENSOR;
    for (unsigned i = 0; i < 5; i++)
        tensors[i].type = (uint8_t)(op->src[i] < 0 ? 0 : op->src[i]);
    t->params[op->at] = op->value;
    return worker_meaning_is_known(m, &g, 5, cpu);
}

static bool known(const struct op *op, bool cpu, const char *lacks)
{
    struct worker_meaning m;
    worker_meaning_init(&m, has, lacks);
    return known_to(&m, op, cpu);
}

#define NO -1

/* Each with what tells of it. */
static const struct {
    struct op op;
    const char *since;
} newer[] = {
    {{"SOFT_MAX", NULL, 0, {0, 0, 0, NO, NO}, 0, 0}, "ggml_soft_max_add_sinks"},
    {{"FLASH_ATTN_EXT", NULL, 0, {0, 1, 1, 1, 0}, 0, 0}, "ggml_flash_attn_ext_add_sinks"},
    {{"FLASH_ATTN_EXT", NULL, 0, {0, 1, 1, 1, NO}, 3, 20}, "ggml_prec_set_acc"},
    {{"PAD", NULL, 0, {0, NO, NO, NO, NO}, 2, 1}, "ggml_pad_ext"},
    {{"PAD", NULL, 0, {0, NO, NO, NO, NO}, 8, 1}, "ggml_pad_ext_circular"},
    {{"ROPE", NULL, 0, {0, 26, NO, NO, NO}, 2, 40}, "ggml_cumsum"},
    {{"ROPE", NULL, 0, {0, 26, NO, NO, NO}, 15, 2}, "ggml_rope_set_offset"},
    {{"SET_ROWS", NULL, 1, {0, APIR_TYPE_I32, NO, NO, NO}, 0, 0}, "ggml_cumsum"},
    {{"SET_ROWS", NULL, 1, {APIR_TYPE_F16, APIR_TYPE_I64, NO, NO, NO}, 0, 0},
     "ggml_rope_set_offset"},
    {{"UPSCALE", NULL, 0, {0, NO, NO, NO, NO}, 0, 2}, "ggml_build_forward_select"},
    {{"UPSCALE", NULL, 0, {0, NO, NO, NO, NO}, 0, 257}, "ggml_build_forward_select"},
    {{"GATED_DELTA_NET", NULL, 0, {0, 0, 0, 0, 0}, 0, 1}, "ggml_rope_set_offset"},
    {{"SSM_SCAN", NULL, 0, {0, 0, 0, 0, 0}, 0, 2}, "ggml_rope_set_offset"},
    {{"CONCAT", NULL, APIR_TYPE_Q8_0, {8, 8, NO, NO, NO}, 0, 0}, "ggml_rope_set_offset"},
    {{"FILL", NULL, APIR_TYPE_F16, {1, NO, NO, NO, NO}, 0, 0}, "ggml_rope_set_offset"},
    {{"CONV_2D_DW", NULL, 0, {APIR_TYPE_F16, 0, NO, NO, NO}, 0, 0}, "ggml_rope_set_offset"},
    {{"DSV4_HC_PRE", NULL, 0, {0, 0, NO, NO, NO}, 1, 1}, "ggml_dsv4_hc_pre_gated"},
    {{"DSV4_HC_PRE", NULL, 0, {0, 0, NO, NO, NO}, 0, 0x40000000}, "ggml_dsv4_hc_pre_gated"},
    {{"DSV4_HC_POST", NULL, 0, {0, 0, 0, NO, NO}, 0, 0}, "ggml_dsv4_hc_pre_gated"},
    {{"MUL_MAT", NULL, 0, {0, 0, NO, NO, NO}, 0, 15}, "ggml_prec_set_acc"},
    {{"MUL_MAT", NULL, 0, {0, 0, NO, NO, NO}, 3, 30}, "ggml_prec_set_acc"},
    {{"MUL_MAT_ID", NULL, 0, {0, 0, 26, NO, NO}, 0, 20}, "ggml_prec_set_acc"},
};

static void newer_parameters_want_a_host_that_knows_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++) {
        assert_true(known(&newer[i].op, false, all));
        if (known(&newer[i].op, false, newer[i].since))
            fail_msg("%s, row %zu", newer[i].op.name, i);
    }
}

/* As every version has them: whatever a host lacks, it computes them. */
static const struct op plain[] = {
    {"SOFT_MAX", NULL, 0, {0, 0, NO, NO, NO}, 0, 0},
    {"FLASH_ATTN_EXT", NULL, 0, {0, 1, 1, 1, NO}, 3, 10},
    {"FLASH_ATTN_EXT", NULL, 0, {0, 1, 1, 1, NO}, 4, 512 /* keys at most, of the mask's */},
    {"PAD", NULL, 0, {0, NO, NO, NO, NO}, 1, 3},
    {"ROPE", NULL, 0, {0, 26, NO, NO, NO}, 2, 8},
    {"SET_ROWS", NULL, 1, {0, APIR_TYPE_I64, NO, NO, NO}, 0, 0},
    {"UPSCALE", NULL, 0, {0, NO, NO, NO, NO}, 0, 1},
    {"SSM_SCAN", NULL, 0, {0, 0, 0, 0, 0}, 0, 1},
    {"CONCAT", NULL, APIR_TYPE_F16, {1, 1, NO, NO, NO}, 0, 2},
    {"FILL", NULL, 0, {0, NO, NO, NO, NO}, 0, 5},
    {"DSV4_HC_PRE", NULL, 0, {0, 0, NO, NO, NO}, 0, 0},
    {"DSV4_HC_PRE", NULL, 0, {0, 0, NO, NO, NO}, 0, 0x3f800000},
    {"MUL_MAT", NULL, 0, {0, 0, NO, NO, NO}, 0, 10},
    {"MUL_MAT", NULL, 0, {0, 0, NO, NO, NO}, 1, 1 /* a hint */},
};

static void plain_parameters_are_known_everywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        for (size_t n = 0; n < sizeof(newer) / sizeof(newer[0]); n++) {
            if (!known(&plain[i], true, newer[n].since))
                fail_msg("%s, row %zu, without %s", plain[i].name, i, newer[n].since);
        }
    }
}

static void a_cpu_is_not_asked_for_kernels_that_it_lacks(void **state)
{
    (void)state;
    static const struct {
        struct op op;
        const char *since;
    } rows[] = {
        {{"POOL_1D", NULL, 0, {0, NO, NO, NO, NO}, 1, 2}, "ggml_build_forward_select"},
        {{"SCALE", NULL, 0, {0, NO, NO, NO, NO}, 1, 0x3f800000}, "ggml_build_forward_select"},
        {{"CONV_TRANSPOSE_2D", NULL, 0, {0, 0, NO, NO, NO}, 0, 1}, "ggml_rope_set_offset"},
        {{"IM2COL", NULL, APIR_TYPE_F16, {0, 0, NO, NO, NO}, 0, 1}, "ggml_rope_set_offset"},
        {{"GLU", "SWIGLU_OAI", APIR_TYPE_F16, {1, NO, NO, NO, NO}, 0, 0},
         "ggml_backend_buft_alloc_buffer_n"},
        {{"GLU", "REGLU", APIR_TYPE_BF16, {30, NO, NO, NO, NO}, 0, 0},
         "ggml_backend_buft_alloc_buffer_n"},
        {{"UNARY", "GELU_ERF", APIR_TYPE_BF16, {30, NO, NO, NO, NO}, 0, 0},
         "ggml_backend_buft_alloc_buffer_n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(known(&rows[i].op, true, all));
        assert_false(known(&rows[i].op, true, rows[i].since));
        assert_true(known(&rows[i].op, false, rows[i].since)); /* a GPU's backend says it itself */
    }
}

/* Attention of so many queries with a mask of so many rows. */
static bool masked(int64_t queries, int64_t rows, bool cpu, const char *lacks)
{
    struct apir_name name = {.name = "FLASH_ATTN_EXT"};
    struct apir_tensor tensors[5] = {{.ne = {64, queries, 4, 1}},
                                     {.ne = {64, 256, 4, 1}},
                                     {.ne = {64, 256, 4, 1}},
                                     {.ne = {256, rows, 1, 1}},
                                     {0}};
    struct apir_graph g = {.names = &name, .n_names = 1, .tensors = tensors, .n_tensors = 5};
    for (unsigned i = 0; i < APIR_TENSOR_SRC; i++)
        tensors[4].src[i] = i < 4 ? i : APIR_NO_TENSOR;
    return is_known(&g, 4, cpu, lacks);
}

static void a_gpu_of_old_wants_padded_masks(void **state)
{
    (void)state;
    static const char since[] = "ggml_build_forward_select";
    assert_true(masked(1, 1, false, all));
    assert_true(masked(1, 1, true, since));
    assert_false(masked(1, 1, false, since));
    assert_false(masked(65, 65, false, since));
    assert_false(masked(65, 64, false, since));
    assert_true(masked(1, 64, false, since));
    assert_true(masked(65, 128, false, since));
}

/* A sum with b, of so many columns whose numbers are so many bytes apart. */
static bool added(int64_t columns, uint64_t apart, int type, bool cpu, const char *lacks)
{
    struct apir_name name = {.name = "ADD"};
    struct apir_tensor tensors[3] = {
        {.ne = {64, 4, 1, 1}, .nb = {4, 256, 1024, 1024}},
        {.type = (uint8_t)type, .ne = {columns, 4, 1, 1}, .nb = {apart, 256, 1024, 1024}},
        {.ne = {64, 4, 1, 1}, .nb = {4, 256, 1024, 1024}}};
    struct apir_graph g = {.names = &name, .n_names = 1, .tensors = tensors, .n_tensors = 3};
    for (unsigned i = 0; i < APIR_TENSOR_SRC; i++)
        tensors[2].src[i] = i < 2 ? i : APIR_NO_TENSOR;
    return is_known(&g, 2, cpu, lacks);
}

static void a_cpu_of_old_repeats_only_what_lies_side_by_side(void **state)
{
    (void)state;
    static const char since[] = "ggml_build_forward_select";
    assert_true(added(1, 8, 0, true, all));
    assert_false(added(1, 8, 0, true, since));
    assert_true(added(1, 8, 0, false, since));
    assert_true(added(1, 4, 0, true, since));
    assert_true(added(64, 8, 0, true, since));
    assert_true(added(1, 2, APIR_TYPE_F16, true, since));
    assert_false(added(1, 4, APIR_TYPE_F16, true, since));
}

static void an_unsaid_scale_is_one(void **state)
{
    (void)state;
    int32_t params[16] = {0}, other[16] = {0};
    struct worker_meaning m;
    worker_meaning_init(&m, has, all);
    worker_meaning_complete(&m, "DSV4_HC_PRE", params);
    worker_meaning_complete(&m, "DSV4_HC_POST", other);
    assert_int_equal(params[0], 0x3f800000);
    assert_int_equal(other[0], 0);
    params[0] = 0x40000000;
    worker_meaning_complete(&m, "DSV4_HC_PRE", params);
    assert_int_equal(params[0], 0x40000000);
}

/* Before both functions, between them, after both. */
static bool has_neither(const void *data, const char *function)
{
    (void)data;
    return strcmp(function, "ggml_l2_norm") != 0 && strcmp(function, "ggml_opt_alloc") != 0;
}

static void sums_of_f32_have_the_number_of_the_host(void **state)
{
    (void)state;
    static const struct {
        meaning_has *has;
        const char *lacks;
        int32_t f32;
    } hosts[] = {{has_neither, all, 1}, {has, "ggml_opt_alloc", 0}, {has, all, 10}};
    static const struct op said[] = {{"MUL_MAT", NULL, 0, {0, 0, NO, NO, NO}, 0, 0},
                                     {"MUL_MAT_ID", NULL, 0, {0, 0, 0, NO, NO}, 0, 0},
                                     {"FLASH_ATTN_EXT", NULL, 0, {0, 1, 1, 1, NO}, 3, 0}};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct worker_meaning m;
        worker_meaning_init(&m, hosts[i].has, hosts[i].lacks);
        assert_int_equal(m.f32, hosts[i].f32);
        for (size_t k = 0; k < 3 * 3; k++) {
            static const int32_t values[] = {0, 1, 10};
            const int32_t value = values[k % 3];
            int32_t params[16] = {0};
            params[said[k / 3].at] = value;
            struct op op = said[k / 3];
            op.value = value;
            assert_int_equal(known_to(&m, &op, false), value == 0 || m.f32 != 0);
            worker_meaning_complete(&m, op.name, params);
            assert_int_equal(params[op.at], value != 0 && m.f32 != 0 ? m.f32 : value);
            assert_int_equal(params[op.at == 0 ? 3 : 0], 0);
        }
    }
    /* The first parameter of another op is none. */
    struct worker_meaning old;
    int32_t params[16] = {10};
    worker_meaning_init(&old, has_neither, all);
    worker_meaning_complete(&old, "POOL_2D", params);
    assert_int_equal(params[0], 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newer_parameters_want_a_host_that_knows_them),
        cmocka_unit_test(plain_parameters_are_known_everywhere),
        cmocka_unit_test(a_cpu_is_not_asked_for_kernels_that_it_lacks),
        cmocka_unit_test(a_gpu_of_old_wants_padded_masks),
        cmocka_unit_test(a_cpu_of_old_repeats_only_what_lies_side_by_side),
        cmocka_unit_test(an_unsaid_scale_is_one),
        cmocka_unit_test(sums_of_f32_have_the_number_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
