/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Much at once: sizes around each at which a transfer changes its way, memory that the device
 * reaches, many pieces under way together, sets before, behind and beside graphs, and streams that
 * hand over what a busy one writes. What has been waited for is looked at and overwritten at once,
 * with no other wait in between.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/native/differ/ggml_steps.h"

#define MIB ((size_t)1 << 20)

enum { PARTS_MAX = 64, NUMBERS = 640 * 1024 };

/* Whoever works here has areas of its own, so that nobody else has to wait. */
struct bulk {
    struct world *w;
    struct area *device, *from,
        *to;                /* the last two: memory that the program reaches, of one size */
    size_t most;            /* what fits all of them */
    unsigned first, second; /* streams */
};

/* On both sides of every limit on the way. */
static size_t pick_border(struct bulk *b)
{
    static const size_t borders[] = {2,       64,  256,     4096,    8192,    65536,   MIB / 4,
                                     MIB / 2, MIB, 2 * MIB, 3 * MIB, 8 * MIB, 20 * MIB};
    struct differ_random *r = &b->w->r;
    const size_t n = borders[differ_below(r, sizeof(borders) / sizeof(borders[0]))];
    const size_t size = n - 1 + differ_below(r, 3);
    return size < b->most ? size : b->most;
}

static size_t pick_place(struct bulk *b, const struct area *a, size_t size)
{
    return differ_below(&b->w->r, (uint32_t)(a->size - size + 1));
}

static uint8_t *memory(const struct area *a, int side, size_t offset)
{
    return (uint8_t *)a->bytes.t[side]->data + offset;
}

/* The same bytes on both sides; they may be read as small whole floats. */
static void fill(struct bulk *b, struct area *a, size_t offset, size_t size)
{
    float block[256];
    world_use(b->w, a, NOBODY);
    for (size_t i = 0; i < 256; i++)
        block[i] = (float)differ_below(&b->w->r, 1000);
    for (int s = 0; s < SIDES; s++) {
        uint8_t *to = memory(a, s, offset);
        for (size_t at = 0; at < size; at += sizeof(block))
            memcpy(to + at, block, size - at < sizeof(block) ? size - at : sizeof(block));
    }
}

static void spoil(const struct area *a, size_t offset, size_t size)
{
    for (int s = 0; s < SIDES; s++)
        memset(memory(a, s, offset), 0xee, size);
}

static void same(const char *what, const struct area *a, size_t offset, size_t size)
{
    differ_compare_bytes(what, memory(a, NATIVE, offset), memory(a, REMOTE, offset), size);
}

/* ---- bytes ---------------------------------------------------------------------------- */

/* The call is back, and the memory is the caller's. */
static void there_and_back(struct bulk *b)
{
    const size_t size = pick_border(b), at = pick_place(b, b->device, size);
    const size_t from = pick_place(b, b->from, size), to = pick_place(b, b->to, size);
    differ_detail(" %zu bytes from %zu to %zu to %zu;", size, from, at, to);
    fill(b, b->from, from, size);
    world_use(b->w, b->to, NOBODY);
    world_use(b->w, b->device, NOBODY);
    for (int s = 0; s < SIDES; s++)
        ggml_backend_tensor_set(b->device->bytes.t[s], memory(b->from, s, from), at, size);
    spoil(b->from, from, size);
    for (int s = 0; s < SIDES; s++)
        ggml_backend_tensor_get(b->device->bytes.t[s], memory(b->to, s, to), at, size);
    same("what was set and read", b->to, 0, b->to->size);
}

/* In pieces, in both directions, and one wait. */
static void many_pieces(struct bulk *b)
{
    const unsigned n = 1 + differ_below(&b->w->r, PARTS_MAX);
    const bool by_event = differ_chance(&b->w->r, 50);
    const size_t all = pick_border(b), part = all / n, at = pick_place(b, b->device, all);
    const size_t from = pick_place(b, b->from, all), to = pick_place(b, b->to, all);
    differ_detail(" %u pieces of %zu bytes, %s;", n, part, by_event ? "an event" : "a wait");
    if (!part)
        return;
    fill(b, b->from, from, all);
    world_use(b->w, b->to, NOBODY);
    world_use(b->w, b->device, (int)b->first);
    world_use_beside(b->from, (int)b->first);
    world_use_beside(b->to, (int)b->first);
    for (int s = 0; s < SIDES; s++) {
        ggml_backend_t stream = b->w->stream[s][b->first];
        ggml_backend_event_t event = by_event ? ggml_backend_event_new(b->w->dev[s]) : NULL;
        struct ggml_tensor *t = b->device->bytes.t[s];
        for (size_t i = 0; i < n; i++)
            ggml_backend_tensor_set_async(stream, t, memory(b->from, s, from + i * part),
                                          at + i * part, part);
        if (event) /* the last mark is the one that counts */
            ggml_backend_event_record(event, stream);
        for (size_t i = n; i-- > 0;)
            ggml_backend_tensor_get_async(stream, t, memory(b->to, s, to + i * part), at + i * part,
                                          part);
        if (event) {
            ggml_backend_event_record(event, stream);
            ggml_backend_event_synchronize(event);
            ggml_backend_event_free(event);
        } else {
            ggml_backend_synchronize(stream);
        }
    }
    same("what was set and read in pieces", b->to, to, n * part);
    spoil(b->from, from, all);
}

/* ---- streams --------------------------------------------------------------------------- */

/* What a busy stream writes another one reads behind an event, of which the last mark counts; or
 * only waits for, after which the source is the program's. */
static void hand_over(struct bulk *b)
{
    const size_t size = pick_border(b), head = size < 1000 ? size : 1000;
    const bool twice = differ_chance(&b->w->r, 50), reads = differ_chance(&b->w->r, 50);
    struct world *w = b->w;
    differ_detail(" %zu bytes handed over%s;", size, twice ? ", marked twice" : "");
    fill(b, b->from, 0, size);
    world_use(w, b->to, NOBODY);
    world_use(w, b->device, (int)b->first);
    world_use_beside(b->from, (int)b->first);
    for (int s = 0; s < SIDES; s++) {
        ggml_backend_t first = w->stream[s][b->first], second = w->stream[s][b->second];
        struct labour labour = labour_new(world_buft(w, s, AREA_DEVICE));
        struct ggml_tensor *t = b->device->bytes.t[s];
        ggml_backend_event_t event = ggml_backend_event_new(w->dev[s]);
        ggml_backend_graph_compute_async(first, labour.graph);
        for (int i = 0; i <= twice; i++) {
            ggml_backend_tensor_set_async(first, t, memory(b->from, s, 0), 0, i ? head : size);
            if (event)
                ggml_backend_event_record(event, first);
        }
        if (event)
            ggml_backend_event_wait(second, event);
        if (reads)
            ggml_backend_tensor_get_async(second, t, memory(b->to, s, 0), 0, size);
        ggml_backend_synchronize(second);
        memset(memory(b->from, s, 0), 0xee, size);
        ggml_backend_synchronize(first);
        if (event)
            ggml_backend_event_free(event);
        labour_free(&labour);
    }
    if (reads)
        same("what was handed over", b->to, 0, size);
}

/* Numbers are set, and doubled by a stream that has much to do before; then they are set anew:
 * behind it in its queue, or once it is done. Beside it others are set. */
static void around_a_graph(struct bulk *b)
{
    struct world *w = b->w;
    const size_t size = NUMBERS * sizeof(float);
    const unsigned how = differ_below(&w->r, 3);
    struct ggml_context *ctx[SIDES];
    struct labour labour[SIDES];
    struct pair x, y;
    if (b->most < 3 * size)
        return;
    differ_detail(" a graph and a set, %u;", how);
    fill(b, b->from, 0, 2 * size);
    fill(b, b->from, size, size / 2);
    world_use(w, b->device, NOBODY);
    world_use(w, b->to, NOBODY);
    for (int s = 0; s < SIDES; s++) {
        char *base = ggml_backend_buffer_get_base(b->device->buffer[s]);
        ctx[s] = ggml_init((struct ggml_init_params){
            .mem_size = 4 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true});
        x.t[s] = ggml_new_tensor_1d(ctx[s], GGML_TYPE_F32, NUMBERS);
        y.t[s] = ggml_scale(ctx[s], x.t[s], 2);
        struct ggml_cgraph *graph = ggml_new_graph(ctx[s]);
        ggml_build_forward_expand(graph, y.t[s]);
        ggml_backend_tensor_alloc(b->device->buffer[s], x.t[s], base);
        ggml_backend_tensor_alloc(b->device->buffer[s], y.t[s], base + size);
        labour[s] = labour_new(world_buft(w, s, AREA_DEVICE));
        ggml_backend_tensor_set(x.t[s], memory(b->from, s, 0), 0, size);
        memset(memory(b->from, s, 0), 0xee, size);
        ggml_backend_graph_compute_async(w->stream[s][b->first], labour[s].graph);
        ggml_backend_graph_compute_async(w->stream[s][b->first], graph);
        if (how == 0)
            ggml_backend_tensor_set_async(w->stream[s][b->first], x.t[s], memory(b->from, s, size),
                                          0, size);
        else if (how == 1) /* beside it */
            ggml_backend_tensor_set(b->device->bytes.t[s], memory(b->from, s, size), 2 * size,
                                    size);
        ggml_backend_synchronize(w->stream[s][b->first]);
        if (how == 2)
            ggml_backend_tensor_set(x.t[s], memory(b->from, s, size), 0, size);
        memset(memory(b->from, s, size), 0xee, size);
        labour_free(&labour[s]);
    }
    pair_compare_bytes("numbers doubled", y, 0, size);
    pair_compare_bytes("numbers set anew", x, 0, size);
    for (int s = 0; s < SIDES; s++)
        ggml_free(ctx[s]);
}

void step_bulk(struct world *w)
{
    static void (*const work[])(struct bulk *b) = {there_and_back, there_and_back, many_pieces,
                                                   many_pieces,    hand_over,      around_a_graph};
    struct bulk b = {.w = w};
    const unsigned times = 1 + differ_below(&w->r, 8);
    const size_t size =
        differ_chance(&w->r, 20) ? 21 * MIB : 3 * MIB + differ_below(&w->r, 6 << 20);
    const enum area_kind kind = differ_chance(&w->r, 80) ? AREA_HOST : AREA_CPU;
    differ_step("much at once:");
    if (w->n_streams < 2)
        world_stream_open(w);
    b.first = differ_below(&w->r, w->n_streams);
    b.second = (b.first + 1) % w->n_streams;
    b.device = world_area_new(w, AREA_DEVICE, size + differ_below(&w->r, 100));
    b.from = b.device ? world_area_new(w, kind, size) : NULL;
    b.to = b.from ? world_area_new(w, kind, size + 7) : NULL;
    b.most = size;
    for (int s = 0; b.device && s < SIDES && size % 2; s++)
        ggml_backend_buffer_set_usage(b.device->buffer[s], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (unsigned i = 0; b.to && i < times; i++)
        work[differ_below(&w->r, sizeof(work) / sizeof(work[0]))](&b);
    if (b.device)
        world_compare(w, b.device, "all of the device's area");
    struct area *all[] = {b.device, b.from, b.to};
    for (int i = 0; i < 3; i++) {
        if (all[i])
            world_area_free(w, all[i]);
    }
}
