/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/options/graph.h"

#include <stdlib.h>

#include <ggml-alloc.h>

#include "tests/native/options/record.h"
#include "tests/native/options/run.h"

enum { TENSORS = 64 };

struct ggml_context *graph_context(void)
{
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){
        .mem_size = TENSORS * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true});
    if (!ctx)
        abort();
    return ctx;
}

ggml_backend_t graph_backend(ggml_backend_dev_t device)
{
    ggml_backend_t backend = ggml_backend_dev_init(device, NULL);
    ggml_backend_set_n_threads_t set_threads =
        (ggml_backend_set_n_threads_t)(uintptr_t)ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads");
    if (!backend)
        run_fail("no backend could be opened");
    if (set_threads)
        set_threads(backend, 1);
    return backend;
}

void graph_fill(struct ggml_tensor *t, uint32_t seed)
{
    const size_t n = (size_t)ggml_nelements(t);
    float *x = malloc(n * sizeof(*x));

    if (!x)
        abort();
    for (size_t i = 0; i < n; i++) {
        seed = seed * UINT32_C(1664525) + UINT32_C(1013904223);
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
    }
    ggml_backend_tensor_set(t, x, 0, n * sizeof(*x));
    free(x);
}

bool graph_try(ggml_backend_t backend, struct record *record, const char *name, uint32_t seed)
{
    const int64_t rows = 8 + seed % 57, width = 32 * (1 + seed % 7);
    struct ggml_context *ctx = graph_context();
    struct ggml_tensor *weights = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, width, rows);
    struct ggml_tensor *input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, width, 5);
    struct ggml_tensor *bias = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, rows);
    struct ggml_tensor *sum = ggml_add(ctx, ggml_mul_mat(ctx, weights, input), bias);
    struct ggml_tensor *out = ggml_soft_max(ctx, ggml_rms_norm(ctx, sum, 1e-5f));
    struct ggml_tensor *best = ggml_argmax(ctx, out);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, best);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    if (!buffer)
        run_fail("%s: no buffer", name);

    graph_fill(weights, seed);
    graph_fill(input, seed + 1);
    graph_fill(bias, seed + 2);
    const bool computed = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
    if (computed) {
        const size_t n = (size_t)ggml_nelements(out);
        float *x = malloc(n * sizeof(*x));
        int32_t chosen[5];
        if (!x)
            abort();
        ggml_backend_tensor_get(out, x, 0, n * sizeof(*x));
        ggml_backend_tensor_get(best, chosen, 0, sizeof(chosen));
        record_floats(record, name, x, n);
        record_choice(record, name, chosen, 5);
        free(x);
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return computed;
}

void graph_compute(ggml_backend_t backend, struct record *record, const char *name, uint32_t seed)
{
    if (!graph_try(backend, record, name, seed))
        run_fail("%s: the graph failed", name);
}
