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
    CHECK(bytes_try(b, dev, size));
    ggml_backend_buffer_set_usage(b->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
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

/* What graphs compute between them changes nothing. */
static void filled(ggml_backend_dev_t dev)
{
    struct bytes b;
    struct problem p;
    problem_init(&p, dev, 48, 3);
    fresh_init(&b, dev, 16 * MIB + 5);
    fill_in_pieces(&b, 1);
    bytes_check(&b, "the filling");
    CHECK(problem_run(&p, 1) == RIGHT);
    bytes_check(&b, "the first graph");
    change(&b, 5 * MIB + 1, 3 * MIB, 2);
    change(&b, b.size - 1, 1, 3);
    bytes_check(&b, "a later change");

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
    problem_free(&p);
}

static void filled_by_other_roads(ggml_backend_dev_t dev)
{
    struct bytes b, to;
    fresh_init(&b, dev, 16 * MIB);
    ggml_backend_t backend = backend_new(dev);
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

    fresh_init(&to, dev, 16 * MIB);
    change(&to, 0, MIB, 31);
    fill_in_pieces(&b, 32);
    ggml_backend_tensor_copy(b.t, to.t);
    memcpy(to.want, b.want, b.size);
    bytes_check(&to, "a copy of weights");
    bytes_fini(&to);
    bytes_fini(&b);
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
    cleanup_problem struct problem p;
    problem_init(&p, dev, 64, 4);
    for (unsigned i = 0; !atomic_load(&threads_stop); i++)
        CHECK(problem_run(&p, i) == RIGHT);
    return NULL;
}

struct loader {
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
    struct loader l[2] = {{.dev = dev, .number = 0}, {.dev = dev, .number = 1}};
    pthread_t computing;
    CHECK(pthread_create(&computing, NULL, compute_main, dev) == 0);
    threads_run_each(2, loader_main, l, sizeof(l[0]));
    atomic_store(&threads_stop, true);
    CHECK(pthread_join(computing, NULL) == 0);
}

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

static void one_by_several(ggml_backend_dev_t dev)
{
    pthread_barrier_t start;
    CHECK(pthread_barrier_init(&start, NULL, FILLERS) == 0);
    for (uint32_t i = 0; i < 60; i++) {
        struct bytes b;
        struct filler f[FILLERS];
        fresh_init(&b, dev, FILLERS * MIB);
        random_bytes(b.want, b.size, i + 1);
        for (uint32_t k = 0; k < FILLERS; k++)
            f[k] = (struct filler){.start = &start, .b = &b, .offset = k * MIB, .size = MIB};
        threads_run_each(FILLERS, filler_main, f, sizeof(f[0]));
        bytes_check(&b, "several threads filled one buffer");
        bytes_fini(&b);
    }
    pthread_barrier_destroy(&start);
}

int weights_run(ggml_backend_dev_t dev)
{
    filled(dev);
    filled_by_other_roads(dev);
    many(dev);
    loaders(dev);
    one_by_several(dev);
    return 0;
}
