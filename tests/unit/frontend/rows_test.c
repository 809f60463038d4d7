/* SPDX-License-Identifier: Apache-2.0 */
/* The device's memory is the test's own here. */
#include "tests/lib/unit.h"

#include <errno.h>

#include "frontend/ggml/rows.h"
#include "frontend/ggml/transfer.h"
#include "frontend/graph/query.h"
#include "frontend/plugin/plugin.h"
#include "protocol/gguf.h"

struct plugin plugin;

static uint32_t host_flags;

int query_op(struct plugin_device *d, const struct gg_tensor *op,
             struct apir_reply_op_query *ret_answer)
{
    (void)d;
    (void)op;
    *ret_answer = (struct apir_reply_op_query){.flags = host_flags};
    return 0;
}

void plugin_tensor_get(struct plugin_stream *s, const struct gg_tensor *t, void *data,
                       size_t offset, size_t size)
{
    assert_null(s);
    memcpy(data, (const uint8_t *)t->data + offset, size);
}

void plugin_tensor_set(struct plugin_stream *s, struct gg_tensor *t, const void *data,
                       size_t offset, size_t size)
{
    assert_null(s);
    memcpy((uint8_t *)t->data + offset, data, size);
}

static size_t last_byte(const struct gg_tensor *t)
{
    size_t size = t->type == APIR_TYPE_F16 ? 2 : t->type == APIR_TYPE_I64 ? 8 : 4;
    for (int i = 0; i < 4; i++)
        size += (size_t)(t->ne[i] - 1) * t->nb[i];
    return size;
}

static const char *op_name(int op)
{
    return op == 1 ? "SET_ROWS" : "NONE";
}

/* Whole numbers will do for the test: the other type's value is one more. */
static void widen(const void *from, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ((uint32_t *)to)[i] = ((const uint16_t *)from)[i] + 1u;
}

static void narrow(const void *from, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ((uint16_t *)to)[i] = (uint16_t)(((const uint32_t *)from)[i] + 1u);
}

enum { COLUMNS = 3, ROWS = 4 };

/* Two matrices of three rows go into two of four; every second number counts. */
struct world {
    uint32_t from[2][3][COLUMNS];
    int32_t at[3][2];
    uint16_t to[2][ROWS][COLUMNS];
    struct gg_tensor source, numbers, op;
};

static int setup(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof(w));
    memset(w.to, 0xff, sizeof(w.to));
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            for (uint32_t c = 0; c < COLUMNS; c++)
                w.from[i][k][c] = 100 * i + 10 * k + c;
        }
    }
    w.at[0][0] = 3, w.at[1][0] = 0, w.at[2][0] = 1;
    w.at[0][1] = w.at[1][1] = w.at[2][1] = -7;
    w.source =
        (struct gg_tensor){.type = APIR_TYPE_F32,
                           .ne = {COLUMNS, 3, 2, 1},
                           .nb = {4, sizeof(w.from[0][0]), sizeof(w.from[0]), sizeof(w.from)},
                           .data = w.from};
    w.numbers =
        (struct gg_tensor){.type = APIR_TYPE_I32,
                           .ne = {3, 1, 1, 1},
                           .nb = {sizeof(w.at[0]), sizeof(w.at), sizeof(w.at), sizeof(w.at)},
                           .data = w.at};
    w.op = (struct gg_tensor){.type = APIR_TYPE_F16,
                              .op = 1,
                              .ne = {COLUMNS, ROWS, 2, 1},
                              .nb = {2, sizeof(w.to[0][0]), sizeof(w.to[0]), sizeof(w.to)},
                              .src = {&w.source, &w.numbers},
                              .data = w.to};
    plugin = (struct plugin){.nbytes = last_byte,
                             .op_name = op_name,
                             .fp16_to_fp32_row = widen,
                             .fp32_to_fp16_row = narrow};
    host_flags = 0;
    *state = &w;
    return 0;
}

static void each_row_goes_where_its_number_says(void **state)
{
    struct world *w = *state;
    struct plugin_device d = {.name = "APIR0"};
    static const int32_t home[3] = {3, 0, 1};
    assert_true(rows_is_ours(&d, &w->op));
    assert_int_equal(rows_set(&d, &w->op), 0);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            for (uint32_t c = 0; c < COLUMNS; c++)
                assert_int_equal(w->to[i][home[k]][c], 100 * i + 10 * k + c + 1);
        }
        for (uint32_t c = 0; c < COLUMNS; c++)
            assert_int_equal(w->to[i][2][c], 0xffff);
    }
}

static void the_same_type_is_copied(void **state)
{
    struct world *w = *state;
    struct plugin_device d = {.name = "APIR0"};
    uint32_t to[2][ROWS][COLUMNS];
    memset(to, 0, sizeof(to));
    w->op.type = APIR_TYPE_F32;
    w->op.nb[0] = 4, w->op.nb[1] = sizeof(to[0][0]), w->op.nb[2] = sizeof(to[0]);
    w->op.data = to;
    plugin.fp16_to_fp32_row = plugin.fp32_to_fp16_row = NULL;
    assert_true(rows_can_set(&w->op));
    assert_int_equal(rows_set(&d, &w->op), 0);
    assert_memory_equal(to[1][3], w->from[1][0], sizeof(to[1][3]));
    assert_memory_equal(to[0][1], w->from[0][2], sizeof(to[0][1]));
}

static void a_number_beyond_the_rows_is_an_error(void **state)
{
    struct world *w = *state;
    struct plugin_device d = {.name = "APIR0"};
    w->at[1][0] = ROWS;
    assert_int_equal(rows_set(&d, &w->op), -ERANGE);
    w->at[1][0] = -1;
    assert_int_equal(rows_set(&d, &w->op), -ERANGE);
}

static void what_the_host_does_or_nobody_can_is_not_ours(void **state)
{
    struct world *w = *state;
    struct plugin_device d = {.name = "APIR0"};
    host_flags = APIR_OP_SUPPORTED;
    assert_false(rows_is_ours(&d, &w->op));
    host_flags = 0;
    assert_true(rows_is_ours(&d, &w->op));
    plugin.fp32_to_fp16_row = NULL;
    assert_false(rows_is_ours(&d, &w->op));
    plugin.fp32_to_fp16_row = narrow;
    w->op.nb[0] = 4;
    assert_false(rows_is_ours(&d, &w->op));
    w->op.nb[0] = 2;
    w->op.ne[0] = COLUMNS + 1;
    assert_false(rows_is_ours(&d, &w->op));
    w->op.ne[0] = COLUMNS;
    w->numbers.type = APIR_TYPE_F32;
    assert_false(rows_is_ours(&d, &w->op));
    w->numbers.type = APIR_TYPE_I32;
    w->op.type = 8; /* q8_0 */
    assert_false(rows_is_ours(&d, &w->op));
    w->op.type = APIR_TYPE_F16;
    w->op.op = 0;
    assert_false(rows_is_ours(&d, &w->op));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_row_goes_where_its_number_says, setup),
        cmocka_unit_test_setup(the_same_type_is_copied, setup),
        cmocka_unit_test_setup(a_number_beyond_the_rows_is_an_error, setup),
        cmocka_unit_test_setup(what_the_host_does_or_nobody_can_is_not_ours, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
