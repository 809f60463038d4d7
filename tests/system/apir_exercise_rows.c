/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SET_ROWS with numbers in i32 and rows of f16, which an older host does not know: first and last
 * in a graph, twice in a row, into a tensor that the graph computes, between nodes that need each
 * other.
 */
#include "tests/system/apir_exercise.h"

#include <string.h>

enum { COLUMNS = 4, ROWS = 8, GIVEN = 3 };

struct sheet {
    ggml_backend_t backend;
    ggml_backend_buffer_t buffer;
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    struct ggml_tensor *x, *rows, *at, *other; /* inputs */
    struct ggml_tensor *z, *y, *plain;         /* results */
};

/* What the scheduler asks before there is memory. */
static struct ggml_tensor *sets(struct sheet *s, ggml_backend_dev_t dev, struct ggml_tensor *to,
                                struct ggml_tensor *at)
{
    struct ggml_tensor *set = ggml_set_rows(s->ctx, to, s->rows, at);
    CHECK(to->op == GGML_OP_NONE || ggml_backend_dev_supports_op(dev, set));
    ggml_build_forward_expand(s->graph, set);
    return set;
}

static void sheet_init(struct sheet *s, ggml_backend_dev_t dev)
{
    s->backend = backend_new(dev);
    s->ctx = context_new();
    s->graph = ggml_new_graph(s->ctx);
    s->x = ggml_new_tensor_2d(s->ctx, GGML_TYPE_F32, COLUMNS, ROWS);
    s->rows = ggml_new_tensor_2d(s->ctx, GGML_TYPE_F16, COLUMNS, GIVEN);
    s->at = ggml_new_tensor_1d(s->ctx, GGML_TYPE_I32, GIVEN);
    s->other = ggml_new_tensor_1d(s->ctx, GGML_TYPE_I32, GIVEN);
    s->z = ggml_new_tensor_2d(s->ctx, GGML_TYPE_F16, COLUMNS, ROWS);
    sets(s, dev, s->z, s->at);
    struct ggml_tensor *twice = ggml_scale(s->ctx, s->x, 2);
    ggml_build_forward_expand(s->graph, twice);
    struct ggml_tensor *once = sets(s, dev, twice, s->at);
    struct ggml_tensor *again = sets(s, dev, once, s->other);
    s->y = ggml_scale(s->ctx, again, 3);
    s->plain = ggml_add(s->ctx, s->x, s->y);
    ggml_build_forward_expand(s->graph, s->plain);
    sets(s, dev, s->y, s->other);
    s->buffer = ggml_backend_alloc_ctx_tensors_from_buft(s->ctx, ggml_backend_dev_buffer_type(dev));
    CHECK(s->buffer);
}

static void sheet_free(struct sheet *s)
{
    ggml_backend_buffer_free(s->buffer);
    ggml_free(s->ctx);
    ggml_backend_free(s->backend);
}

static float value(int row, int c)
{
    return (float)(10 * row + c);
}

static float given(int row, int c)
{
    return (float)(200 + 10 * row + c);
}

static const int32_t at[GIVEN] = {6, 0, 3}, other[GIVEN] = {5, 6, 1};

/* Which of the rows lies there by these numbers, or -1. */
static int found(const int32_t numbers[GIVEN], int row)
{
    for (int i = 0; i < GIVEN; i++) {
        if (numbers[i] == row)
            return i;
    }
    return -1;
}

static void fill(struct sheet *s)
{
    float x[ROWS][COLUMNS], rows[GIVEN][COLUMNS];
    ggml_fp16_t narrow[GIVEN][COLUMNS], none[ROWS][COLUMNS] = {{0}};
    for (int c = 0; c < COLUMNS; c++) {
        for (int row = 0; row < ROWS; row++)
            x[row][c] = value(row, c);
        for (int row = 0; row < GIVEN; row++)
            rows[row][c] = given(row, c);
    }
    for (int row = 0; row < GIVEN; row++)
        ggml_fp32_to_fp16_row(rows[row], narrow[row], COLUMNS);
    ggml_backend_tensor_set(s->x, x, 0, sizeof(x));
    ggml_backend_tensor_set(s->rows, narrow, 0, sizeof(narrow));
    ggml_backend_tensor_set(s->at, at, 0, sizeof(at));
    ggml_backend_tensor_set(s->other, other, 0, sizeof(other));
    ggml_backend_tensor_set(s->z, none, 0, sizeof(none));
}

static void look(const struct sheet *s)
{
    float y[ROWS][COLUMNS], plain[ROWS][COLUMNS];
    ggml_fp16_t z[ROWS][COLUMNS];
    ggml_backend_tensor_get(s->y, y, 0, sizeof(y));
    ggml_backend_tensor_get(s->plain, plain, 0, sizeof(plain));
    ggml_backend_tensor_get(s->z, z, 0, sizeof(z));
    for (int row = 0; row < ROWS; row++) {
        const int first = found(at, row), second = found(other, row);
        for (int c = 0; c < COLUMNS; c++) {
            const float there = second >= 0  ? given(second, c)
                                : first >= 0 ? given(first, c)
                                             : 2 * value(row, c);
            if (plain[row][c] != value(row, c) + 3 * there)
                fail("row %d of what follows: %f", row, (double)plain[row][c]);
            if (y[row][c] != (second >= 0 ? given(second, c) : 3 * there))
                fail("row %d of the last target: %f", row, (double)y[row][c]);
            if (ggml_fp16_to_fp32(z[row][c]) != (first >= 0 ? given(first, c) : 0))
                fail("row %d of the first target: %f", row, (double)ggml_fp16_to_fp32(z[row][c]));
        }
    }
}

int rows_run(ggml_backend_dev_t dev)
{
    struct sheet s;
    sheet_init(&s, dev);
    for (int i = 0; i < 3; i++) {
        fill(&s);
        graph_compute(s.backend, s.graph);
        look(&s);
    }
    sheet_free(&s);
    return 0;
}

/* A number that no row has fails that graph, and none after it. */
int rows_beyond_run(ggml_backend_dev_t dev)
{
    static const int32_t beyond[GIVEN] = {1, ROWS, 2};
    struct sheet s;
    sheet_init(&s, dev);
    fill(&s);
    ggml_backend_tensor_set(s.other, beyond, 0, sizeof(beyond));
    CHECK(ggml_backend_graph_compute(s.backend, s.graph) == GGML_STATUS_FAILED);
    fill(&s);
    graph_compute(s.backend, s.graph);
    look(&s);
    sheet_free(&s);
    return 0;
}
