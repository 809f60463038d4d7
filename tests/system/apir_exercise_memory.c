/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host buffers: memory that ggml takes for ordinary and that the device may read and write
 * itself. Where it may not, everything here must hold all the same. Transfers of all sizes, from
 * there and elsewhere: tests/native/differ.
 */
#define _GNU_SOURCE
#include "tests/lib/clock.h"
#include "tests/system/apir_exercise.h"

#include <math.h>
#include <pthread.h>
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
        /* The order is the stream's: what comes later counts. */
        for (uint32_t i = 0; i < N; i++)
            ggml_backend_tensor_set_async(backend, b.t, areas[i].p, 0, b.size);
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

int host_buffers_run(ggml_backend_dev_t dev)
{
    crossing(dev);
    many_at_once(dev);
    return 0;
}

/* ---- several threads ---------------------------------------------------------------------- */

/* Threads that fill one buffer, all from the first byte on: nobody's may be lost while another
 * one begins. */
enum { FILLERS = 3 };

struct filler {
    pthread_barrier_t *start;
    struct bytes *b;
    size_t offset, size;
};

static void *filler_main(void *arg)
{
    const struct filler *f = arg;
    pthread_barrier_wait(f->start);
    ggml_backend_tensor_set(f->b->t, f->b->want + f->offset, f->offset, f->size);
    return NULL;
}

int filled_run(ggml_backend_dev_t dev)
{
    pthread_barrier_t start;
    cleanup_area struct area a = area_new(dev, FILLERS * MIB);
    CHECK(pthread_barrier_init(&start, NULL, FILLERS) == 0);
    for (uint32_t i = 0; i < 60; i++) {
        struct bytes b;
        struct filler f[FILLERS];
        CHECK(bytes_try(&b, dev, FILLERS * MIB));
        random_bytes(b.want, b.size, i + 1);
        for (uint32_t k = 0; k < FILLERS; k++)
            f[k] = (struct filler){.start = &start, .b = &b, .offset = k * MIB, .size = MIB};
        threads_run_each(FILLERS, filler_main, f, sizeof(f[0]));
        bytes_check(&b, "several threads filled one buffer");
        ggml_backend_tensor_get(b.t, a.p, 0, b.size);
        same(a.p, b.want, b.size, "and read into a host buffer", b.size, 0);
        bytes_fini(&b);
    }
    pthread_barrier_destroy(&start);
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
