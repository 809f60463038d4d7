/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/apir_exercise.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: apir-exercise COMMAND [DEVICE]\n"
    "Drives a ggml device (default APIR0) through ggml's public interface and checks the results.\n"
    "\n"
    "  list           one line per device: name, type, total memory, description\n"
    "  compute        a hundred checked computations\n"
    "  transfers      set, get, 2d, memset, clear; every size that takes another road\n"
    "  async          asynchronous set, get and events\n"
    "  copies         between buffers, streams and the CPU\n"
    "  buffers        many, too large, reset\n"
    "  host-buffers   the device's host buffer type: transfers, many, computing in it\n"
    "  reads          several threads that read at the same time\n"
    "  weights        buffers of weights: filled, used, changed, freed, by several threads\n"
    "  weights-late   a graph writes into a buffer of weights before anybody else\n"
    "  events         events between backends of the device\n"
    "  events-free    the same, with either end freed first\n"
    "  events-fork    in a child of a busy process\n"
    "  devices        copies between the device and another one beside it\n"
    "  threads        four threads, each with a backend of its own\n"
    "  fork           a child's attempts fail, the parent's go on\n"
    "  fork-busy      the same, forked while another thread computes\n"
    "  exit           main returns while a thread computes\n"
    "  loader-thread  the thread that loaded the backends has ended\n"
    "  load-twice     a second load_all lists nothing twice\n"
    "  lost           computes until the host is lost, then checks what is promised\n"
    "  host-lost      the same with transfers from and to host buffers\n"
    "  host-lost-late reads that are given up after the loss; waits for a line of stdin\n"
    "  hold           one computation per line of stdin, until its end\n";

void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("FAIL ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    fflush(stdout);
    /* Other threads may compute: nothing of the process is torn down under them. */
    _exit(1);
}

double now_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

ggml_backend_dev_t device_named(const char *name)
{
    ggml_backend_dev_t dev = ggml_backend_dev_by_name(name);
    if (!dev)
        fail("no device %s", name);
    return dev;
}

/* ---- the checked problem -------------------------------------------------------- */

/* Whole numbers from -2 to 2, other ones for each seed. */
static void fill_small(float *to, int64_t n, unsigned seed)
{
    uint32_t state = seed * 2654435761u + 12345u;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        to[i] = (float)(int)((state >> 24) % 5) - 2.0f;
    }
}

static float *floats(int64_t n)
{
    float *p = malloc((size_t)n * sizeof(*p));
    if (!p)
        fail("out of memory");
    return p;
}

/* to[cols × n] = a[n × n] from[cols × n], all in ggml's order of rows. */
static void multiply(const float *a, const float *from, float *to, int64_t n, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++) {
        for (int64_t r = 0; r < n; r++) {
            float sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += a[r * n + k] * from[c * n + k];
            to[c * n + r] = sum;
        }
    }
}

static void problem_answer(struct problem *p)
{
    float *hidden = floats(p->n * p->cols);
    multiply(p->wf, p->xf, hidden, p->n, p->cols);
    for (int64_t i = 0; i < p->n * p->cols; i++) {
        hidden[i] += p->bf[i % p->n];
        if (hidden[i] < 0)
            hidden[i] = 0;
    }
    multiply(p->vf, hidden, p->want, p->n, p->cols);
    free(hidden);
}

static struct ggml_context *context_new(void)
{
    const struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 64 + ggml_graph_overhead(),
        .no_alloc = true,
    };
    struct ggml_context *ctx = ggml_init(params);
    if (!ctx)
        fail("ggml_init");
    return ctx;
}

void problem_init(struct problem *p, ggml_backend_dev_t dev, int64_t n, int64_t cols)
{
    *p = (struct problem){ .n = n, .cols = cols };
    p->backend = ggml_backend_dev_init(dev, NULL);
    if (!p->backend)
        fail("the device opens no backend");
    p->ctx = context_new();
    p->w = ggml_new_tensor_2d(p->ctx, GGML_TYPE_F32, n, n);
    p->v = ggml_new_tensor_2d(p->ctx, GGML_TYPE_F32, n, n);
    p->b = ggml_new_tensor_1d(p->ctx, GGML_TYPE_F32, n);
    p->x = ggml_new_tensor_2d(p->ctx, GGML_TYPE_F32, n, cols);
    struct ggml_tensor *hidden =
        ggml_relu(p->ctx, ggml_add(p->ctx, ggml_mul_mat(p->ctx, p->w, p->x), p->b));
    p->y = ggml_mul_mat(p->ctx, p->v, hidden);
    p->graph = ggml_new_graph(p->ctx);
    ggml_build_forward_expand(p->graph, p->y);
    for (int i = 0; i < ggml_graph_n_nodes(p->graph); i++)
        CHECK(ggml_backend_dev_supports_op(dev, ggml_graph_node(p->graph, i)));
    p->buffer = ggml_backend_alloc_ctx_tensors(p->ctx, p->backend);
    if (!p->buffer)
        fail("no buffer for the tensors");

    p->wf = floats(n * n);
    p->vf = floats(n * n);
    p->bf = floats(n);
    p->xf = floats(n * cols);
    p->want = floats(n * cols);
    p->got = floats(n * cols);
    fill_small(p->wf, n * n, 1);
    fill_small(p->vf, n * n, 2);
    fill_small(p->bf, n, 3);
    ggml_backend_tensor_set(p->w, p->wf, 0, ggml_nbytes(p->w));
    ggml_backend_tensor_set(p->v, p->vf, 0, ggml_nbytes(p->v));
    ggml_backend_tensor_set(p->b, p->bf, 0, ggml_nbytes(p->b));
}

enum outcome problem_run(struct problem *p, unsigned seed)
{
    fill_small(p->xf, p->n * p->cols, seed);
    problem_answer(p);
    ggml_backend_tensor_set(p->x, p->xf, 0, ggml_nbytes(p->x));
    if (ggml_backend_graph_compute(p->backend, p->graph) != GGML_STATUS_SUCCESS)
        return REFUSED;
    ggml_backend_tensor_get(p->y, p->got, 0, ggml_nbytes(p->y));
    size_t size = ggml_nbytes(p->y);
    /* -0 is as good as 0, so not memcmp. */
    for (size_t i = 0; i < size / sizeof(float); i++) {
        if (!(p->got[i] == p->want[i]))
            return WRONG;
    }
    return RIGHT;
}

void problem_free(struct problem *p)
{
    ggml_backend_buffer_free(p->buffer);
    ggml_backend_free(p->backend);
    ggml_free(p->ctx);
    float *all[] = { p->wf, p->vf, p->bf, p->xf, p->want, p->got };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    *p = (struct problem){ 0 };
}

/* ---- the unchecked load ------------------------------------------------------------ */

void load_init(struct load *l, ggml_backend_dev_t dev)
{
    enum { N = 384, COLS = 64, LAYERS = 8 };
    *l = (struct load){ .backend = ggml_backend_dev_init(dev, NULL) };
    if (!l->backend)
        fail("the device opens no backend");
    l->ctx = context_new();
    struct ggml_tensor *w = ggml_new_tensor_2d(l->ctx, GGML_TYPE_F32, N, N);
    struct ggml_tensor *x = ggml_new_tensor_2d(l->ctx, GGML_TYPE_F32, N, COLS);
    l->ids = ggml_new_tensor_1d(l->ctx, GGML_TYPE_I32, 1000);
    l->y = x;
    for (int i = 0; i < LAYERS; i++)
        l->y = ggml_mul_mat(l->ctx, w, l->y);
    l->graph = ggml_new_graph(l->ctx);
    ggml_build_forward_expand(l->graph, l->y);
    l->buffer = ggml_backend_alloc_ctx_tensors(l->ctx, l->backend);
    if (!l->buffer)
        fail("no buffer for the tensors");
    ggml_backend_buffer_clear(l->buffer, 0);
}

enum ggml_status load_run(struct load *l)
{
    return ggml_backend_graph_compute(l->backend, l->graph);
}

void load_free(struct load *l)
{
    ggml_backend_buffer_free(l->buffer);
    ggml_backend_free(l->backend);
    ggml_free(l->ctx);
    *l = (struct load){ 0 };
}

/* ---- small commands ------------------------------------------------------------------ */

static int list_run(void)
{
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        struct ggml_backend_dev_props props;
        ggml_backend_dev_get_props(ggml_backend_dev_get(i), &props);
        printf("%s\t%d\t%zu\t%s\n", props.name, (int)props.type, props.memory_total,
               props.description);
    }
    return 0;
}

static int compute_run(ggml_backend_dev_t dev)
{
    struct problem p;
    problem_init(&p, dev, 48, 7);
    for (unsigned i = 0; i < 100; i++)
        CHECK(problem_run(&p, 100 + i) == RIGHT);
    problem_free(&p);
    /* Again in the same process, with other shapes. */
    problem_init(&p, dev, 129, 1);
    for (unsigned i = 0; i < 10; i++)
        CHECK(problem_run(&p, 300 + i) == RIGHT);
    problem_free(&p);
    return 0;
}

static int load_twice_run(void)
{
    ggml_backend_load_all();
    ggml_backend_load_all();
    size_t devices = 0, regs = 0;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        if (strncmp(ggml_backend_dev_name(ggml_backend_dev_get(i)), "APIR", 4) == 0)
            devices++;
    }
    for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
        if (strcmp(ggml_backend_reg_name(ggml_backend_reg_get(i)), "APIR") == 0)
            regs++;
    }
    printf("%zu registrations, %zu devices\n", regs, devices);
    CHECK(regs == 1 && devices == 1);
    return compute_run(device_named("APIR0"));
}

static void *load_thread(void *arg)
{
    ggml_backend_load_all();
    return arg;
}

static int loader_thread_run(const char *name)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, load_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return compute_run(device_named(name));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(ggml_backend_dev_t dev);
    } commands[] = {
        { "compute", compute_run },     { "transfers", transfers_run }, { "async", async_run },
        { "copies", copies_run },       { "buffers", buffers_run },     { "threads", threads_run },
        { "fork", fork_run },           { "fork-busy", fork_busy_run }, { "exit", exit_run },
        { "lost", lost_run },           { "hold", hold_run },
        { "host-buffers", host_buffers_run },
        { "reads", reads_run },
        { "weights", weights_run },
        { "weights-late", weights_late_run },
        { "events", events_run },
        { "events-free", events_free_run },
        { "events-fork", events_fork_run },
        { "devices", devices_run },
        { "host-lost", host_lost_run },
        { "host-lost-late", host_lost_late_run },
    };
    const char *command = argc > 1 ? argv[1] : "";
    const char *device = argc > 2 ? argv[2] : "APIR0";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(command, "load-twice") == 0)
        return load_twice_run();
    if (strcmp(command, "loader-thread") == 0)
        return loader_thread_run(device);
    if (strcmp(command, "list") == 0) {
        ggml_backend_load_all();
        return list_run();
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(command, commands[i].name) == 0) {
            ggml_backend_load_all();
            return commands[i].run(device_named(device));
        }
    }
    fputs(usage, stderr);
    return 2;
}
