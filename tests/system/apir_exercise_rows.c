/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that fail on the host. SET_ROWS with numbers in i32 and rows of f16, which an older host
 * does not know, into a tensor that lies there and one that the graph computes: each graph fails,
 * and others compute as before.
 */
#include "tests/system/apir_exercise.h"

#include <math.h>

enum { COLUMNS = 4, ROWS = 8, GIVEN = 3 };

int rows_refused_run(ggml_backend_dev_t dev)
{
    ggml_backend_t backend = backend_new(dev);
    for (int computed = 0; computed < 2; computed++) {
        struct ggml_context *ctx = context_new();
        struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, COLUMNS, ROWS);
        struct ggml_tensor *rows = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, COLUMNS, GIVEN);
        struct ggml_tensor *at = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, GIVEN);
        struct ggml_tensor *twice = ggml_scale(ctx, x, 2);
        struct ggml_tensor *set = ggml_set_rows(ctx, computed ? twice : x, rows, at);
        struct ggml_cgraph *graph = ggml_new_graph_custom(ctx, 16, false),
                           *plain = ggml_new_graph_custom(ctx, 16, false);
        ggml_build_forward_expand(graph, set);
        ggml_build_forward_expand(plain, twice);
        /* What the scheduler asks before there is memory; the CPU could have no other. */
        CHECK(!computed || ggml_backend_dev_supports_op(dev, set));
        ggml_backend_buffer_t buffer =
            ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_dev_buffer_type(dev));
        CHECK(buffer && ggml_backend_dev_supports_op(dev, set));
        const float value[ROWS][COLUMNS] = {{1, 2}};
        float got[ROWS][COLUMNS] = {{0}};
        ggml_backend_tensor_set(x, value, 0, sizeof(value));
        /* It may be told by the next call, as any failure on the host. */
        CHECK(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_FAILED ||
              ggml_backend_graph_compute(backend, plain) == GGML_STATUS_FAILED);
        graph_compute(backend, plain);
        ggml_backend_tensor_get(twice, got, 0, sizeof(got));
        CHECK(got[0][1] == 4);
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
    ggml_backend_free(backend);
    return 0;
}

/* The ways of a program to its results. */
enum way { WAY_COMPUTE, WAY_ASYNC, WAY_ASYNC_READ, WAYS };

/* Looks up rows, one of which is not there, in the middle of a graph: a failure, or what is read is
 * NaN. */
static void rows_missed(ggml_backend_t backend, enum way way)
{
    const int32_t numbers[ROWS] = {1, 2, 100000, 3};
    const float tenth[COLUMNS * 10] = {0};
    float got[COLUMNS * ROWS] = {0};
    struct ggml_context *ctx = context_new();
    struct ggml_tensor *table = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, COLUMNS, 10);
    struct ggml_tensor *at = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, ROWS);
    struct ggml_tensor *picked = ggml_get_rows(ctx, ggml_scale(ctx, table, 2), at);
    struct ggml_tensor *out = ggml_scale(ctx, picked, 0.5f);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_set_name(picked, "picked_rows");
    ggml_build_forward_expand(graph, out);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    CHECK(buffer);
    ggml_backend_tensor_set(table, tenth, 0, sizeof(tenth));
    ggml_backend_tensor_set(at, numbers, 0, sizeof(numbers));
    const enum ggml_status status = way == WAY_COMPUTE
                                        ? ggml_backend_graph_compute(backend, graph)
                                        : ggml_backend_graph_compute_async(backend, graph);
    if (way == WAY_ASYNC_READ)
        ggml_backend_tensor_get_async(backend, out, got, 0, sizeof(got));
    ggml_backend_synchronize(backend);
    if (way != WAY_ASYNC_READ)
        ggml_backend_tensor_get(out, got, 0, sizeof(got));
    for (size_t i = 0; status == GGML_STATUS_SUCCESS && i < COLUMNS * ROWS; i++)
        CHECK(isnan(got[i]));
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

int graph_fails_run(ggml_backend_dev_t dev)
{
    cleanup_problem struct problem p;
    problem_init(&p, dev, 48, 3);
    for (int i = 0; i < 2 * WAYS; i++) {
        rows_missed(p.backend, (enum way)(i % WAYS));
        /* The graph that may be refused to say it is a good one or another bad one. */
        if (i < WAYS) {
            (void)problem_run(&p, 1);
            CHECK(problem_run(&p, 2) == RIGHT);
        } else {
            rows_missed(p.backend, (enum way)(i % WAYS));
        }
    }
    return 0;
}
