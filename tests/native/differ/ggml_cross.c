/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two streams of one device: what the first one does to the source after an asynchronous copy comes
 * after the copy, also if the second one, behind whose work the copy waits, has much to do first.
 */
#include <string.h>

#include "tests/native/differ/ggml_steps.h"

enum { SIDE = 320, PRODUCTS = 10, NUMBERS = 4096 };

struct labour labour_new(ggml_backend_buffer_type_t buft)
{
    const struct ggml_init_params params = {.mem_size = (PRODUCTS + 1) * ggml_tensor_overhead() +
                                                        ggml_graph_overhead(),
                                            .no_alloc = true};
    struct labour l = {.ctx = ggml_init(params)};
    struct ggml_tensor *a = ggml_new_tensor_2d(l.ctx, GGML_TYPE_F32, SIDE, SIDE), *t = a;
    l.graph = ggml_new_graph(l.ctx);
    for (int i = 0; i < PRODUCTS; i++)
        t = ggml_mul_mat(l.ctx, a, t);
    ggml_build_forward_expand(l.graph, t);
    l.buffer = ggml_backend_alloc_ctx_tensors_from_buft(l.ctx, buft);
    if (!l.buffer)
        differ_found("no buffer for %d products", PRODUCTS);
    ggml_backend_buffer_clear(l.buffer, 0);
    return l;
}

void labour_free(struct labour *l)
{
    ggml_backend_buffer_free(l->buffer);
    ggml_free(l->ctx);
}

/* Whole areas, so that nobody else has to do with them. */
static struct pair numbers_of(struct area *a)
{
    struct ggml_tensor layout = {.type = GGML_TYPE_F32,
                                 .ne = {NUMBERS, 1, 1, 1},
                                 .nb = {4, 4 * NUMBERS, 4 * NUMBERS, 4 * NUMBERS}};
    return area_view(a, &layout, 0);
}

static void change(struct world *w, unsigned first, struct pair src)
{
    const size_t size = ggml_nbytes(src.t[NATIVE]);
    uint8_t *data = differ_alloc(size);
    world_fill_bytes(w, data, size);
    for (int s = 0; s < SIDES; s++)
        ggml_backend_tensor_set_async(w->stream[s][first], src.t[s], data, 0, size);
    world_later(w, (int)first, data, NULL, 0);
}

void step_cross(struct world *w)
{
    if (w->n_streams < 2)
        world_stream_open(w);
    const unsigned first = differ_below(&w->r, w->n_streams);
    const unsigned second = (first + 1) % w->n_streams;
    struct area *from = world_area_new(w, AREA_DEVICE, sizeof(float) * NUMBERS);
    struct area *to = from ? world_area_new(w, AREA_DEVICE, sizeof(float) * NUMBERS) : NULL;
    struct labour labour[SIDES];
    differ_step("a copy from stream %u to stream %u, which is busy, then new contents", first,
                second);
    for (int s = 0; to && s < SIDES; s++)
        labour[s] = labour_new(world_buft(w, s, AREA_DEVICE));
    if (to) {
        const struct pair src = numbers_of(from), dst = numbers_of(to);
        world_use(w, from, (int)first);
        world_use(w, to, (int)second);
        world_use_beside(from, (int)second);
        for (int s = 0; s < SIDES; s++) {
            ggml_backend_graph_compute_async(w->stream[s][second], labour[s].graph);
            ggml_backend_tensor_copy_async(w->stream[s][first], w->stream[s][second], src.t[s],
                                           dst.t[s]);
        }
        change(w, first, src);
        world_synchronize(w, first);
        world_synchronize(w, second);
        world_compare(w, to, "what was copied before the source changed");
        labour_free(&labour[NATIVE]);
        labour_free(&labour[REMOTE]);
        world_area_free(w, to);
    }
    if (from)
        world_area_free(w, from);
}
