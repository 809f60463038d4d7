/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets out of a host buffer, whose memory is the caller's again at once or with the next
 * synchronize: between graphs and behind them, alone and beside other backends' work. Whatever
 * touches the memory next must find them done.
 */
#include "tests/system/apir_exercise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 640 * 1024
}; /* floats: 2.5 MiB. The device copies the whole of it itself, the CPU writes most parts. */

struct stage {
    ggml_backend_dev_t dev;
    ggml_backend_t backend, other;
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer, host;
    struct ggml_tensor *x, *y, *z;
    struct ggml_cgraph *graph; /* y = 2 x, after a while */
    struct ggml_context *host_ctx;
    struct ggml_tensor *source; /* 2 N floats in the host buffer … */
    float *from;                /* … here */
    float got[N];
    unsigned round;
};

static float value(const struct stage *s, size_t i)
{
    return (float)((s->round * 7919 + i) % 65521);
}

/* This round's values of the part [at, at + n). */
static void fill(const struct stage *s, float *to, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = value(s, at + i);
}

/* The part [at, at + n) of t is set, and its source is overwritten. */
static void set_part(struct stage *s, struct ggml_tensor *t, size_t at, size_t n)
{
    fill(s, s->from, at, n);
    ggml_backend_tensor_set(t, s->from, at * sizeof(float), n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        s->from[i] = -1;
}

static void set_whole(struct stage *s)
{
    s->round++;
    ggml_backend_synchronize(s->backend);
    set_part(s, s->x, 0, N);
}

static void expect(struct stage *s, const struct ggml_tensor *t, float times, const char *what)
{
    ggml_backend_tensor_get(t, s->got, 0, sizeof(s->got));
    for (size_t i = 0; i < N; i++) {
        if (s->got[i] != times * value(s, i))
            fail("%s, round %u: float %zu is %g, not %g", what, s->round, i, (double)s->got[i],
                 (double)(times * value(s, i)));
    }
}

/* Of a stream, behind a graph that must still find the values before, or behind nothing. */
static void queued(struct stage *s, bool busy)
{
    float *next = s->from + N;
    s->round++;
    fill(s, s->from, 0, N);
    s->round++;
    fill(s, next, 0, N);
    ggml_backend_tensor_set(s->x, s->from, 0, N * sizeof(float));
    if (busy)
        graph_compute_async(s->backend, s->graph);
    ggml_backend_tensor_set_async(s->backend, s->x, next, 0, N * sizeof(float));
    ggml_backend_synchronize(s->backend);
    memset(next, 0, N * sizeof(float));
    expect(s, s->x, 1, busy ? "a set behind a graph in a queue" : "a set in a queue");
    if (busy) {
        s->round--;
        expect(s, s->y, 2, "a graph before a set in a queue");
        s->round++;
    }
}

/* While another backend computes, on whose memory this is not. */
static void beside(struct stage *s)
{
    set_whole(s);
    graph_compute_async(s->other, s->graph);
    s->round++;
    set_part(s, s->z, 0, N);
    expect(s, s->z, 1, "a set beside a graph");
    ggml_backend_synchronize(s->other);
    s->round--;
    expect(s, s->y, 2, "a graph beside a set");
    s->round++;
}

static void small_sets(struct stage *s)
{
    static const float few[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    set_whole(s);
    ggml_backend_tensor_set(s->x, few, 400, sizeof(few));
    ggml_backend_tensor_set(s->z, few, 0, sizeof(few));
    ggml_backend_tensor_get(s->x, s->got, 0, sizeof(s->got));
    CHECK(memcmp(s->got + 100, few, sizeof(few)) == 0);
    CHECK(s->got[99] == value(s, 99) && s->got[108] == value(s, 108));
    ggml_backend_tensor_get(s->z, s->got, 0, sizeof(few));
    CHECK(memcmp(s->got, few, sizeof(few)) == 0);
    ggml_backend_tensor_set(s->x, few, 800, sizeof(few));
    set_whole(s);
    expect(s, s->x, 1, "behind a small set");
}

static void other_backends(struct stage *s)
{
    set_whole(s);
    graph_compute(s->other, s->graph);
    expect(s, s->y, 2, "another backend's graph");
    graph_compute(s->backend, s->graph);
    set_whole(s);
    ggml_backend_tensor_get_async(s->other, s->x, s->got, 0, sizeof(s->got));
    ggml_backend_synchronize(s->other);
    for (size_t i = 0; i < N; i++)
        CHECK(s->got[i] == value(s, i));
}

static void copies(struct stage *s)
{
    set_whole(s);
    ggml_backend_tensor_copy(s->x, s->z);
    expect(s, s->z, 1, "a copy");
    set_whole(s);
    ggml_backend_tensor_copy_async(s->other, s->other, s->x, s->z);
    ggml_backend_synchronize(s->other);
    expect(s, s->z, 1, "another backend's copy");
}

static void fills(struct stage *s)
{
    set_whole(s);
    ggml_backend_tensor_memset(s->x, 0, 0, N * sizeof(float));
    expect(s, s->x, 0, "a fill");
    graph_compute(s->backend, s->graph);
    set_whole(s);
    ggml_backend_buffer_clear(s->buffer, 0);
    expect(s, s->x, 0, "a clear");
}

/* In parts of all sizes, each of another round: what the next one leaves is looked at in the end.
 */
static void many(struct stage *s)
{
    enum { STEP = 8192 };
    set_whole(s);
    const unsigned before = s->round;
    for (size_t at = 0; at < N; at += STEP) {
        s->round++;
        set_part(s, s->x, at, N - at);
    }
    const unsigned after = s->round;
    ggml_backend_tensor_get(s->x, s->got, 0, sizeof(s->got));
    for (size_t i = 0; i < N; i++) {
        s->round = before + 1 + (unsigned)(i / STEP);
        CHECK(s->got[i] == value(s, i));
    }
    s->round = after;
    for (unsigned i = 0; i < 25; i++)
        set_whole(s);
    graph_compute(s->backend, s->graph);
    expect(s, s->y, 2, "many wholes");
}

static void buffer_new(struct stage *s)
{
    s->ctx = context_new();
    s->x = ggml_new_tensor_1d(s->ctx, GGML_TYPE_F32, N);
    s->z = ggml_new_tensor_1d(s->ctx, GGML_TYPE_F32, N);
    s->y = ggml_scale(s->ctx, s->x, 2);
    s->graph = ggml_new_graph(s->ctx);
    /* Something that takes a while comes first. */
    struct ggml_tensor *w = ggml_new_tensor_1d(s->ctx, GGML_TYPE_F32, N);
    for (unsigned i = 0; i < 20; i++)
        w = ggml_scale(s->ctx, w, 0.5f);
    ggml_build_forward_expand(s->graph, w);
    ggml_build_forward_expand(s->graph, s->y);
    s->buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(s->ctx, ggml_backend_dev_buffer_type(s->dev));
    CHECK(s->buffer);
}

static void buffer_free(struct stage *s)
{
    ggml_backend_buffer_free(s->buffer);
    ggml_free(s->ctx);
}

/* After a set the buffer goes away, and then the stream. */
static void lives(struct stage *s)
{
    graph_compute(s->backend, s->graph);
    set_whole(s);
    buffer_free(s);
    buffer_new(s);
    set_whole(s);
    expect(s, s->x, 1, "a buffer in another's place");
    graph_compute(s->backend, s->graph);
    set_whole(s);
    ggml_backend_free(s->backend);
    expect(s, s->x, 1, "a stream that is gone");
    s->backend = backend_new(s->dev);
    set_whole(s);
    graph_compute(s->backend, s->graph);
    expect(s, s->y, 2, "a new stream");
}

int host_sets_run(ggml_backend_dev_t dev)
{
    struct stage *s = calloc(1, sizeof(*s));
    CHECK(s);
    s->dev = dev;
    s->backend = backend_new(dev);
    s->other = backend_new(dev);
    ggml_backend_buffer_type_t host = ggml_backend_dev_host_buffer_type(dev);
    s->host_ctx = context_new();
    s->source = ggml_new_tensor_1d(s->host_ctx, GGML_TYPE_F32, 2 * N);
    s->host = ggml_backend_alloc_ctx_tensors_from_buft(
        s->host_ctx, host ? host : ggml_backend_cpu_buffer_type());
    CHECK(s->host);
    s->from = s->source->data;
    buffer_new(s);
    for (unsigned i = 0; i < 4; i++) {
        set_whole(s);
        expect(s, s->x, 1, "a set");
        graph_compute(s->backend, s->graph);
        expect(s, s->y, 2, "a graph");
        set_whole(s);
        expect(s, s->x, 1, "a set behind a graph");
        set_whole(s);
        graph_compute(s->backend, s->graph);
        expect(s, s->y, 2, "its graph");
        queued(s, false);
        queued(s, true);
        beside(s);
        small_sets(s);
        other_backends(s);
        copies(s);
        fills(s);
        many(s);
        lives(s);
    }
    buffer_free(s);
    ggml_backend_buffer_free(s->host);
    ggml_free(s->host_ctx);
    ggml_backend_free(s->other);
    ggml_backend_free(s->backend);
    free(s);
    return 0;
}
