/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of weights: filled once by a loader, in pieces, perhaps by several threads, then used
 * by graphs, and sometimes written again.
 */
#include "tests/system/apir_exercise.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As bytes_init, but nothing has been written to it yet. */
static void fresh_init(struct bytes *b, ggml_backend_dev_t dev, size_t size)
{
    const struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 4,
                                            .no_alloc = true};
    *b = (struct bytes){.ctx = ggml_init(params), .size = size};
    CHECK(b->ctx);
    b->t = ggml_new_tensor_1d(b->ctx, GGML_TYPE_I8, (int64_t)size);
    b->buffer = ggml_backend_alloc_ctx_tensors_from_buft(b->ctx, ggml_backend_dev_buffer_type(dev));
    CHECK(b->buffer);
    ggml_backend_buffer_set_usage(b->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    b->want = calloc(1, size);
    b->got = malloc(size);
    CHECK(b->want && b->got);
}

/* All of it, in pieces of every kind of size. */
static void fill_in_pieces(struct bytes *b, uint32_t seed)
{
    static const size_t pieces[] = {1, 4096, 3, 65536, 100000, MIB, 255, 8192, 8193, 3 * MIB + 1};
    random_bytes(b->want, b->size, seed);
    size_t i = seed;
    for (size_t at = 0; at < b->size; i++) {
        size_t n = pieces[i % 10] < b->size - at ? pieces[i % 10] : b->size - at;
        ggml_backend_tensor_set(b->t, b->want + at, at, n);
        at += n;
    }
}

static void change(struct bytes *b, size_t at, size_t n, uint32_t seed)
{
    random_bytes(b->want + at, n, seed);
    ggml_backend_tensor_set(b->t, b->want + at, at, n);
}

/* ---- bytes in, bytes out ------------------------------------------------------------- */

static void filled(ggml_backend_dev_t dev)
{
    struct bytes b;
    struct problem p;
    problem_init(&p, dev, 48, 3);

    /* Read before any graph, then again and again. */
    fresh_init(&b, dev, 16 * MIB + 5);
    fill_in_pieces(&b, 1);
    bytes_check(&b, "the filling");
    CHECK(problem_run(&p, 1) == RIGHT);
    bytes_check(&b, "the first graph");
    change(&b, 5 * MIB + 1, 3 * MIB, 2);
    change(&b, b.size - 1, 1, 3);
    bytes_check(&b, "a later change");
    bytes_fini(&b);

    /* A graph before any read. */
    fresh_init(&b, dev, 16 * MIB);
    fill_in_pieces(&b, 4);
    CHECK(problem_run(&p, 2) == RIGHT);
    change(&b, 7, 70000, 5);
    change(&b, 8 * MIB - 3, 100, 6);
    bytes_check(&b, "a graph and a change");
    bytes_fini(&b);

    /* Other ways to write, in between. */
    fresh_init(&b, dev, 16 * MIB);
    fill_in_pieces(&b, 7);
    memset(b.want + 1000, 0x33, 2 * MIB);
    ggml_backend_tensor_memset(b.t, 0x33, 1000, 2 * MIB);
    change(&b, 2000, 3000, 8);
    bytes_check(&b, "memset while filled");
    /* ggml's Vulkan backend clears to zero only, and fills whole words only. */
    memset(b.want, 0, b.size);
    ggml_backend_buffer_clear(b.buffer, 0);
    change(&b, 9 * MIB, MIB, 9);
    bytes_check(&b, "clear and a change");
    CHECK(problem_run(&p, 3) == RIGHT);
    memset(b.want + 4, 0x55, 5 * MIB);
    ggml_backend_tensor_memset(b.t, 0x55, 4, 5 * MIB);
    bytes_check(&b, "memset after a graph");
    bytes_fini(&b);

    /* Cleared first. */
    fresh_init(&b, dev, 16 * MIB);
    memset(b.want, 0, b.size);
    ggml_backend_buffer_clear(b.buffer, 0);
    change(&b, MIB, MIB, 10);
    bytes_check(&b, "clear first");
    bytes_fini(&b);

    /* By the other roads. */
    fresh_init(&b, dev, 16 * MIB);
    ggml_backend_t backend = ggml_backend_dev_init(dev, NULL);
    CHECK(backend);
    random_bytes(b.want, b.size, 11);
    for (size_t at = 0; at < b.size; at += MIB)
        ggml_backend_tensor_set_async(backend, b.t, b.want + at, at, MIB);
    ggml_backend_synchronize(backend);
    for (size_t i = 0; i < 16; i++)
        random_bytes(b.want + i * 4096, 1000, (uint32_t)i + 12);
    ggml_backend_tensor_set_2d(b.t, b.want, 0, 1000, 16, 4096, 4096);
    change(&b, 3 * MIB, 2 * MIB, 30);
    bytes_check(&b, "asynchronous sets and rows");
    ggml_backend_free(backend);

    /* A copy from one that is being filled into another one. */
    struct bytes to;
    fresh_init(&to, dev, 16 * MIB);
    change(&to, 0, MIB, 31);
    fill_in_pieces(&b, 32);
    ggml_backend_tensor_copy(b.t, to.t);
    memcpy(to.want, b.want, b.size);
    bytes_check(&to, "a copy of weights");
    bytes_fini(&to);
    bytes_fini(&b);
    problem_free(&p);
}

/* ---- integers ------------------------------------------------------------------------- */

/* Rows of a table, picked by row numbers that lie in the same buffer, and page, as floats. */
struct lookup {
    struct ggml_context *ctx, *work;
    ggml_backend_t backend;
    ggml_backend_buffer_t buffer, results;
    struct ggml_cgraph *graph;
    struct ggml_tensor *table, *first, *ids, *last, *rows, *sum;
    float *table_f;
    int32_t n_rows;
    int32_t ids_f[100];
    float first_f[5], last_f[100];
};
enum { WIDTH = 64, PICKS = 100 };

static void lookup_init(struct lookup *l, ggml_backend_dev_t dev, int32_t n_rows)
{
    const struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 16 + ggml_graph_overhead(),
        .no_alloc = true,
    };
    *l = (struct lookup){.ctx = ggml_init(params), .work = ggml_init(params), .n_rows = n_rows};
    l->backend = ggml_backend_dev_init(dev, NULL);
    CHECK(l->ctx && l->work && l->backend);
    l->table = ggml_new_tensor_2d(l->ctx, GGML_TYPE_F32, WIDTH, n_rows);
    l->first = ggml_new_tensor_1d(l->ctx, GGML_TYPE_F32, 5);
    l->ids = ggml_new_tensor_1d(l->ctx, GGML_TYPE_I32, PICKS);
    l->last = ggml_new_tensor_1d(l->ctx, GGML_TYPE_F32, PICKS);
    l->buffer = ggml_backend_alloc_ctx_tensors(l->ctx, l->backend);
    CHECK(l->buffer);
    ggml_backend_buffer_set_usage(l->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    l->rows = ggml_get_rows(l->work, l->table, l->ids);
    l->sum = ggml_sqr(l->work, l->last);
    l->graph = ggml_new_graph(l->work);
    ggml_build_forward_expand(l->graph, l->rows);
    ggml_build_forward_expand(l->graph, l->sum);
    l->results = ggml_backend_alloc_ctx_tensors(l->work, l->backend);
    CHECK(l->results);
    l->table_f = malloc(WIDTH * (size_t)n_rows * sizeof(float));
    CHECK(l->table_f);
    for (int i = 0; i < WIDTH * n_rows; i++)
        l->table_f[i] = (float)(i % 100003);
}

static void lookup_ids(struct lookup *l, uint32_t seed)
{
    for (uint32_t i = 0; i < PICKS; i++) {
        l->ids_f[i] = (int32_t)((i * 7919 + seed * 104729) % (uint32_t)l->n_rows);
        l->last_f[i] = (float)((i + seed) % 1000);
    }
    ggml_backend_tensor_set(l->ids, l->ids_f, 0, sizeof(l->ids_f));
    ggml_backend_tensor_set(l->last, l->last_f, 0, sizeof(l->last_f));
}

static void lookup_check(struct lookup *l, const char *when)
{
    static float got[PICKS * WIDTH];
    float sum[PICKS];
    CHECK(ggml_backend_graph_compute(l->backend, l->graph) == GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(l->rows, got, 0, sizeof(got));
    ggml_backend_tensor_get(l->sum, sum, 0, sizeof(sum));
    for (int i = 0; i < PICKS; i++) {
        const float *want = l->table_f + (size_t)l->ids_f[i] * WIDTH;
        if (memcmp(got + i * WIDTH, want, WIDTH * sizeof(float)) != 0)
            fail("%s: row %d of table row %d begins %f, not %f", when, i, (int)l->ids_f[i],
                 (double)got[i * WIDTH], (double)want[0]);
        if (sum[i] != l->last_f[i] * l->last_f[i])
            fail("%s: the float beside the integers is %f, not %f", when, (double)sum[i],
                 (double)(l->last_f[i] * l->last_f[i]));
    }
}

static void lookup_table(struct lookup *l, size_t row, float value)
{
    for (size_t i = 0; i < WIDTH; i++)
        l->table_f[row * WIDTH + i] = value;
    ggml_backend_tensor_set(l->table, l->table_f + row * WIDTH, row * WIDTH * sizeof(float),
                            WIDTH * sizeof(float));
}

static void lookup_fini(struct lookup *l)
{
    ggml_backend_buffer_free(l->results);
    ggml_backend_buffer_free(l->buffer);
    ggml_backend_free(l->backend);
    ggml_free(l->ctx);
    ggml_free(l->work);
    free(l->table_f);
}

static void integers(ggml_backend_dev_t dev, int32_t n_rows)
{
    struct lookup l;
    lookup_init(&l, dev, n_rows);
    size_t size = ggml_nbytes(l.table);
    for (size_t at = 0; at < size; at += 300000)
        ggml_backend_tensor_set(l.table, (uint8_t *)l.table_f + at, at,
                                size - at < 300000 ? size - at : 300000);
    for (int i = 0; i < 5; i++)
        l.first_f[i] = (float)i;
    ggml_backend_tensor_set(l.first, l.first_f, 0, sizeof(l.first_f));
    lookup_ids(&l, 0);
    lookup_check(&l, "after the filling");
    for (uint32_t i = 1; i < 50; i++) {
        lookup_ids(&l, i);
        lookup_table(&l, (size_t)l.ids_f[i % PICKS], (float)i + 0.5f);
        if (i % 7 == 0) {
            memset(l.ids_f, 0, 40);
            ggml_backend_tensor_memset(l.ids, 0, 0, 40);
        }
        if (i % 5 == 0) {
            l.ids_f[3] = n_rows - 1;
            ggml_backend_tensor_set_async(l.backend, l.ids, &l.ids_f[3], 12, 4);
            ggml_backend_synchronize(l.backend);
        }
        lookup_check(&l, "after a change");
        int32_t back[PICKS];
        float first[5];
        ggml_backend_tensor_get(l.ids, back, 0, sizeof(back));
        ggml_backend_tensor_get(l.first, first, 0, sizeof(first));
        CHECK(memcmp(back, l.ids_f, sizeof(back)) == 0);
        CHECK(memcmp(first, l.first_f, sizeof(first)) == 0);
    }
    lookup_fini(&l);
}

/* ---- many, and several threads ----------------------------------------------------------- */

static void many(ggml_backend_dev_t dev)
{
    enum { N = 80 };
    static struct bytes all[N];
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < N; i++) {
            fresh_init(&all[i], dev, MIB + i);
            change(&all[i], i, 1000, i);
        }
        /* Half of them freed while they are being filled. */
        for (uint32_t i = 0; i < N; i += 2)
            bytes_fini(&all[i]);
        for (uint32_t i = 1; i < N; i += 2) {
            fill_in_pieces(&all[i], i);
            if (i % 4 == 1)
                bytes_check(&all[i], "filling one of many");
        }
        struct problem p;
        problem_init(&p, dev, 32, 2);
        CHECK(problem_run(&p, round) == RIGHT);
        problem_free(&p);
        for (uint32_t i = 1; i < N; i += 2) {
            bytes_check(&all[i], "a graph and many");
            bytes_fini(&all[i]);
        }
    }
    /* One after the other, more often than there are ids. */
    for (uint32_t i = 0; i < 200; i++) {
        struct bytes b;
        fresh_init(&b, dev, MIB + 4096 * (i % 7));
        change(&b, 0, 5000, i);
        if (i % 3 == 0) {
            memset(b.got, 0, 5000);
            ggml_backend_tensor_get(b.t, b.got, 0, 5000);
            CHECK(memcmp(b.got, b.want, 5000) == 0);
        }
        bytes_fini(&b);
    }
}

static atomic_bool threads_stop;

static void *compute_main(void *arg)
{
    ggml_backend_dev_t dev = arg;
    struct problem p;
    problem_init(&p, dev, 64, 4);
    for (unsigned i = 0; !atomic_load(&threads_stop); i++)
        CHECK(problem_run(&p, i) == RIGHT);
    problem_free(&p);
    return NULL;
}

struct loader {
    pthread_t thread;
    ggml_backend_dev_t dev;
    uint32_t number;
};

static void *loader_main(void *arg)
{
    const struct loader *l = arg;
    for (uint32_t i = 0; i < 8; i++) {
        struct bytes b;
        fresh_init(&b, l->dev, (i % 2 ? 6 * MIB : MIB + 300000) + l->number);
        fill_in_pieces(&b, l->number * 100 + i);
        bytes_check(&b, "loading beside a computing thread");
        change(&b, 4097, 100000, i);
        bytes_check(&b, "a change beside a computing thread");
        bytes_fini(&b);
    }
    return NULL;
}

static void loaders(ggml_backend_dev_t dev)
{
    struct loader l[2];
    pthread_t compute;
    CHECK(pthread_create(&compute, NULL, compute_main, dev) == 0);
    for (uint32_t i = 0; i < 2; i++) {
        l[i] = (struct loader){.dev = dev, .number = i};
        CHECK(pthread_create(&l[i].thread, NULL, loader_main, &l[i]) == 0);
    }
    for (uint32_t i = 0; i < 2; i++)
        CHECK(pthread_join(l[i].thread, NULL) == 0);
    atomic_store(&threads_stop, true);
    CHECK(pthread_join(compute, NULL) == 0);
}

/* Threads that fill one buffer, all from the first byte on: nobody's may be lost while another
 * one begins. */
enum { FILLERS = 3 };

struct filler {
    pthread_t thread;
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

static void one_by_several(ggml_backend_dev_t dev)
{
    pthread_barrier_t start;
    CHECK(pthread_barrier_init(&start, NULL, FILLERS) == 0);
    for (uint32_t i = 0; i < 60; i++) {
        struct bytes b;
        struct filler f[FILLERS];
        fresh_init(&b, dev, FILLERS * MIB);
        random_bytes(b.want, b.size, i + 1);
        for (uint32_t k = 0; k < FILLERS; k++) {
            f[k] = (struct filler){.start = &start, .b = &b, .offset = k * MIB, .size = MIB};
            CHECK(pthread_create(&f[k].thread, NULL, filler_main, &f[k]) == 0);
        }
        for (uint32_t k = 0; k < FILLERS; k++)
            CHECK(pthread_join(f[k].thread, NULL) == 0);
        bytes_check(&b, "several threads filled one buffer");
        bytes_fini(&b);
    }
    pthread_barrier_destroy(&start);
}

int weights_run(ggml_backend_dev_t dev)
{
    filled(dev);
    /* On both sides of a huge page: what is larger may be treated otherwise. */
    integers(dev, 65000);
    integers(dev, 6000);
    many(dev);
    loaders(dev);
    one_by_several(dev);
    return 0;
}

/* ---- a graph writes first ------------------------------------------------------------------ */

/* What a graph has written into a buffer of weights is still there after the first set, also
 * when that graph is long forgotten. */
int weights_late_run(ggml_backend_dev_t dev)
{
    enum { N = 400000, GRAPHS = 40 }; /* less than a huge page: more may not be shared */
    const struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 16 + ggml_graph_overhead() * 2,
        .no_alloc = true,
    };
    struct ggml_context *ctx = ggml_init(params), *src = ggml_init(params);
    ggml_backend_t backend = ggml_backend_dev_init(dev, NULL);
    CHECK(ctx && src && backend);
    struct ggml_tensor *x = ggml_new_tensor_1d(src, GGML_TYPE_F32, N);
    ggml_backend_buffer_t input = ggml_backend_alloc_ctx_tensors(src, backend);
    struct ggml_tensor *y = ggml_sqr(ctx, x);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors(ctx, backend);
    CHECK(input && weights);
    ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    float *in = malloc(N * sizeof(float)), *out = malloc(N * sizeof(float));
    CHECK(in && out);
    for (int i = 0; i < N; i++)
        in[i] = (float)(i % 1000 + 1);
    ggml_backend_tensor_set(x, in, 0, N * sizeof(float));
    CHECK(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
    /* Enough other graphs that nobody remembers this one. */
    static struct problem others[GRAPHS];
    for (int i = 0; i < GRAPHS; i++) {
        problem_init(&others[i], dev, 8 + i, 2);
        CHECK(problem_run(&others[i], (unsigned)i) == RIGHT);
    }
    float value = -1;
    ggml_backend_tensor_set(y, &value, 0, sizeof(value));
    ggml_backend_tensor_get(y, out, 0, N * sizeof(float));
    CHECK(out[0] == -1);
    for (int i = 1; i < N; i++) {
        if (out[i] != in[i] * in[i])
            fail("value %d is %f, not %f", i, (double)out[i], (double)(in[i] * in[i]));
    }
    for (int i = 0; i < GRAPHS; i++)
        problem_free(&others[i]);
    ggml_backend_buffer_free(weights);
    ggml_backend_buffer_free(input);
    ggml_backend_free(backend);
    ggml_free(ctx);
    ggml_free(src);
    free(in);
    free(out);
    return 0;
}
