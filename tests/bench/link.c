/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `link`: what the way to a ggml device costs by itself, through ggml's public interface. A graph
 * of one node measures the round trip; setting and getting a large tensor, the bandwidth, beside
 * memcpy in the same process.
 *
 * Every figure is of work that was proven: the node adds 1 to its own tensor, so that its value
 * says how often it was computed; no byte pattern is used twice, and what comes back is compared.
 */
#include <stdlib.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include "tests/bench/apir_bench.h"
#include "tests/bench/stats.h"
#include "tests/lib/clock.h"

#define BLOCK   100 /* graphs whose median is one sample, and whose sum is checked together */
#define WARM_UP 2   /* blocks, and transfers: first touch, sleeping peers, the graph's definition */
#define MIB     ((size_t)1 << 20)
#define SIZE    (64 * MIB) /* of the tensor that is set and got */
#define DEVICE  "APIR0"

struct link {
    const struct options *o;
    ggml_backend_t backend;
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer; /* of all tensors of ctx */
};

/* ---- the device ----------------------------------------------------------------- */

/* A fresh context for the tensors of one measurement. */
static void tensors_begin(struct link *l)
{
    const struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 8 + ggml_graph_overhead(),
        .no_alloc = true,
    };
    l->ctx = ggml_init(params);
    if (!l->ctx)
        fail("out of memory");
}

static void tensors_place(struct link *l)
{
    l->buffer = ggml_backend_alloc_ctx_tensors(l->ctx, l->backend);
    if (!l->buffer)
        fail("the device has no room for the tensors");
}

static void tensors_end(struct link *l)
{
    ggml_backend_buffer_free(l->buffer);
    ggml_free(l->ctx);
}

static void link_open(struct link *l)
{
    ggml_backend_load_all();
    ggml_backend_dev_t dev = ggml_backend_dev_by_name(DEVICE);
    if (!dev)
        fail("ggml has no device %s; is GGML_BACKEND_PATH the plug-in, and is there a host side "
             "(apir doctor says)?",
             DEVICE);
    l->backend = ggml_backend_dev_init(dev, NULL);
    if (!l->backend)
        fail("the device does not start; APIR_LOG=info says more");
    printf("%s: %s\n", DEVICE, ggml_backend_dev_description(dev));
}

/* ---- one node --------------------------------------------------------------------- */

struct graph1 {
    struct ggml_tensor *sum, *one;
    struct ggml_cgraph *graph;
    double *total, *wait; /* of each timed graph, in µs; wait: the part in synchronize */
    size_t n;
};

/* BLOCK graphs, whose sum starts at `first`. */
static void graph1_block(struct link *l, struct graph1 *g, float first, bool timed)
{
    float got = 0;
    ggml_backend_tensor_set(g->sum, &first, 0, sizeof(first));
    ggml_backend_tensor_get(g->sum, &got, 0, sizeof(got)); /* the setting is not to be timed */
    for (int i = 0; i < BLOCK; i++) {
        uint64_t began = now_ns();
        enum ggml_status status = ggml_backend_graph_compute_async(l->backend, g->graph);
        uint64_t sent = now_ns();
        ggml_backend_synchronize(l->backend);
        uint64_t ended = now_ns();
        if (status != GGML_STATUS_SUCCESS)
            fail("the device refuses a computation");
        if (timed) {
            g->total[g->n] = (double)(ended - began) / 1e3;
            g->wait[g->n++] = (double)(ended - sent) / 1e3;
        }
    }
    ggml_backend_tensor_get(g->sum, &got, 0, sizeof(got));
    if (got != first + BLOCK)
        fail("after %d additions to %g there is %g", BLOCK, (double)first, (double)got);
}

static void graph1_blocks(struct link *l, struct graph1 *g, size_t blocks)
{
    for (size_t i = 0; i < WARM_UP + blocks; i++) {
        /* Small whole numbers: exact in a float, and none that the block before left there. */
        graph1_block(l, g, (float)(i % 1000 * 3 * BLOCK), i >= WARM_UP);
        if (i >= WARM_UP)
            sample_write(l->o, "graph1", (int64_t)(i - WARM_UP),
                         stats_median(g->total + g->n - BLOCK, BLOCK), "us");
    }
    stats_sort(g->total, g->n);
    printf("graph1: p50 %.2f  p90 %.2f  p99 %.2f  max %.2f us (%zu graphs; waiting alone: p50 "
           "%.2f us)\n",
           stats_percentile(g->total, g->n, 50), stats_percentile(g->total, g->n, 90),
           stats_percentile(g->total, g->n, 99), g->total[g->n - 1], g->n,
           stats_median(g->wait, g->n));
}

static void graph1_measure(struct link *l)
{
    const size_t blocks = ((size_t)l->o->graphs + BLOCK - 1) / BLOCK;
    const float one = 1;
    struct graph1 g = {.total = allocate(blocks * BLOCK, sizeof(*g.total)),
                       .wait = allocate(blocks * BLOCK, sizeof(*g.wait))};
    tensors_begin(l);
    g.sum = ggml_new_tensor_1d(l->ctx, GGML_TYPE_F32, 1);
    g.one = ggml_new_tensor_1d(l->ctx, GGML_TYPE_F32, 1);
    g.graph = ggml_new_graph(l->ctx);
    ggml_build_forward_expand(g.graph, ggml_add_inplace(l->ctx, g.sum, g.one));
    tensors_place(l);
    ggml_backend_tensor_set(g.one, &one, 0, sizeof(one));
    graph1_blocks(l, &g, blocks);
    tensors_end(l);
    free(g.total);
    free(g.wait);
}

/* ---- bandwidth -------------------------------------------------------------------- */

enum { MEMCPY, SET, GET, WAYS };
static const char *const metrics[WAYS] = {"memcpy", "set", "get"};

struct bulk {
    struct ggml_tensor *t;
    uint64_t *src, *dst;
    double *rates[WAYS]; /* GB/s, one per repetition */
};

/* Another word at every place than in every other round. */
static void pattern_write(uint64_t *to, size_t size, uint64_t round)
{
    for (size_t i = 0; i < size / sizeof(*to); i++)
        to[i] = i * 0x9e3779b97f4a7c15u + round * 0xd1342543de82ef95u;
}

static double rate(uint64_t began)
{
    return (double)SIZE / (double)(now_ns() - began);
}

/* That dst is src by now; makes sure that the next one cannot be so by luck. */
static void bulk_check(const struct bulk *b, const char *what)
{
    if (memcmp(b->dst, b->src, SIZE) != 0)
        fail("%s: other bytes arrived than were sent", what);
    memset(b->dst, 0x5a, SIZE);
}

static void bulk_round(const struct bulk *b, uint64_t round, double ret_rates[WAYS])
{
    pattern_write(b->src, SIZE, round);

    uint64_t began = now_ns();
    memcpy(b->dst, b->src, SIZE);
    ret_rates[MEMCPY] = rate(began);
    bulk_check(b, "memcpy");

    began = now_ns();
    ggml_backend_tensor_set(b->t, b->src, 0, SIZE);
    /* A set may return while bytes are on their way. The answer to this one comes behind them. */
    uint8_t last = 0;
    ggml_backend_tensor_get(b->t, &last, SIZE - 1, 1);
    ret_rates[SET] = rate(began);
    if (last != ((const uint8_t *)b->src)[SIZE - 1])
        fail("set: the last byte is another one");

    began = now_ns();
    ggml_backend_tensor_get(b->t, b->dst, 0, SIZE);
    ret_rates[GET] = rate(began);
    bulk_check(b, "set and get");
}

static void bulk_measure(struct link *l)
{
    const size_t n = (size_t)l->o->repeat;
    struct bulk b = {.src = allocate(1, SIZE), .dst = allocate(1, SIZE)};
    for (int k = 0; k < WAYS; k++)
        b.rates[k] = allocate(n, sizeof(double));
    memset(b.dst, 0x5a, SIZE); /* touched, as src will be */
    tensors_begin(l);
    b.t = ggml_new_tensor_1d(l->ctx, GGML_TYPE_I8, (int64_t)SIZE);
    tensors_place(l);
    for (size_t i = 0; i < WARM_UP + n; i++) {
        double rates[WAYS];
        bulk_round(&b, i, rates);
        for (int k = 0; k < WAYS && i >= WARM_UP; k++) {
            b.rates[k][i - WARM_UP] = rates[k];
            sample_write(l->o, metrics[k], (int64_t)(i - WARM_UP), rates[k], "GB/s");
        }
    }
    printf("%zu MiB, %zu times, medians:", SIZE / MIB, n);
    for (int k = 0; k < WAYS; k++) {
        printf("  %s %.2f", metrics[k], stats_median(b.rates[k], n));
        free(b.rates[k]);
    }
    printf(" GB/s\n");
    tensors_end(l);
    free(b.src);
    free(b.dst);
}

void command_link(const struct options *o)
{
    struct link l = {.o = o};
    link_open(&l);
    if (o->graphs)
        graph1_measure(&l);
    if (o->repeat)
        bulk_measure(&l);
    ggml_backend_free(l.backend);
}
