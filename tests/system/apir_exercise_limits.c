/* SPDX-License-Identifier: Apache-2.0 */
/* What a device grants and what it refuses; and a graph that takes long. */
#include "tests/system/apir_exercise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX 64

static void memory_print(ggml_backend_dev_t dev)
{
    size_t free_bytes = 0, total = 0;
    ggml_backend_dev_memory(dev, &free_bytes, &total);
    printf("memory %zu of %zu MiB\n", free_bytes / MIB, total / MIB);
}

/* For that many tensors, and a graph of as many. */
static struct ggml_context *context_of(size_t tensors)
{
    const struct ggml_init_params params = {
        .mem_size = tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(tensors, false),
        .no_alloc = true,
    };
    struct ggml_context *ctx = ggml_init(params);
    CHECK(ctx);
    return ctx;
}

/* Computes y, with zeros where it begins, and once more if that went well: what the first time came
 * to is known at the second. Says how long it took at first, and frees the context. */
static enum ggml_status compute_twice(ggml_backend_dev_t dev, struct ggml_context *ctx,
                                      struct ggml_tensor *y, size_t tensors, double *ret_seconds)
{
    cleanup_backend ggml_backend_t backend = backend_new(dev);
    struct ggml_cgraph *graph = ggml_new_graph_custom(ctx, tensors, false);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    CHECK(buffer);
    ggml_backend_buffer_clear(buffer, 0);
    const double began = now_seconds();
    enum ggml_status status = ggml_backend_graph_compute(backend, graph);
    *ret_seconds = now_seconds() - began;
    if (status == GGML_STATUS_SUCCESS)
        status = ggml_backend_graph_compute(backend, graph);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return status;
}

static bool chain_computes(ggml_backend_dev_t dev, int nodes)
{
    const size_t tensors = (size_t)nodes + 1;
    struct ggml_context *ctx = context_of(tensors);
    struct ggml_tensor *y = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 32);
    for (int i = 0; i < nodes; i++)
        y = ggml_scale_inplace(ctx, y, 1.0f);
    double seconds;
    return compute_twice(dev, ctx, y, tensors, &seconds) == GGML_STATUS_SUCCESS;
}

/* As llama.cpp does for `-t`. */
static void threads_set(struct problem *p, ggml_backend_dev_t dev, int n)
{
    ggml_backend_set_n_threads_t set;
    void *fn = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev),
                                                 "ggml_backend_set_n_threads");
    CHECK(fn);
    memcpy(&set, &fn, sizeof(set));
    set(p->backend, n);
}

int limits_run(ggml_backend_dev_t dev)
{
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(dev);
    ggml_backend_buffer_t held[HELD_MAX] = {NULL};
    struct problem p;
    bool opened = false;
    int n = 0;
    char line[64];
    printf("ready\n");
    while (fgets(line, sizeof(line), stdin)) {
        if (strcmp(line, "memory\n") == 0) {
            memory_print(dev);
        } else if (strcmp(line, "free\n") == 0) {
            CHECK(n > 0);
            ggml_backend_buffer_free(held[--n]);
            printf("freed\n");
        } else if (strcmp(line, "compute\n") == 0 || strncmp(line, "compute ", 8) == 0) {
            if (!opened)
                problem_init(&p, dev, 64, 4);
            opened = true;
            if (line[7] == ' ')
                threads_set(&p, dev, atoi(line + 8));
            CHECK(problem_run(&p, 7) == RIGHT);
            printf("right\n");
        } else if (strcmp(line, "open\n") == 0) {
            ggml_backend_t backend = ggml_backend_dev_init(dev, NULL);
            printf(backend ? "opened\n" : "not opened\n");
            if (backend)
                ggml_backend_free(backend);
        } else if (strncmp(line, "graph ", 6) == 0) {
            printf(chain_computes(dev, atoi(line + 6)) ? "computed\n" : "failed\n");
        } else {
            const size_t mib = strtoul(line, NULL, 10);
            CHECK(mib > 0 && n < HELD_MAX);
            held[n] = ggml_backend_buft_alloc_buffer(type, mib * MIB);
            printf("%s %zu\n", held[n] ? "granted" : "refused", mib);
            n += !!held[n];
        }
    }
    while (n > 0)
        ggml_backend_buffer_free(held[--n]);
    if (opened)
        problem_free(&p);
    return 0;
}

/* A graph of products with a square matrix; returns the seconds that it took at first. */
static double products_compute(ggml_backend_dev_t dev, int width, int columns, int nodes,
                               enum ggml_status *ret_status)
{
    const size_t tensors = (size_t)nodes + 2;
    struct ggml_context *ctx = context_of(tensors);
    struct ggml_tensor *a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, width, width);
    struct ggml_tensor *y = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, width, columns);
    for (int i = 0; i < nodes; i++)
        y = ggml_mul_mat(ctx, a, y);
    double seconds;
    *ret_status = compute_twice(dev, ctx, y, tensors, &seconds);
    return seconds;
}

static int products_run(ggml_backend_dev_t dev, int width, int columns, int nodes)
{
    enum ggml_status status;
    const double seconds = products_compute(dev, width, columns, nodes, &status);
    printf("computed for %.1f s\nstatus %d\n", seconds, status);
    return status == GGML_STATUS_SUCCESS ? 0 : 3;
}

/* Half a teraflop, a minute of a slow core's time and seconds of a fast one's: in one operation …
 */
int slow_run(ggml_backend_dev_t dev)
{
    return products_run(dev, 6144, 6144, 1);
}

/* … and as many operations as take eight seconds, by how long a few take. */
int long_run(ggml_backend_dev_t dev)
{
    const int few = 10, width = 2048, columns = 64;
    enum ggml_status status;
    const double seconds = products_compute(dev, width, columns, few, &status);
    CHECK(status == GGML_STATUS_SUCCESS && seconds > 0);
    return products_run(dev, width, columns, (int)fmin(few * 8 / seconds, 20000) + few);
}
