/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-link: what the road to a ggml device costs by itself, through ggml's public interface. A
 * graph of one node measures the round trip; setting and getting a large tensor, the bandwidth,
 * beside memcpy in the same process.
 *
 * Every figure is of work that was proven: the node adds 1 to its own tensor, so that its value
 * says how often it was computed; no byte pattern is used twice, and what comes back is compared.
 * Anything wrong ends the program with 1.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include "tests/bench/sample.h"
#include "tests/bench/stats.h"
#include "tests/lib/clock.h"

#define BLOCK   100 /* graphs whose median is one sample, and whose sum is checked together */
#define WARM_UP 2   /* blocks, and transfers: first touch, sleeping peers, the graph's definition */
#define MIB     ((size_t)1 << 20)
#define SIZE    (64 * MIB) /* of the tensor that is set and got */
#define DEVICE  "APIR0"

static const char usage[] =
    "usage: apir-link [OPTION]...\n"
    "Measures the road to a ggml device: a graph of one node, set, get, and memcpy beside them.\n"
    "\n"
    "  --case NAME    what the samples call the case (link)\n"
    "  --graphs N     timed computations, in blocks of 100 (2000); 0: none\n"
    "  --repeat N     how often that is done (20); 0: never\n"
    "  --out FILE     append one JSON object per sample\n";

struct options {
    const char *name, *out;
    size_t graphs, repeat;
};

struct link {
    const struct options *o;
    FILE *out; /* NULL: no samples are kept */
    ggml_backend_dev_t dev;
    ggml_backend_t backend;
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer; /* of all tensors of ctx */
};

static bool fail(const char *what)
{
    fprintf(stderr, "apir-link: %s\n", what);
    return false;
}

static bool sample(const struct link *l, const char *metric, size_t pair, double value,
                   const char *unit)
{
    struct sample s = {.pair = (int64_t)pair, .value = value};
    snprintf(s.name, sizeof(s.name), "%s", l->o->name);
    snprintf(s.side, sizeof(s.side), "apir");
    snprintf(s.metric, sizeof(s.metric), "%s", metric);
    snprintf(s.unit, sizeof(s.unit), "%s", unit);
    return !l->out || sample_write(l->out, &s) == 0 || fail("the samples cannot be written");
}

/* ---- the device ----------------------------------------------------------------- */

/* A fresh context for the tensors of one measurement. */
static bool tensors_begin(struct link *l)
{
    const struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 8 + ggml_graph_overhead(),
        .no_alloc = true,
    };
    l->ctx = ggml_init(params);
    return l->ctx || fail("out of memory");
}

static bool tensors_place(struct link *l)
{
    l->buffer = ggml_backend_alloc_ctx_tensors(l->ctx, l->backend);
    return l->buffer || fail("the device has no room for the tensors");
}

static void tensors_end(struct link *l)
{
    ggml_backend_buffer_free(l->buffer);
    ggml_free(l->ctx);
    l->buffer = NULL;
    l->ctx = NULL;
}

static bool link_open(struct link *l)
{
    ggml_backend_load_all();
    l->dev = ggml_backend_dev_by_name(DEVICE);
    if (!l->dev) {
        fprintf(stderr,
                "apir-link: ggml has no device %s; is GGML_BACKEND_PATH the plug-in, and is there "
                "a host side (apir doctor says)?\n",
                DEVICE);
        return false;
    }
    l->backend = ggml_backend_dev_init(l->dev, NULL);
    if (!l->backend)
        return fail("the device does not start; APIR_LOG=info says more");
    printf("%s: %s\n", DEVICE, ggml_backend_dev_description(l->dev));
    return true;
}

static void link_close(struct link *l)
{
    ggml_backend_free(l->backend);
}

/* ---- one node --------------------------------------------------------------------- */

struct graph1 {
    struct ggml_tensor *sum, *one;
    struct ggml_cgraph *graph;
    double *total, *wait; /* of each timed graph, in µs; wait: the part in synchronize */
    size_t n;
};

/* BLOCK graphs, whose sum starts at `first`. */
static bool graph1_block(struct link *l, struct graph1 *g, float first, bool timed)
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
            return fail("the device refuses a computation");
        if (timed) {
            g->total[g->n] = (double)(ended - began) / 1e3;
            g->wait[g->n++] = (double)(ended - sent) / 1e3;
        }
    }
    ggml_backend_tensor_get(g->sum, &got, 0, sizeof(got));
    if (got != first + BLOCK) {
        fprintf(stderr, "apir-link: after %d additions to %g there is %g\n", BLOCK, (double)first,
                (double)got);
        return false;
    }
    return true;
}

static bool graph1_blocks(struct link *l, struct graph1 *g)
{
    for (size_t i = 0; i < WARM_UP + l->o->graphs / BLOCK; i++) {
        /* Small whole numbers: exact in a float, and none that the block before left there. */
        if (!graph1_block(l, g, (float)(i % 1000 * 3 * BLOCK), i >= WARM_UP))
            return false;
        if (i < WARM_UP)
            continue;
        double block = stats_median(g->total + g->n - BLOCK, BLOCK);
        if (!sample(l, "graph1", i - WARM_UP, block, "us"))
            return false;
    }
    stats_sort(g->total, g->n);
    printf("graph1: p50 %.2f  p90 %.2f  p99 %.2f  max %.2f us (%zu graphs; waiting alone: p50 "
           "%.2f us)\n",
           stats_percentile(g->total, g->n, 50), stats_percentile(g->total, g->n, 90),
           stats_percentile(g->total, g->n, 99), g->total[g->n - 1], g->n,
           stats_median(g->wait, g->n));
    return true;
}

static bool graph1_measure(struct link *l)
{
    struct graph1 g = {.total = malloc(l->o->graphs * sizeof(*g.total)),
                       .wait = malloc(l->o->graphs * sizeof(*g.wait))};
    bool ok = (g.total && g.wait) || fail("out of memory");
    ok = ok && tensors_begin(l);
    if (ok) {
        g.sum = ggml_new_tensor_1d(l->ctx, GGML_TYPE_F32, 1);
        g.one = ggml_new_tensor_1d(l->ctx, GGML_TYPE_F32, 1);
        g.graph = ggml_new_graph(l->ctx);
        ggml_build_forward_expand(g.graph, ggml_add_inplace(l->ctx, g.sum, g.one));
        ok = tensors_place(l);
    }
    if (ok) {
        const float one = 1;
        ggml_backend_tensor_set(g.one, &one, 0, sizeof(one));
        ok = graph1_blocks(l, &g);
    }
    tensors_end(l);
    free(g.total);
    free(g.wait);
    return ok;
}

/* ---- bandwidth -------------------------------------------------------------------- */

struct bulk {
    struct ggml_tensor *t;
    uint64_t *src, *dst;
    size_t size;
    double *rates[3]; /* memcpy, set, get: GB/s, one per repetition */
};

/* Another word at every place than in every other round. */
static void pattern_write(uint64_t *to, size_t size, uint64_t round)
{
    for (size_t i = 0; i < size / sizeof(*to); i++)
        to[i] = i * 0x9e3779b97f4a7c15u + round * 0xd1342543de82ef95u;
}

static double rate(size_t size, uint64_t began)
{
    return (double)size / (double)(now_ns() - began);
}

/* Whether dst is src by now; makes sure that the next one cannot be so by luck. */
static bool bulk_check(const struct bulk *b, const char *what)
{
    bool same = memcmp(b->dst, b->src, b->size) == 0;
    memset(b->dst, 0x5a, b->size);
    if (!same)
        fprintf(stderr, "apir-link: %s: other bytes arrived than were sent\n", what);
    return same;
}

static bool bulk_round(const struct bulk *b, uint64_t round, double ret_rates[3])
{
    pattern_write(b->src, b->size, round);

    uint64_t began = now_ns();
    memcpy(b->dst, b->src, b->size);
    ret_rates[0] = rate(b->size, began);
    if (!bulk_check(b, "memcpy"))
        return false;

    began = now_ns();
    ggml_backend_tensor_set(b->t, b->src, 0, b->size);
    /* A set may return while bytes are on their way. The answer to this one comes behind them. */
    uint8_t last = 0;
    ggml_backend_tensor_get(b->t, &last, b->size - 1, 1);
    ret_rates[1] = rate(b->size, began);
    if (last != ((const uint8_t *)b->src)[b->size - 1])
        return fail("set: the last byte is another one");

    began = now_ns();
    ggml_backend_tensor_get(b->t, b->dst, 0, b->size);
    ret_rates[2] = rate(b->size, began);
    return bulk_check(b, "set and get");
}

static bool bulk_rounds(struct link *l, struct bulk *b)
{
    static const char *const metrics[3] = {"memcpy", "set", "get"};
    for (size_t i = 0; i < WARM_UP + l->o->repeat; i++) {
        double rates[3];
        if (!bulk_round(b, i, rates))
            return false;
        for (int k = 0; k < 3 && i >= WARM_UP; k++) {
            b->rates[k][i - WARM_UP] = rates[k];
            if (!sample(l, metrics[k], i - WARM_UP, rates[k], "GB/s"))
                return false;
        }
    }
    printf("%zu MiB, %zu times, medians:", b->size / MIB, l->o->repeat);
    for (int k = 0; k < 3; k++)
        printf("  %s %.2f", metrics[k], stats_median(b->rates[k], l->o->repeat));
    printf(" GB/s\n");
    return true;
}

static bool bulk_measure(struct link *l)
{
    struct bulk b = {.size = SIZE};
    b.src = malloc(b.size);
    b.dst = malloc(b.size);
    bool ok = b.src && b.dst;
    for (int k = 0; k < 3; k++)
        ok = (b.rates[k] = malloc(l->o->repeat * sizeof(double))) && ok;
    ok = ok || fail("out of memory");
    ok = ok && tensors_begin(l);
    if (ok) {
        memset(b.dst, 0x5a, b.size); /* touched, as src will be */
        b.t = ggml_new_tensor_1d(l->ctx, GGML_TYPE_I8, (int64_t)b.size);
        ok = tensors_place(l) && bulk_rounds(l, &b);
    }
    tensors_end(l);
    free(b.src);
    free(b.dst);
    for (int k = 0; k < 3; k++)
        free(b.rates[k]);
    return ok;
}

/* ---- options ------------------------------------------------------------------------ */

static bool number_parse(const char *text, size_t max, size_t *ret_value)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || v > max)
        return false;
    *ret_value = v;
    return true;
}

static bool options_parse(struct options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"case", required_argument, NULL, 'c'},   {"graphs", required_argument, NULL, 'g'},
        {"repeat", required_argument, NULL, 'r'}, {"out", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    bool ok = true;
    for (int c; ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'c':
            ok = sample_name_ok(o->name = optarg);
            break;
        case 'g':
            ok = number_parse(optarg, 100000000, &o->graphs);
            break;
        case 'r':
            ok = number_parse(optarg, 100000, &o->repeat);
            break;
        case 'o':
            o->out = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            return false; /* getopt has said why */
        }
        if (!ok)
            fprintf(stderr, "apir-link: no good value: %s\n", optarg);
    }
    /* Whole blocks. */
    o->graphs = (o->graphs + BLOCK - 1) / BLOCK * BLOCK;
    return ok && optind == argc;
}

int main(int argc, char **argv)
{
    struct options o = {.name = "link", .graphs = 2000, .repeat = 20};
    if (!options_parse(&o, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    struct link l = {.o = &o};
    if (o.out && !(l.out = fopen(o.out, "ae"))) {
        fprintf(stderr, "apir-link: cannot write %s: %s\n", o.out, strerror(errno));
        return 1;
    }
    bool ok = link_open(&l);
    if (ok) {
        ok = (!o.graphs || graph1_measure(&l)) && (!o.repeat || bulk_measure(&l));
        link_close(&l);
    }
    if (l.out && fclose(l.out) != 0) {
        fprintf(stderr, "apir-link: cannot write %s: %s\n", o.out, strerror(errno));
        ok = false;
    }
    return ok ? 0 : 1;
}
