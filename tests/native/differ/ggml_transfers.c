/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between the program's memory and areas, synchronously and behind a stream; events. */
#include <stdlib.h>
#include <string.h>

#include "tests/native/differ/ggml_steps.h"

struct range {
    size_t offset, size;
};

/* Small ones mostly; those from 8 KiB and from 64 KiB on travel in other ways. */
static size_t pick_size(struct differ_random *r, size_t most)
{
    static const size_t scales[] = {16, 256, 8192, 8200, 65536, 300000, SIZE_MAX};
    size_t scale = scales[differ_below(r, sizeof(scales) / sizeof(scales[0]))];
    scale = scale < most ? scale : most;
    return differ_chance(r, 20) ? scale : 1 + differ_below(r, (uint32_t)scale);
}

static struct range pick_range(struct world *w, const struct area *a)
{
    struct range at = {.size = pick_size(&w->r, a->size)};
    at.offset = differ_below(&w->r, (uint32_t)(a->size - at.size + 1));
    return at;
}

static uint8_t *random_bytes(struct world *w, size_t size)
{
    uint8_t *p = differ_alloc(size);
    world_fill_bytes(w, p, size);
    return p;
}

static void do_set(struct world *w, struct area *a)
{
    const struct range at = pick_range(w, a);
    uint8_t *data = random_bytes(w, at.size);
    differ_step("set %zu bytes at %zu of %s", at.size, at.offset, area_name(w, a));
    world_use(w, a, NOBODY);
    for (int s = 0; s < SIDES; s++)
        ggml_backend_tensor_set(a->bytes.t[s], data, at.offset, at.size);
    /* It is the caller's again. */
    memset(data, 0xee, at.size);
    free(data);
}

static void do_get(struct world *w, struct area *a)
{
    const struct range at = pick_range(w, a);
    differ_step("get %zu bytes at %zu of %s", at.size, at.offset, area_name(w, a));
    world_use(w, a, NOBODY);
    pair_compare_bytes("a read", a->bytes, at.offset, at.size);
}

static void do_memset(struct world *w, struct area *a)
{
    const uint8_t value = (uint8_t)differ_next(&w->r);
    world_use(w, a, NOBODY);
    if (differ_chance(&w->r, 10)) {
        differ_step("clear %s", area_name(w, a));
        for (int s = 0; s < SIDES; s++)
            ggml_backend_buffer_clear(a->buffer[s], value);
        return;
    }
    const struct range at = pick_range(w, a);
    differ_step("memset %zu bytes at %zu of %s", at.size, at.offset, area_name(w, a));
    for (int s = 0; s < SIDES; s++)
        ggml_backend_tensor_memset(a->bytes.t[s], value, at.offset, at.size);
}

/* `n` rows of `size`, apart on both ends. */
struct rows {
    size_t offset, size, n, stride, stride_data;
};

static struct rows pick_rows(struct world *w, const struct area *a)
{
    struct rows at = {.size = pick_size(&w->r, a->size / 2)};
    at.stride = at.size + differ_below(&w->r, 100);
    at.stride_data = at.size + differ_below(&w->r, 20);
    const size_t most = (a->size - at.size) / at.stride + 1;
    at.n = 1 + differ_below(&w->r, (uint32_t)(most < 40 ? most : 40));
    at.offset = differ_below(&w->r, (uint32_t)(a->size - at.size - (at.n - 1) * at.stride + 1));
    return at;
}

static void move_rows(ggml_backend_t stream, struct ggml_tensor *t, uint8_t *data, struct rows at,
                      bool get)
{
    if (get && stream)
        ggml_backend_tensor_get_2d_async(stream, t, data, at.offset, at.size, at.n, at.stride,
                                         at.stride_data);
    else if (get)
        ggml_backend_tensor_get_2d(t, data, at.offset, at.size, at.n, at.stride, at.stride_data);
    else if (stream)
        ggml_backend_tensor_set_2d_async(stream, t, data, at.offset, at.size, at.n, at.stride,
                                         at.stride_data);
    else
        ggml_backend_tensor_set_2d(t, data, at.offset, at.size, at.n, at.stride, at.stride_data);
}

/* What both sides are given, or room for what each of them gives. */
static void pick_data(struct world *w, uint8_t *data[SIDES], size_t size, bool get)
{
    data[NATIVE] = get ? differ_alloc(size) : random_bytes(w, size);
    data[REMOTE] = get ? differ_alloc(size) : data[NATIVE];
}

/* The data is compared and freed when it is time. */
static void settle(struct world *w, int stream, uint8_t *data[SIDES], size_t size, bool get)
{
    world_later(w, stream, data[NATIVE], get ? data[REMOTE] : NULL, get ? size : 0);
}

static void do_rows(struct world *w, struct area *a, int stream, bool get)
{
    const struct rows at = pick_rows(w, a);
    const size_t size = at.n * at.stride_data;
    uint8_t *data[SIDES];
    pick_data(w, data, size, get);
    differ_step("%s %zu rows of %zu bytes, %zu apart, at %zu of %s, stream %d", get ? "get" : "set",
                at.n, at.size, at.stride, at.offset, area_name(w, a), stream);
    world_use(w, a, stream);
    for (int s = 0; s < SIDES; s++) {
        /* Between the rows nothing may be written. */
        if (get)
            memset(data[s], 0x5a, size);
        move_rows(stream == NOBODY ? NULL : w->stream[s][stream], a->bytes.t[s], data[s], at, get);
    }
    settle(w, stream, data, size, get);
}

/* To or from the program's memory, or memory of the device that the program reaches. */
static void do_async(struct world *w, struct area *a, unsigned stream, bool get)
{
    const struct range at = pick_range(w, a);
    struct area *other = differ_chance(&w->r, 40) ? world_area_pick(w, 1u << AREA_HOST) : NULL;
    uint8_t *data[SIDES];
    if (other && (other->size < at.size || other == a))
        other = NULL;
    differ_step("%s %zu bytes at %zu of %s %s %s behind stream %u", get ? "get" : "set", at.size,
                at.offset, area_name(w, a), get ? "to" : "from",
                other ? area_name(w, other) : "memory", stream);
    world_use(w, a, (int)stream);
    if (other) {
        const size_t offset = differ_below(&w->r, (uint32_t)(other->size - at.size + 1));
        /* The CPU works on it now, or the device later. */
        world_use(w, other, NOBODY);
        world_use_beside(other, (int)stream);
        for (int s = 0; s < SIDES; s++)
            data[s] = (uint8_t *)other->bytes.t[s]->data + offset;
    } else {
        pick_data(w, data, at.size, get);
    }
    for (int s = 0; s < SIDES; s++) {
        if (get)
            ggml_backend_tensor_get_async(w->stream[s][stream], a->bytes.t[s], data[s], at.offset,
                                          at.size);
        else
            ggml_backend_tensor_set_async(w->stream[s][stream], a->bytes.t[s], data[s], at.offset,
                                          at.size);
    }
    if (!other)
        settle(w, (int)stream, data, at.size, get);
}

/* The native side has none where it is the CPU: there all is done when a call returns. */
static void do_event(struct world *w, unsigned first)
{
    const unsigned second = differ_below(&w->r, w->n_streams);
    if (first == second)
        return;
    ggml_backend_event_t e[SIDES];
    differ_step("an event of stream %u that stream %u waits for", first, second);
    for (int s = 0; s < SIDES; s++) {
        e[s] = ggml_backend_event_new(w->dev[s]);
        if (!e[s])
            continue;
        ggml_backend_event_record(e[s], w->stream[s][first]);
        ggml_backend_event_wait(w->stream[s][second], e[s]);
    }
    world_ordered(w, first, second);
    if (differ_chance(&w->r, 30)) {
        differ_detail(", then the program");
        for (int s = 0; s < SIDES; s++) {
            if (e[s])
                ggml_backend_event_synchronize(e[s]);
        }
    }
    for (int s = 0; s < SIDES; s++)
        ggml_backend_event_free(e[s]);
}

/* Plain memory to the program. */
static void do_touch(struct world *w)
{
    struct area *a = world_area_pick(w, 1u << AREA_HOST | 1u << AREA_CPU);
    if (!a)
        return;
    const struct range at = pick_range(w, a);
    uint8_t *data = random_bytes(w, at.size);
    differ_step("write %zu bytes at %zu into %s", at.size, at.offset, area_name(w, a));
    world_use(w, a, NOBODY);
    for (int s = 0; s < SIDES; s++)
        memcpy((char *)a->bytes.t[s]->data + at.offset, data, at.size);
    free(data);
}

void step_transfer(struct world *w)
{
    struct area *any = world_area_pick(w, 0);
    struct area *device = world_area_pick(w, 1u << AREA_DEVICE);
    const unsigned stream = differ_below(&w->r, w->n_streams);
    if (!any || !device)
        return;
    const uint32_t what = differ_below(&w->r, 14);
    switch (what) {
    case 0:
        do_set(w, any);
        break;
    case 1:
        do_get(w, any);
        break;
    case 2: /* ggml's Vulkan backend fills whole words only, natively too */
        if (!differ_left_out("memset"))
            do_memset(w, any);
        break;
    case 3:
    case 4:
        do_rows(w, any, NOBODY, what == 4);
        break;
    case 5:
    case 6:
        do_rows(w, device, (int)stream, what == 6);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        do_async(w, device, stream, what >= 9);
        break;
    case 11:
        differ_step("synchronize stream %u", stream);
        world_synchronize(w, stream);
        break;
    case 12:
        do_event(w, stream);
        break;
    default:
        do_touch(w);
        break;
    }
}
