/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/differ/ggml_world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const enum ggml_type area_types[AREA_TYPES] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_I32,
                                               GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_I64};

enum { AREA_VIEWS = 128 /* then a context is made anew */ };

/* ---- streams -------------------------------------------------------------------- */

/* One thread: the order of sums depends on their number. */
static void set_one_thread(ggml_backend_t backend)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    void *fn = reg ? ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads") : NULL;
    ggml_backend_set_n_threads_t set;
    memcpy(&set, &fn, sizeof(set));
    if (set)
        set(backend, 1);
}

static ggml_backend_t open_backend(ggml_backend_dev_t dev)
{
    ggml_backend_t b = ggml_backend_dev_init(dev, NULL);
    if (!b)
        differ_found("%s opens no further backend", ggml_backend_dev_name(dev));
    set_one_thread(b);
    return b;
}

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

void world_streams_lock(void)
{
    pthread_mutex_lock(&streams_lock);
}

void world_streams_unlock(void)
{
    pthread_mutex_unlock(&streams_lock);
}

void world_stream_open(struct world *w)
{
    if (w->n_streams == STREAMS_MAX)
        return;
    world_streams_lock();
    for (int s = 0; s < SIDES; s++)
        w->stream[s][w->n_streams] = open_backend(w->dev[s]);
    w->n_streams++;
    world_streams_unlock();
}

void world_stream_close(struct world *w)
{
    if (w->n_streams == 1)
        return;
    world_synchronize(w, w->n_streams - 1);
    w->n_streams--;
    for (int s = 0; s < SIDES; s++)
        ggml_backend_free(w->stream[s][w->n_streams]);
}

/* ---- areas ---------------------------------------------------------------------- */

ggml_backend_buffer_type_t world_buft(const struct world *w, int side, enum area_kind kind)
{
    ggml_backend_buffer_type_t t = NULL;
    if (kind == AREA_DEVICE)
        t = ggml_backend_dev_buffer_type(w->dev[side]);
    else if (kind == AREA_HOST)
        t = ggml_backend_dev_host_buffer_type(w->dev[side]);
    return t ? t : ggml_backend_cpu_buffer_type();
}

static struct ggml_tensor *in_buffer(struct ggml_context *ctx, ggml_backend_buffer_t buffer,
                                     enum ggml_type type, size_t size)
{
    const int64_t n = (int64_t)(size / ggml_type_size(type)) * ggml_blck_size(type);
    struct ggml_tensor *t = ggml_new_tensor_1d(ctx, type, n);
    if (ggml_backend_tensor_alloc(buffer, t, ggml_backend_buffer_get_base(buffer)) !=
        GGML_STATUS_SUCCESS)
        differ_found("no tensor of %zu bytes in a buffer of that size", size);
    return t;
}

/* Tensors that stand for the whole area; views are of them. */
static void area_name_parts(struct area *a)
{
    const struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * (AREA_VIEWS + AREA_TYPES + 1), .no_alloc = true};
    for (int s = 0; s < SIDES; s++) {
        ggml_free(a->ctx[s]);
        a->ctx[s] = ggml_init(params);
        a->bytes.t[s] = in_buffer(a->ctx[s], a->buffer[s], GGML_TYPE_I8, a->size);
        for (int i = 0; i < AREA_TYPES; i++)
            a->bases[i].t[s] = in_buffer(a->ctx[s], a->buffer[s], area_types[i], a->size);
    }
    a->views = 0;
}

void world_fill_bytes(struct world *w, void *data, size_t size)
{
    uint8_t *p = data;
    for (; size >= 8; size -= 8, p += 8) {
        const uint64_t v = differ_next(&w->r);
        memcpy(p, &v, 8);
    }
    while (size--)
        *p++ = (uint8_t)differ_next(&w->r);
}

struct area *world_area_new(struct world *w, enum area_kind kind, size_t size)
{
    struct area *a = w->areas, *end = a + AREAS_MAX;
    while (a < end && a->buffer[NATIVE])
        a++;
    if (a == end)
        return NULL;
    *a = (struct area){.kind = kind, .size = size, .leader = NOBODY};
    for (int s = 0; s < SIDES; s++) {
        a->buffer[s] = ggml_backend_buft_alloc_buffer(world_buft(w, s, kind), size);
        if (!a->buffer[s])
            differ_found("no buffer of %zu bytes on the %s side", size, side_names[s]);
    }
    area_name_parts(a);
    uint8_t *data = differ_alloc(size);
    world_fill_bytes(w, data, size);
    for (int s = 0; s < SIDES; s++)
        ggml_backend_tensor_set(a->bytes.t[s], data, 0, size);
    free(data);
    return a;
}

void world_area_free(struct world *w, struct area *a)
{
    world_use(w, a, NOBODY);
    for (int s = 0; s < SIDES; s++) {
        ggml_backend_buffer_free(a->buffer[s]);
        ggml_free(a->ctx[s]);
    }
    *a = (struct area){.leader = NOBODY};
}

static struct area *pick(struct world *w, unsigned kinds, bool owned)
{
    struct area *found = NULL;
    uint32_t n = 0;
    for (struct area *a = w->areas; a < w->areas + AREAS_MAX; a++) {
        if (a->buffer[NATIVE] && (!kinds || kinds & 1u << a->kind) && (owned || !a->owned) &&
            differ_below(&w->r, ++n) == 0)
            found = a;
    }
    return found;
}

struct area *world_area_pick(struct world *w, unsigned kinds)
{
    return pick(w, kinds, false);
}

struct area *world_area_pick_source(struct world *w)
{
    return pick(w, 0, true);
}

const char *area_name(const struct world *w, const struct area *a)
{
    static const char *const kinds[AREA_KINDS] = {"device", "host", "CPU"};
    static _Thread_local char text[4][32];
    static _Thread_local unsigned turn;
    char *to = text[turn++ % 4];
    snprintf(to, sizeof(text[0]), "%s area %d", kinds[a->kind], (int)(a - w->areas));
    return to;
}

struct pair area_view(struct area *a, const struct ggml_tensor *layout, size_t offset)
{
    struct pair p;
    int which = 0;
    if (++a->views > AREA_VIEWS)
        area_name_parts(a);
    while (which < AREA_TYPES - 1 && area_types[which] != layout->type)
        which++;
    for (int s = 0; s < SIDES; s++) {
        p.t[s] = ggml_view_4d(a->ctx[s], a->bases[which].t[s], layout->ne[0], layout->ne[1],
                              layout->ne[2], layout->ne[3], layout->nb[1], layout->nb[2],
                              layout->nb[3], 0);
        memcpy(p.t[s]->nb, layout->nb, sizeof(layout->nb));
        p.t[s]->buffer = a->buffer[s];
        p.t[s]->view_offs = offset;
        p.t[s]->data = (char *)a->bases[which].t[s]->data + offset;
    }
    return p;
}

/* ---- who works on what ----------------------------------------------------------- */

static void later_settle(struct later *l, uint64_t streams)
{
    if (!l->streams)
        return;
    l->streams &= ~streams;
    if (l->streams)
        return;
    if (l->size)
        differ_compare_bytes("a read", l->data[NATIVE], l->data[REMOTE], l->size);
    free(l->data[NATIVE]);
    free(l->data[REMOTE]);
    *l = (struct later){0};
}

void world_synchronize(struct world *w, unsigned stream)
{
    for (int s = 0; s < SIDES; s++)
        ggml_backend_synchronize(w->stream[s][stream]);
    for (struct area *a = w->areas; a < w->areas + AREAS_MAX; a++) {
        a->users &= ~(UINT64_C(1) << stream);
        if (!a->users)
            a->leader = NOBODY;
    }
    for (int i = 0; i < READS_MAX; i++)
        later_settle(&w->later[i], UINT64_C(1) << stream);
}

void world_synchronize_all(struct world *w)
{
    for (unsigned i = 0; i < w->n_streams; i++)
        world_synchronize(w, i);
}

void world_use(struct world *w, struct area *a, int stream)
{
    if (stream == NOBODY || a->leader != stream) {
        while (a->users && (stream == NOBODY || a->users != UINT64_C(1) << stream)) {
            unsigned user = (unsigned)__builtin_ctzll(a->users);
            if (stream != NOBODY && user == (unsigned)stream)
                user = (unsigned)__builtin_ctzll(a->users & (a->users - 1));
            world_synchronize(w, user);
        }
    }
    if (stream == NOBODY)
        return;
    a->users |= UINT64_C(1) << stream;
    a->leader = stream;
}

void world_use_beside(struct area *a, int stream)
{
    a->users |= UINT64_C(1) << stream;
}

void world_ordered(struct world *w, unsigned first, unsigned second)
{
    for (struct area *a = w->areas; a < w->areas + AREAS_MAX; a++) {
        if (a->users && a->leader == (int)first)
            a->leader = (int)second;
    }
}

void world_later(struct world *w, int stream, void *native, void *remote, size_t size)
{
    struct later now = {.streams = 1, .data = {native, remote}, .size = size};
    if (stream == NOBODY) {
        later_settle(&now, 1);
        return;
    }
    struct later *l = w->later, *end = l + READS_MAX;
    while (l < end && l->streams)
        l++;
    if (l == end) {
        world_synchronize_all(w);
        l = w->later;
    }
    *l = now;
    l->streams = UINT64_C(1) << stream;
}

/* ---- comparing ------------------------------------------------------------------- */

static void compare_part(const char *what, struct pair p, size_t offset, size_t size, bool numbers)
{
    char *data[SIDES] = {differ_alloc(size), differ_alloc(size)};
    for (int s = 0; s < SIDES; s++)
        ggml_backend_tensor_get(p.t[s], data[s], offset, size);
    if (numbers)
        differ_compare(what, p.t[NATIVE]->type, data[NATIVE], data[REMOTE], size);
    else
        differ_compare_bytes(what, data[NATIVE], data[REMOTE], size);
    free(data[NATIVE]);
    free(data[REMOTE]);
}

void pair_compare(const char *what, struct pair p)
{
    compare_part(what, p, 0, ggml_nbytes(p.t[NATIVE]), true);
}

void pair_compare_bytes(const char *what, struct pair p, size_t offset, size_t size)
{
    compare_part(what, p, offset, size, false);
}

void world_compare(struct world *w, struct area *a, const char *name)
{
    world_use(w, a, NOBODY);
    pair_compare_bytes(name, a->bytes, 0, a->size);
}

void world_compare_all(struct world *w)
{
    for (struct area *a = w->areas; a < w->areas + AREAS_MAX; a++) {
        if (a->buffer[NATIVE])
            world_compare(w, a, area_name(w, a));
    }
}

/* ---- life ------------------------------------------------------------------------ */

void world_init(struct world *w, const ggml_backend_dev_t dev[SIDES], uint64_t seed)
{
    *w = (struct world){.r = differ_random(seed), .dev = {dev[NATIVE], dev[REMOTE]}};
    w->cpu_dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    for (int s = 0; s < SIDES; s++)
        w->cpu[s] = open_backend(w->cpu_dev);
    world_stream_open(w);
}

void world_fini(struct world *w)
{
    world_synchronize_all(w);
    world_compare_all(w);
    for (struct area *a = w->areas; a < w->areas + AREAS_MAX; a++) {
        if (a->buffer[NATIVE])
            world_area_free(w, a);
    }
    while (w->n_streams > 1)
        world_stream_close(w);
    for (int s = 0; s < SIDES; s++) {
        ggml_backend_free(w->stream[s][0]);
        ggml_backend_free(w->cpu[s]);
    }
}
