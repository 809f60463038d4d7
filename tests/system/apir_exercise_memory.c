/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host buffers: memory that ggml takes for ordinary and that the device may read and write
 * itself. Where it may not, everything here must hold all the same.
 */
#define _GNU_SOURCE
#include "tests/lib/clock.h"
#include "tests/system/apir_exercise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The device's own host buffer type; devices without one (the CPU) take ordinary memory. */
static ggml_backend_buffer_type_t host_type(ggml_backend_dev_t dev)
{
    ggml_backend_buffer_type_t buft = ggml_backend_dev_host_buffer_type(dev);
    return buft ? buft
                : ggml_backend_dev_buffer_type(
                      ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
}

struct area {
    ggml_backend_buffer_t buffer;
    uint8_t *p;
    size_t size;
};

static void area_free(struct area *a)
{
    ggml_backend_buffer_free(a->buffer);
    *a = (struct area){0};
}
#define cleanup_area __attribute__((cleanup(area_free)))

static struct area area_new(ggml_backend_dev_t dev, size_t size)
{
    struct area a = {.buffer = ggml_backend_buft_alloc_buffer(host_type(dev), size), .size = size};
    CHECK(a.buffer);
    CHECK(ggml_backend_buffer_is_host(a.buffer));
    CHECK(ggml_backend_buffer_get_size(a.buffer) >= size);
    a.p = ggml_backend_buffer_get_base(a.buffer);
    CHECK(a.p && (uintptr_t)a.p % ggml_backend_buft_get_alignment(host_type(dev)) == 0);
    return a;
}

static void same(const uint8_t *got, const uint8_t *want, size_t n, const char *what, size_t size,
                 size_t offset)
{
    for (size_t i = 0; i < n; i++) {
        if (got[i] != want[i])
            fail("%s of %zu at %zu: byte %zu is %02x, not %02x", what, size, offset, i, got[i],
                 want[i]);
    }
}

/* ---- sizes and offsets ------------------------------------------------------------- */

/* On both sides of every limit on the way. */
static const size_t sizes[] = {1,       63,          64,          8191,   8192,
                               8193,    65535,       65536,       65537,  MIB / 2 - 1,
                               MIB / 2, MIB / 2 + 1, MIB - 1,     MIB,    MIB + 1,
                               2 * MIB, 3 * MIB + 7, 8 * MIB - 1, 8 * MIB};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void sync_sizes(ggml_backend_dev_t dev)
{
    cleanup_bytes struct bytes b;
    bytes_init(&b, dev, 9 * MIB);
    cleanup_area struct area from = area_new(dev, 9 * MIB), to = area_new(dev, 9 * MIB);
    for (size_t i = 0; i < 2 * N_SIZES; i++) {
        size_t size = sizes[i % N_SIZES];
        size_t at = (i * 1013 + 1) % (b.size - size), here = (i * 77 + 3) % (from.size - size),
               there = (i * 131 + 5) % (to.size - size - 1);
        random_bytes(b.want + at, size, (uint32_t)(i + 1));
        memcpy(from.p + here, b.want + at, size);
        ggml_backend_tensor_set(b.t, from.p + here, at, size);
        /* The call is back: the memory is the caller's again. */
        memset(from.p + here, 0xee, size);
        to.p[there + size] = 0xa5;
        if (there)
            to.p[there - 1] = 0xa5;
        memset(to.p + there, 0, size);
        ggml_backend_tensor_get(b.t, to.p + there, at, size);
        same(to.p + there, b.want + at, size, "set and get", size, at);
        CHECK(to.p[there + size] == 0xa5 && (there == 0 || to.p[there - 1] == 0xa5));
    }
    bytes_check(&b, "sets from a host buffer");
}

/* By a mark behind it, or by its backend. */
static void wait_for(ggml_backend_t backend, ggml_backend_event_t event)
{
    if (event) {
        ggml_backend_event_record(event, backend);
        ggml_backend_event_synchronize(event);
    } else {
        ggml_backend_synchronize(backend);
    }
}

static void async_sizes(ggml_backend_dev_t dev, bool with_event)
{
    cleanup_bytes struct bytes b;
    bytes_init(&b, dev, 9 * MIB);
    cleanup_area struct area from = area_new(dev, 9 * MIB), to = area_new(dev, 9 * MIB);
    cleanup_backend ggml_backend_t backend = backend_new(dev);
    cleanup_event ggml_backend_event_t event = with_event ? event_new(dev) : NULL;
    for (size_t i = 0; i < 2 * N_SIZES; i++) {
        size_t size = sizes[i % N_SIZES];
        size_t at = (i * 1013 + 1) % (b.size - size), here = (i * 77 + 3) % (from.size - size);
        random_bytes(b.want + at, size, (uint32_t)(i + 100));
        memcpy(from.p + here, b.want + at, size);
        ggml_backend_tensor_set_async(backend, b.t, from.p + here, at, size);
        wait_for(backend, event);
        memset(from.p + here, 0xee, size);
        memset(to.p + here, 0, size);
        ggml_backend_tensor_get_async(backend, b.t, to.p + here, at, size);
        wait_for(backend, event);
        same(to.p + here, b.want + at, size, "asynchronous set and get", size, at);
    }
    ggml_backend_synchronize(backend);
    /* Many under way together, in both directions, one wait. */
    enum { N = 64 };
    size_t part = 8 * MIB / N;
    for (uint32_t round = 0; round < 3; round++) {
        random_bytes(b.want, N * part, 500 + round);
        memcpy(from.p + 1, b.want, N * part);
        memset(to.p, 0, to.size);
        for (size_t i = 0; i < N; i++)
            ggml_backend_tensor_set_async(backend, b.t, from.p + 1 + i * part, i * part, part);
        for (size_t i = N; i-- > 0;)
            ggml_backend_tensor_get_async(backend, b.t, to.p + 3 + i * part, i * part, part);
        ggml_backend_synchronize(backend);
        same(to.p + 3, b.want, N * part, "many sets and gets", part, round);
    }
    bytes_check(&b, "asynchronous sets from a host buffer");
}

/* ---- ranges that are only partly inside ---------------------------------------------- */

enum { SIDE = 256 << 10 };

static void crossing_check(struct bytes *b, ggml_backend_t backend, uint8_t *start, size_t size,
                           uint32_t seed)
{
    random_bytes(b->want, size, seed);
    memcpy(start, b->want, size);
    ggml_backend_tensor_set(b->t, start, 0, size);
    memset(start, 0xee, size);
    ggml_backend_tensor_get(b->t, start, 0, size);
    same(start, b->want, size, "a range across a border", size, seed);
    random_bytes(b->want, size, seed + 1);
    memcpy(start, b->want, size);
    ggml_backend_tensor_set_async(backend, b->t, start, 0, size);
    ggml_backend_synchronize(backend);
    memset(start, 0xee, size);
    ggml_backend_tensor_get_async(backend, b->t, start, 0, size);
    ggml_backend_synchronize(backend);
    same(start, b->want, size, "an asynchronous range across a border", size, seed);
}

static bool map_at(uint8_t *at)
{
    void *p = mmap(at, SIDE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != MAP_FAILED && p != at)
        munmap(p, SIDE);
    return p == at;
}

/* Where the kernel puts a host buffer is its choice: several, until one had ordinary memory
 * before it, one behind it, and one another host buffer. */
static void crossing(ggml_backend_dev_t dev)
{
    enum { MIDDLE = 1 << 20, N = 12 };
    struct area areas[N];
    cleanup_bytes struct bytes b;
    bytes_init(&b, dev, 2 * MIB);
    cleanup_backend ggml_backend_t backend = backend_new(dev);
    for (size_t i = 0; i < N; i++)
        areas[i] = area_new(dev, MIDDLE);
    bool before = false, behind = false, beside = false;
    for (size_t i = 0; i < N; i++) {
        uint8_t *p = areas[i].p;
        if ((uintptr_t)p % 4096 != 0)
            continue; /* not a mapping of its own */
        if (!before && map_at(p - SIDE)) {
            before = true;
            crossing_check(&b, backend, p - SIDE / 2, SIDE, 10);
            crossing_check(&b, backend, p - SIDE, SIDE + MIDDLE, 12);
            munmap(p - SIDE, SIDE);
        }
        if (!behind && map_at(p + MIDDLE)) {
            behind = true;
            crossing_check(&b, backend, p + MIDDLE - SIDE / 2 - 3, SIDE, 20);
            crossing_check(&b, backend, p, MIDDLE + SIDE, 22);
            munmap(p + MIDDLE, SIDE);
        }
        for (size_t k = 0; k < N && !beside; k++) {
            beside = areas[k].p == p + MIDDLE;
            if (beside)
                crossing_check(&b, backend, p + MIDDLE - SIDE, 2 * SIDE, 30);
        }
        crossing_check(&b, backend, p, MIDDLE, 50);
    }
    printf("across borders:%s%s%s\n", before ? " before" : "", behind ? " behind" : "",
           beside ? " beside" : "");
    for (size_t i = 0; i < N; i++)
        area_free(&areas[i]);
}

/* ---- many ------------------------------------------------------------------------------ */

static void many_in_turn(ggml_backend_dev_t dev)
{
    cleanup_bytes struct bytes b;
    bytes_init(&b, dev, 2 * MIB);
    for (uint32_t i = 0; i < 500; i++) {
        size_t size = 1 + (size_t)i * 4099 % (2 * MIB);
        struct area a = area_new(dev, size);
        random_bytes(a.p, size < 4096 ? size : 4096, i);
        memcpy(b.want, a.p, size);
        ggml_backend_tensor_set(b.t, a.p, 0, size);
        memset(a.p, 0xee, size);
        ggml_backend_tensor_get(b.t, a.p, 0, size);
        same(a.p, b.want, size, "one of many host buffers", size, i);
        area_free(&a);
    }
}

static void many_at_once(ggml_backend_dev_t dev)
{
    enum { N = 200 };
    static struct area areas[N];
    cleanup_bytes struct bytes b;
    bytes_init(&b, dev, N * 4096);
    cleanup_backend ggml_backend_t backend = backend_new(dev);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < N; i++) {
            areas[i] = area_new(dev, MIB + i);
            random_bytes(areas[i].p + i, 4096, 1000 * (uint32_t)round + i);
        }
        for (uint32_t i = 0; i < N; i++) {
            memcpy(b.want + i * 4096, areas[i].p + i, 4096);
            ggml_backend_tensor_set_async(backend, b.t, areas[i].p + i, i * 4096, 4096);
        }
        ggml_backend_synchronize(backend);
        bytes_check(&b, "sets from many host buffers at once");
        for (uint32_t i = 0; i < N; i += 2)
            area_free(&areas[i]);
        for (uint32_t i = 1; i < N; i += 2) {
            memset(areas[i].p, 0, areas[i].size);
            ggml_backend_tensor_get(b.t, areas[i].p + 1, 0, b.size);
            same(areas[i].p + 1, b.want, b.size, "get into one of many", b.size, i);
            area_free(&areas[i]);
        }
    }
}

/* Reads that are under way when their buffer is freed. */
static void freed_under_way(ggml_backend_dev_t dev)
{
    cleanup_bytes struct bytes b;
    bytes_init(&b, dev, 4 * MIB);
    cleanup_backend ggml_backend_t backend = backend_new(dev);
    bytes_set(&b, 3);
    for (int i = 0; i < 50; i++) {
        struct area a = area_new(dev, 4 * MIB);
        for (size_t k = 0; k < 4; k++)
            ggml_backend_tensor_get_async(backend, b.t, a.p + k * MIB, k * MIB, MIB);
        bytes_get_async(&b, backend, b.size);
        /* ggml asks for this before memory in use is freed. */
        ggml_backend_synchronize(backend);
        area_free(&a);
        CHECK(memcmp(b.got, b.want, b.size) == 0);
    }
}

/* ---- the CPU backend in host buffers ----------------------------------------------------- */

static void cpu_computes(ggml_backend_dev_t dev)
{
    enum { N = 65536 };
    cleanup_backend ggml_backend_t cpu =
        ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    cleanup_backend ggml_backend_t backend = backend_new(dev);
    CHECK(cpu);
    struct ggml_context *ctx = context_new(), *remote = context_new();
    struct ggml_tensor *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    struct ggml_tensor *y = ggml_sqr(ctx, x);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, host_type(dev));
    struct ggml_tensor *z = ggml_new_tensor_1d(remote, GGML_TYPE_F32, N);
    ggml_backend_buffer_t rbuffer = ggml_backend_alloc_ctx_tensors(remote, backend);
    CHECK(buffer && rbuffer);
    static float in[N], out[N];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < N; i++)
            in[i] = (float)(i % 100 + round);
        ggml_backend_tensor_set(x, in, 0, sizeof(in));
        graph_compute(cpu, graph);
        ggml_backend_tensor_copy_async(cpu, backend, y, z);
        ggml_backend_synchronize(backend);
        /* From now on the CPU may write there again. */
        ggml_backend_tensor_memset(y, 0xff, 0, ggml_nbytes(y));
        memset(out, 0, sizeof(out));
        ggml_backend_tensor_get(z, out, 0, sizeof(out));
        for (int i = 0; i < N; i++)
            CHECK(out[i] == in[i] * in[i]);
        /* And back, into the host buffer's tensor. */
        ggml_backend_tensor_copy(z, y);
        CHECK(memcmp(y->data, out, sizeof(out)) == 0);
    }
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(rbuffer);
    ggml_free(ctx);
    ggml_free(remote);
}

/* Device, CPU, device, CPU … with the CPU's part in host buffers, as llama.cpp has it. */
static void scheduled(ggml_backend_dev_t dev)
{
    enum { N = 32768, LAYERS = 6 };
    cleanup_backend ggml_backend_t cpu =
        ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    cleanup_backend ggml_backend_t backend = backend_new(dev);
    CHECK(cpu);
    bool alone = ggml_backend_dev_type(dev) == GGML_BACKEND_DEVICE_TYPE_CPU;
    ggml_backend_t backends[2] = {alone ? cpu : backend, cpu};
    ggml_backend_buffer_type_t types[2] = {ggml_backend_get_default_buffer_type(backends[0]),
                                           host_type(dev)};
    ggml_backend_sched_t sched =
        ggml_backend_sched_new(backends, types, alone ? 1 : 2, 256, false, false);
    CHECK(sched);
    static float in[N], out[N];
    for (int round = 0; round < 12; round++) {
        struct ggml_context *ctx = context_new();
        struct ggml_tensor *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
        ggml_set_input(x);
        struct ggml_tensor *y = x;
        struct ggml_cgraph *graph = ggml_new_graph(ctx);
        for (int i = 0; i < LAYERS; i++) {
            y = ggml_scale(ctx, y, 2.0f);
            ggml_backend_sched_set_tensor_backend(sched, y, backends[0]);
            y = ggml_add(ctx, y, x);
            ggml_backend_sched_set_tensor_backend(sched, y, cpu);
        }
        ggml_set_output(y);
        ggml_build_forward_expand(graph, y);
        CHECK(ggml_backend_sched_alloc_graph(sched, graph));
        float want_factor = 1;
        for (int i = 0; i < LAYERS; i++)
            want_factor = 2 * want_factor + 1;
        for (int i = 0; i < N; i++)
            in[i] = (float)(i % 50 - round);
        ggml_backend_tensor_set(x, in, 0, sizeof(in));
        CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(y, out, 0, sizeof(out));
        for (int i = 0; i < N; i++) {
            if (out[i] != want_factor * in[i])
                fail("scheduled, round %d: value %d is %f, not %f", round, i, (double)out[i],
                     (double)(want_factor * in[i]));
        }
        ggml_backend_sched_reset(sched);
        ggml_free(ctx);
    }
    ggml_backend_sched_free(sched);
}

int host_buffers_run(ggml_backend_dev_t dev)
{
    struct ggml_backend_dev_props props;
    ggml_backend_dev_get_props(dev, &props);
    sync_sizes(dev);
    async_sizes(dev, false);
    if (props.caps.events)
        async_sizes(dev, true);
    crossing(dev);
    many_in_turn(dev);
    many_at_once(dev);
    freed_under_way(dev);
    cpu_computes(dev);
    scheduled(dev);
    return 0;
}

/* ---- several threads ---------------------------------------------------------------------- */

struct reader {
    ggml_backend_dev_t dev;
    uint32_t number;
};

static void *reader_main(void *arg)
{
    const struct reader *r = arg;
    /* Together more than any shared memory in between. */
    static const size_t pieces[] = {4 * MIB, 100, 3 * MIB + 1, 8193, MIB, 2 * MIB + 77, 65536};
    cleanup_backend ggml_backend_t backend = backend_new(r->dev);
    cleanup_bytes struct bytes b;
    bytes_init(&b, r->dev, 5 * MIB);
    cleanup_area struct area a = area_new(r->dev, 5 * MIB);
    bytes_set(&b, r->number + 1);
    for (uint32_t i = 0; i < 60; i++) {
        size_t size = pieces[(i + r->number) % 7], at = (i * 7919 + r->number) % (b.size - size);
        uint8_t *to = i % 5 == 4 ? a.p : b.got;
        memset(to, 0, size);
        ggml_backend_tensor_get(b.t, to, at, size);
        same(to, b.want + at, size, "a read of one of several threads", size, at);
        if (i % 3 == 0) {
            bytes_get_async(&b, backend, b.size);
            ggml_backend_tensor_get_2d(b.t, a.p, 0, 1000, 64, 5000, 1000);
            ggml_backend_synchronize(backend);
            same(b.got, b.want, b.size, "an asynchronous read", b.size, 0);
            for (size_t k = 0; k < 64; k++)
                same(a.p + k * 1000, b.want + k * 5000, 1000, "rows", 1000, k);
        }
        if (i % 4 == 0) {
            random_bytes(b.want + at, size, i);
            ggml_backend_tensor_set(b.t, b.want + at, at, size);
        }
    }
    bytes_check(&b, "all reads");
    return NULL;
}

int reads_run(ggml_backend_dev_t dev)
{
    enum { N = 5 };
    struct reader readers[N];
    for (uint32_t i = 0; i < N; i++)
        readers[i] = (struct reader){.dev = dev, .number = i};
    threads_run_each(N, reader_main, readers, sizeof(readers[0]));
    return 0;
}

/* ---- loss ----------------------------------------------------------------------------------- */

/* The longest that any call took; a call after the loss counts too. */
static double slowest;
#define TIMED(call)                                                                                \
    do {                                                                                           \
        double began_ = now_seconds();                                                             \
        call;                                                                                      \
        double took_ = now_seconds() - began_;                                                     \
        if (took_ > slowest)                                                                       \
            slowest = took_;                                                                       \
    } while (0)

/* Says "ready" and keeps host buffers busy in both directions until the host is lost. */
int host_lost_run(ggml_backend_dev_t dev)
{
    enum { N = 1 << 20 };
    struct ggml_context *ctx = context_new();
    ggml_backend_t backend = backend_new(dev);
    struct ggml_tensor *t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    CHECK(buffer);
    struct area a = area_new(dev, N * sizeof(float)), b = area_new(dev, N * sizeof(float));
    float *from = (float *)(void *)a.p, *to = (float *)(void *)b.p;
    size_t size = N * sizeof(float);
    ggml_backend_event_t event = event_new(dev);
    /* A place that is gone once its owner has no use for it. */
    float *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED);
    printf("ready\n");
    bool lost = false;
    for (uint32_t round = 0; !lost; round++) {
        float value = (float)(round % 1000 + 1);
        for (size_t i = 0; i < N; i += 1024)
            from[i] = value;
        memset(to, 0, size);
        TIMED(ggml_backend_tensor_set(t, from, 0, size));
        TIMED(ggml_backend_tensor_get_async(backend, t, to, 0, size));
        TIMED(ggml_backend_event_record(event, backend));
        TIMED(ggml_backend_tensor_get_async(backend, t, place, 0, size));
        TIMED(ggml_backend_event_synchronize(event));
        TIMED(ggml_backend_synchronize(backend));
        struct area c = {0};
        TIMED(c = area_new(dev, MIB));
        TIMED(area_free(&c));
        for (size_t i = 0; i < N; i += 1024) {
            if (to[i] != value && !isnan(to[i]))
                fail("round %u: value %zu is %f, not %f", round, i, (double)to[i], (double)value);
            if (place[i] != value && !isnan(place[i]))
                fail("round %u: place %zu is %f, not %f", round, i, (double)place[i],
                     (double)value);
            lost = lost || isnan(to[i]) || isnan(place[i]);
        }
    }
    for (int i = 0; i < 3; i++) {
        memset(to, 0, size);
        TIMED(ggml_backend_tensor_set(t, from, 0, size));
        TIMED(ggml_backend_tensor_get(t, to, 0, size));
        CHECK(isnan(to[0]) && isnan(to[N - 1]));
        memset(to, 0, size);
        TIMED(ggml_backend_tensor_get_async(backend, t, to, 0, size));
        TIMED(ggml_backend_event_record(event, backend));
        TIMED(ggml_backend_event_wait(backend, event));
        TIMED(ggml_backend_event_synchronize(event));
        TIMED(ggml_backend_synchronize(backend));
        CHECK(isnan(to[0]) && isnan(to[N - 1]));
        struct area c = area_new(dev, MIB);
        memset(c.p, 1, c.size);
        area_free(&c);
    }
    TIMED(ggml_backend_event_free(event));
    TIMED(ggml_backend_free(backend));
    area_free(&a);
    TIMED(ggml_backend_buffer_free(buffer));
    area_free(&b);
    munmap(place, size);
    ggml_free(ctx);
    printf("lost, slowest call %.2f s\n", slowest);
    CHECK(slowest < patient_ms(2000) / 1e3); /* as lost_run */
    printf("as promised\n");
    return 0;
}

/*
 * Reads under way when the host is lost, whose backend is freed, and whose place after it: what
 * is freed later must not write there any more. Waits for a line once it has said "ready".
 */
int host_lost_late_run(ggml_backend_dev_t dev)
{
    size_t size = MIB;
    char line[8];
    struct load l;
    load_init(&l, dev);
    struct area a = area_new(dev, MIB);
    uint8_t *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED);
    struct bytes b;
    bytes_init(&b, dev, size);
    /* The backend's work so far is done; its reads are still to be fetched. */
    ggml_backend_t backend = backend_new(dev);
    ggml_backend_tensor_get_async(backend, b.t, place, 0, size);
    printf("ready\n");
    CHECK(fgets(line, sizeof(line), stdin));
    /* Notices the loss. */
    while (load_run(&l) == GGML_STATUS_SUCCESS)
        ggml_backend_synchronize(l.backend);
    ggml_backend_free(backend);
    munmap(place, size);
    area_free(&a);
    bytes_fini(&b);
    load_free(&l);
    printf("as promised\n");
    return 0;
}
