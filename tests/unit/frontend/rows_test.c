/* SPDX-License-Identifier: Apache-2.0 */
/* The device's memory is the test's own here. */
#include "tests/lib/unit.h"

#include "frontend/ggml/rows.h"
#include "frontend/ggml/transfer.h"
#include "frontend/graph/encode.h"
#include "frontend/graph/query.h"
#include "frontend/plugin/buffer.h"
#include "frontend/plugin/plugin.h"
#include "protocol/gguf.h"

struct plugin plugin;

static uint32_t host_flags;
static struct plugin_device device = {.name = "APIR0"};
static struct plugin_buffer memory = {.device = &device};
static bool failed;

struct plugin_buffer *plugin_buffer_of(const struct gg_tensor *t)
{
    return t->buffer ? &memory : NULL;
}

bool plugin_buffer_is_void(const struct plugin_buffer *b)
{
    assert_ptr_equal(b, &memory);
    return failed;
}

/* As encode.c has it, which is not in here. */
bool graph_node_is_computed(const struct gg_tensor *node)
{
    return node->flags & APIR_TENSOR_FLAG_COMPUTE;
}

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
    return op == 1 ? "SET_ROWS" : op == 2 ? "SET" : "NONE";
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

enum { COLUMNS = 3, GIVEN = 2, ROWS = 4, DEEP = 4, FAR = 2 };

/* Matrices of two rows go into ones of four. There are numbers for every second of the DEEP and for
 * both of the FAR, which take turns; beside each lies one that is not meant. */
struct world {
    uint32_t from[FAR][DEEP][GIVEN][COLUMNS];
    int32_t at[FAR][DEEP / 2][GIVEN][2];
    uint16_t to[FAR][DEEP][ROWS][COLUMNS];
    struct gg_tensor source, numbers, op;
};

static uint32_t given(int i3, int i2, int i1, int c)
{
    return (uint32_t)(1000 * i3 + 100 * i2 + 10 * i1 + c);
}

static int32_t home(int i3, int i2, int i1)
{
    return (i3 + i2 % (DEEP / 2) + 2 * i1) % ROWS;
}

static int setup(void **state)
{
    unit_setup(state);
    static struct world w;
    memset(&w, 0, sizeof(w));
    memset(w.to, 0xff, sizeof(w.to));
    for (int i3 = 0; i3 < FAR; i3++) {
        for (int i2 = 0; i2 < DEEP; i2++) {
            for (int i1 = 0; i1 < GIVEN; i1++) {
                w.at[i3][i2 % (DEEP / 2)][i1][0] = home(i3, i2, i1);
                w.at[i3][i2 % (DEEP / 2)][i1][1] = -7;
                for (int c = 0; c < COLUMNS; c++)
                    w.from[i3][i2][i1][c] = given(i3, i2, i1, c);
            }
        }
    }
    w.source = (struct gg_tensor){
        .type = APIR_TYPE_F32,
        .buffer = &memory,
        .ne = {COLUMNS, GIVEN, DEEP, FAR},
        .nb = {4, sizeof(w.from[0][0][0]), sizeof(w.from[0][0]), sizeof(w.from[0])},
        .data = w.from};
    w.numbers = (struct gg_tensor){
        .type = APIR_TYPE_I32,
        .buffer = &memory,
        .ne = {GIVEN, DEEP / 2, FAR, 1},
        .nb = {sizeof(w.at[0][0][0]), sizeof(w.at[0][0]), sizeof(w.at[0]), sizeof(w.at)},
        .data = w.at};
    w.op = (struct gg_tensor){.type = APIR_TYPE_F16,
                              .buffer = &memory,
                              .op = 1,
                              .flags = APIR_TENSOR_FLAG_COMPUTE,
                              .ne = {COLUMNS, ROWS, DEEP, FAR},
                              .nb = {2, sizeof(w.to[0][0][0]), sizeof(w.to[0][0]), sizeof(w.to[0])},
                              .src = {&w.source, &w.numbers},
                              .data = w.to};
    plugin = (struct plugin){.nbytes = last_byte,
                             .op_name = op_name,
                             .fp16_to_fp32_row = widen,
                             .fp32_to_fp16_row = narrow};
    host_flags = 0;
    failed = false;
    *state = &w;
    return 0;
}

static bool is_home(int i3, int i2, int row)
{
    for (int i1 = 0; i1 < GIVEN; i1++) {
        if (home(i3, i2, i1) == row)
            return true;
    }
    return false;
}

/* All of the target: rows that were given, and nothing else. */
static void look(const struct world *w)
{
    for (int i3 = 0; i3 < FAR; i3++) {
        for (int i2 = 0; i2 < DEEP; i2++) {
            for (int i1 = 0; i1 < GIVEN; i1++) {
                for (int c = 0; c < COLUMNS; c++)
                    assert_int_equal(w->to[i3][i2][home(i3, i2, i1)][c], given(i3, i2, i1, c) + 1);
            }
            for (int row = 0; row < ROWS; row++)
                assert_true(is_home(i3, i2, row) || w->to[i3][i2][row][0] == 0xffff);
        }
    }
}

TEST_WITHIN(each_row_goes_where_its_number_says, setup, unit_teardown)
{
    struct world *w = *state;
    assert_true(rows_is_ours(&device, &w->op));
    assert_int_equal(rows_set(&device, &w->op), 0);
    look(w);
}

TEST_WITHIN(numbers_may_be_wide, setup, unit_teardown)
{
    struct world *w = *state;
    int64_t wide[FAR][DEEP / 2][GIVEN];
    for (int i3 = 0; i3 < FAR; i3++) {
        for (int i2 = 0; i2 < DEEP / 2; i2++) {
            for (int i1 = 0; i1 < GIVEN; i1++)
                wide[i3][i2][i1] = home(i3, i2, i1);
        }
    }
    w->numbers.type = APIR_TYPE_I64;
    w->numbers.data = wide;
    w->numbers.nb[0] = sizeof(wide[0][0][0]), w->numbers.nb[1] = sizeof(wide[0][0]);
    w->numbers.nb[2] = sizeof(wide[0]), w->numbers.nb[3] = sizeof(wide);
    assert_int_equal(rows_set(&device, &w->op), 0);
    look(w);
}

/* The target as f32, in place of what setup() made. */
static void aim_at_f32(struct world *w, uint32_t to[FAR][DEEP][ROWS][COLUMNS])
{
    memset(to, 0, sizeof(uint32_t) * FAR * DEEP * ROWS * COLUMNS);
    w->op.type = APIR_TYPE_F32;
    w->op.data = to;
    for (int i = 0; i < 4; i++)
        w->op.nb[i] *= 2;
}

TEST_WITHIN(the_same_type_is_copied, setup, unit_teardown)
{
    struct world *w = *state;
    uint32_t to[FAR][DEEP][ROWS][COLUMNS];
    aim_at_f32(w, to);
    plugin.fp16_to_fp32_row = plugin.fp32_to_fp16_row = NULL;
    assert_true(rows_can_set(&w->op));
    assert_int_equal(rows_set(&device, &w->op), 0);
    assert_memory_equal(to[1][3][home(1, 3, 0)], w->from[1][3][0], sizeof(to[0][0][0]));
    assert_memory_equal(to[0][2][home(0, 2, 1)], w->from[0][2][1], sizeof(to[0][0][0]));
}

TEST_WITHIN(rows_of_f16_are_widened, setup, unit_teardown)
{
    struct world *w = *state;
    uint32_t to[FAR][DEEP][ROWS][COLUMNS];
    uint16_t from[FAR][DEEP][GIVEN][COLUMNS];
    aim_at_f32(w, to);
    for (uint16_t i = 0; i < sizeof(from) / sizeof(uint16_t); i++)
        memcpy((uint8_t *)from + i * sizeof(i), &i, sizeof(i));
    w->source.type = APIR_TYPE_F16;
    w->source.data = from;
    for (int i = 0; i < 4; i++)
        w->source.nb[i] /= 2;
    assert_int_equal(rows_set(&device, &w->op), 0);
    assert_int_equal(to[1][2][home(1, 2, 1)][2], from[1][2][1][2] + 1);
    assert_int_equal(to[0][3][home(0, 3, 0)][0], from[0][3][0][0] + 1);
}

TEST_WITHIN(what_is_nowhere_or_has_failed_is_an_error, setup, unit_teardown)
{
    struct world *w = *state;
    struct plugin_device other = {.name = "APIR1"};
    assert_int_equal(rows_set(&other, &w->op), -EINVAL);
    w->source.buffer = NULL;
    assert_int_equal(rows_set(&device, &w->op), -EINVAL);
    w->source.buffer = &memory;
    w->numbers.buffer = NULL;
    assert_int_equal(rows_set(&device, &w->op), -EINVAL);
    w->numbers.buffer = &memory;
    failed = true;
    assert_int_equal(rows_set(&device, &w->op), -EINVAL);
    assert_int_equal(w->to[0][0][home(0, 0, 0)][0], 0xffff);
}

TEST_WITHIN(a_number_beyond_the_rows_is_an_error, setup, unit_teardown)
{
    struct world *w = *state;
    w->at[1][0][1][0] = ROWS;
    assert_int_equal(rows_set(&device, &w->op), -ERANGE);
    w->at[1][0][1][0] = -1;
    assert_int_equal(rows_set(&device, &w->op), -ERANGE);
}

TEST_WITHIN(what_the_host_does_or_nobody_can_is_not_ours, setup, unit_teardown)
{
    struct world *w = *state;
    host_flags = APIR_OP_SUPPORTED;
    assert_false(rows_is_ours(&device, &w->op));
    host_flags = 0;
    assert_true(rows_is_ours(&device, &w->op));
    plugin.fp32_to_fp16_row = NULL;
    assert_false(rows_is_ours(&device, &w->op));
    plugin.fp32_to_fp16_row = narrow;
    w->op.nb[0] = 4;
    assert_false(rows_is_ours(&device, &w->op));
    w->op.nb[0] = 2;
    w->op.ne[0] = COLUMNS + 1;
    assert_false(rows_is_ours(&device, &w->op));
    w->op.ne[0] = COLUMNS;
    w->numbers.type = APIR_TYPE_F32;
    assert_false(rows_is_ours(&device, &w->op));
    w->numbers.type = APIR_TYPE_I32;
    w->op.type = 8; /* q8_0 */
    assert_false(rows_is_ours(&device, &w->op));
    w->op.type = APIR_TYPE_F16;
    w->op.flags = 0; /* of a branch that is left out */
    assert_false(rows_is_ours(&device, &w->op));
    w->op.flags = APIR_TENSOR_FLAG_COMPUTE;
    assert_true(rows_is_ours(&device, &w->op));
    w->op.op = 0;
    assert_false(rows_is_ours(&device, &w->op));
}

/* SET in place, of the source's matrices into the middle rows of the target's, from the second far
 * on: the first of them is left. */
static void aim_at_region(struct world *w, uint32_t to[FAR][DEEP][ROWS][COLUMNS])
{
    aim_at_f32(w, to);
    w->op.op = 2;
    w->op.view_src = &w->numbers; /* any */
    w->op.src[0] = &w->numbers;
    w->op.src[1] = &w->source;
    w->source.ne[3] = 1;
    w->op.op_params[0] = sizeof(to[0][0][0]), w->op.op_params[1] = sizeof(to[0][0]);
    w->op.op_params[2] = sizeof(to[0]);
    w->op.op_params[3] = sizeof(to[0]) + sizeof(to[0][0][0]);
}

TEST_WITHIN(a_region_is_set_and_nothing_besides, setup, unit_teardown)
{
    struct world *w = *state;
    uint32_t to[FAR][DEEP][ROWS][COLUMNS], want[FAR][DEEP][ROWS][COLUMNS] = {0};
    aim_at_region(w, to);
    for (int i2 = 0; i2 < DEEP; i2++)
        memcpy(want[1][i2][1], w->from[0][i2], sizeof(w->from[0][i2]));
    assert_true(rows_is_ours(&device, &w->op));
    assert_int_equal(rows_set(&device, &w->op), 0);
    assert_memory_equal(to, want, sizeof(to));
    /* Rows of the source that lie apart. */
    memset(to, 0, sizeof(to));
    memset(want, 0, sizeof(want));
    w->source.nb[1] *= 2;
    w->source.ne[1] = 1;
    w->source.ne[2] = 2;
    w->op.op_params[1] = sizeof(to[0][0][0]); /* one below the other */
    memcpy(want[1][0][1], w->from[0][0], sizeof(want[0][0][0]));
    memcpy(want[1][0][2], w->from[0][1], sizeof(want[0][0][0]));
    assert_int_equal(rows_set(&device, &w->op), 0);
    assert_memory_equal(to, want, sizeof(to));
}

TEST_WITHIN(a_region_beyond_the_tensor_is_not_ours, setup, unit_teardown)
{
    struct world *w = *state;
    uint32_t to[FAR][DEEP][ROWS][COLUMNS], none[FAR][DEEP][ROWS][COLUMNS] = {0};
    aim_at_region(w, to);
    const int32_t offset = w->op.op_params[3];
    w->op.op_params[3] += 2 * (int32_t)sizeof(to[0][0][0]);
    assert_false(rows_is_ours(&device, &w->op));
    assert_int_equal(rows_set(&device, &w->op), -ERANGE);
    w->op.op_params[3] = -4;
    assert_int_equal(rows_set(&device, &w->op), -ERANGE);
    w->op.op_params[3] = offset;
    w->op.op_params[1] = -4;
    assert_int_equal(rows_set(&device, &w->op), -ERANGE);
    w->op.op_params[1] = INT32_MAX;
    assert_int_equal(rows_set(&device, &w->op), -ERANGE);
    assert_memory_equal(to, none, sizeof(to));
    w->op.op_params[1] = sizeof(to[0][0]);
    assert_true(rows_can_set(&w->op));
    /* Of another type nobody has it, and not in place the CPU may. */
    w->source.type = APIR_TYPE_F16;
    assert_false(rows_can_set(&w->op));
    w->source.type = APIR_TYPE_F32;
    w->op.view_src = NULL;
    assert_false(rows_can_set(&w->op));
}
