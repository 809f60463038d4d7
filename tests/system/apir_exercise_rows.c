/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SET_ROWS with numbers in i32 and rows of f16, which an older host does not know, into a tensor
 * that lies there and one that the graph computes: each graph fails, and others compute as before.
 */
#include "tests/system/apir_exercise.h"

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
