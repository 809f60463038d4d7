/* SPDX-License-Identifier: Apache-2.0 */
/* As many backends as a device gives, and what goes on beside them. */
#include <stdlib.h>
#include <string.h>

#include "tests/native/differ/ggml_steps.h"

enum { TRIES = 70 /* more than the remote device has; the native one is not asked for so many */ };

/* An op that no device has: to say yes is to promise what cannot be done. */
static void ask(struct world *w)
{
    const struct ggml_init_params params = {.mem_size = 4 * ggml_tensor_overhead(),
                                            .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    /* Of a size that was never asked for: no answer is known. */
    struct ggml_tensor *a =
        ggml_new_tensor_1d(ctx, GGML_TYPE_F64, 1 + differ_below(&w->r, 1u << 30));
    const struct ggml_tensor *no = ggml_cos(ctx, a);
    if (ggml_backend_dev_supports_op(w->dev[REMOTE], no))
        differ_found("supports_op says yes to COS of F64");
    struct ggml_tensor *b =
        ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1 + differ_below(&w->r, 1u << 30));
    const struct ggml_tensor *yes = ggml_scale(ctx, b, 2);
    if (!ggml_backend_dev_supports_op(w->dev[REMOTE], yes))
        differ_found("supports_op says no to SCALE of F32");
    ggml_free(ctx);
}

static void use_memory(struct world *w)
{
    size_t left, total;
    ggml_backend_dev_memory(w->dev[REMOTE], &left, &total);
    if (!left || !total)
        differ_found("the device has %zu bytes left of %zu", left, total);
    struct area *a = world_area_new(w, AREA_DEVICE, 1000 + differ_below(&w->r, 100000));
    if (!a)
        return;
    world_compare(w, a, "an area made beside many backends");
    world_area_free(w, a);
}

/* Set, computed and read behind this backend alone. */
static void compute(struct world *w, ggml_backend_t backend, unsigned number)
{
    const struct ggml_init_params params = {
        .mem_size = 4 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    struct ggml_tensor *a = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_tensor *t = ggml_scale(ctx, a, 2);
    ggml_build_forward_expand(graph, t);
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(ctx, world_buft(w, REMOTE, AREA_DEVICE));
    if (!buffer)
        differ_found("no buffer with %u backends", number);
    float data[64], expected[64];
    for (int i = 0; i < 64; i++) {
        data[i] = differ_float(&w->r);
        expected[i] = data[i] * 2;
    }
    ggml_backend_tensor_set_async(backend, a, data, 0, sizeof(data));
    if (ggml_backend_graph_compute_async(backend, graph) != GGML_STATUS_SUCCESS)
        differ_found("no graph is computed by backend %u", number);
    float got[64];
    ggml_backend_tensor_get_async(backend, t, got, 0, sizeof(got));
    ggml_backend_synchronize(backend);
    differ_compare("SCALE", GGML_TYPE_F32, expected, got, sizeof(got));
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

void step_many(struct world *w)
{
    ggml_backend_t many[TRIES];
    unsigned n = 0;
    differ_step("as many backends as there may be");
    world_streams_lock();
    /* The last ones are refused, and that must be all that happens. */
    while (n < TRIES && (many[n] = ggml_backend_dev_init(w->dev[REMOTE], NULL)))
        n++;
    differ_detail(": %u and %u", n, w->n_streams);
    ask(w);
    use_memory(w);
    for (unsigned i = 0; i < n; i += 1 + differ_below(&w->r, 16))
        compute(w, many[i], i);
    world_compare_all(w);
    while (n)
        ggml_backend_free(many[--n]);
    world_streams_unlock();
    ask(w);
}
