/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between tensors of the same layout, padded and permuted ones too; areas and streams. */
#include <string.h>

#include "tests/native/differ/ggml_steps.h"

/* Random dimensions with strides that leave room between rows, never overlapping. */
static struct ggml_tensor pick_layout(struct world *w)
{
    struct differ_random *r = &w->r;
    const enum ggml_type type = area_types[differ_below(r, AREA_TYPES)];
    struct ggml_tensor t = {.type = type};
    const int64_t block = ggml_blck_size(type);
    unsigned order[4] = {0, 1, 2, 3};
    const bool large = differ_chance(r, 15);
    t.ne[0] = block * differ_between(r, 1, large ? 80 : block > 1 ? 3 : 20);
    t.ne[1] = differ_between(r, 1, large ? 200 : 12);
    t.ne[2] = differ_chance(r, 50) ? 1 : differ_between(r, 1, 4);
    t.ne[3] = differ_chance(r, 80) ? 1 : differ_between(r, 1, 3);
    if (block == 1 && differ_chance(r, 25)) {
        const unsigned i = differ_below(r, 4), k = differ_below(r, 4), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    size_t next = ggml_type_size(type);
    for (unsigned i = 0; i < 4; i++) {
        const unsigned d = order[i];
        t.nb[d] = next;
        next = next * (size_t)(d == 0 ? t.ne[0] / block : t.ne[d]);
        /* Rows apart by whole elements. */
        if (differ_chance(r, 35))
            next += ggml_type_size(type) * (size_t)differ_between(r, 1, 8);
    }
    return t;
}

static bool pick_place(struct world *w, const struct area *a, const struct ggml_tensor *t,
                       size_t *ret_offset)
{
    /* ggml's own alignment of what views are made of */
    const size_t step = ggml_type_size(t->type), span = ggml_nbytes(t);
    if (span > a->size)
        return false;
    *ret_offset = differ_below(&w->r, (uint32_t)((a->size - span) / step + 1)) * step;
    return true;
}

static void show_layout(const struct ggml_tensor *t)
{
    differ_detail(", %s [%d %d %d %d] strides %zu %zu %zu %zu", ggml_type_name(t->type),
                  (int)t->ne[0], (int)t->ne[1], (int)t->ne[2], (int)t->ne[3], t->nb[0], t->nb[1],
                  t->nb[2], t->nb[3]);
}

static void copy_async(struct world *w, struct area *from, struct area *to, struct pair src,
                       struct pair dst)
{
    const unsigned first = differ_below(&w->r, w->n_streams);
    unsigned second = differ_below(&w->r, w->n_streams);
    ggml_backend_t a[SIDES], b[SIDES];
    /* An area that two streams work on has but one leader. */
    if (from == to)
        second = first;
    differ_detail(", streams %u to %u", first, second);
    for (int s = 0; s < SIDES; s++) {
        a[s] = from->kind == AREA_DEVICE ? w->stream[s][first] : w->cpu[s];
        b[s] = to->kind == AREA_DEVICE ? w->stream[s][second] : w->cpu[s];
    }
    world_use(w, from, from->kind == AREA_DEVICE ? (int)first : NOBODY);
    world_use(w, to, to->kind == AREA_DEVICE ? (int)second : NOBODY);
    if (to->kind == AREA_DEVICE)
        world_use_beside(from, (int)second);
    if (from->kind == AREA_DEVICE && to->kind == AREA_DEVICE)
        world_use_beside(to, (int)first);
    for (int s = 0; s < SIDES; s++)
        ggml_backend_tensor_copy_async(a[s], b[s], src.t[s], dst.t[s]);
}

void step_copy(struct world *w)
{
    struct area *from = world_area_pick_source(w), *to = world_area_pick(w, 0);
    const struct ggml_tensor layout = pick_layout(w);
    const size_t span = ggml_nbytes(&layout);
    size_t src_at, dst_at;
    if (!from || !to || !pick_place(w, from, &layout, &src_at) ||
        !pick_place(w, to, &layout, &dst_at))
        return;
    /* ggml says nothing about those that overlap. */
    if (from == to && src_at < dst_at + span && dst_at < src_at + span)
        return;
    const struct pair src = area_view(from, &layout, src_at), dst = area_view(to, &layout, dst_at);
    const bool async = differ_chance(&w->r, 50);
    differ_step("copy%s %zu bytes from %zu of %s to %zu of %s", async ? " async" : "", span, src_at,
                area_name(w, from), dst_at, area_name(w, to));
    show_layout(&layout);
    if (async) {
        copy_async(w, from, to, src, dst);
    } else {
        world_use(w, from, NOBODY);
        world_use(w, to, NOBODY);
        for (int s = 0; s < SIDES; s++)
            ggml_backend_tensor_copy(src.t[s], dst.t[s]);
    }
    if (differ_chance(&w->r, 30))
        world_compare(w, to, "the destination's area");
}

void step_life(struct world *w)
{
    static const size_t scales[] = {4096, 100000, 1u << 20, 5u << 20};
    const uint32_t what = differ_below(&w->r, 10);
    if (what < 5) {
        const enum area_kind kind = differ_below(&w->r, AREA_KINDS);
        const size_t size = 1024 + differ_below(&w->r, (uint32_t)scales[differ_below(&w->r, 4)]);
        differ_step("a new area of kind %d, %zu bytes", (int)kind, size);
        world_area_new(w, kind, size);
    } else if (what < 8) {
        struct area *a = world_area_pick(w, 0);
        if (!a)
            return;
        differ_step("the end of %s", area_name(w, a));
        world_compare(w, a, "an area before its end");
        world_area_free(w, a);
    } else if (what == 8) {
        differ_step("a new stream");
        if (w->n_streams < 6)
            world_stream_open(w);
    } else {
        differ_step("the end of a stream");
        world_stream_close(w);
    }
}
