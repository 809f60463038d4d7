/* SPDX-License-Identifier: Apache-2.0 */
/* What every exercise is made of: a problem with a known answer, a load, a buffer of bytes. */
#include "tests/system/apir_exercise.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

void threads_run_each(size_t n, void *(*run)(void *arg), void *args, size_t size)
{
    pthread_t *threads = calloc(n, sizeof(*threads));
    CHECK(threads);
    for (size_t i = 0; i < n; i++)
        CHECK(pthread_create(&threads[i], NULL, run, (char *)args + i * size) == 0);
    for (size_t i = 0; i < n; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    free(threads);
}

void child_wait(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status))
        fail("the child ended by signal %d", WTERMSIG(status));
    CHECK(WEXITSTATUS(status) == 0);
}

ggml_backend_t backend_new(ggml_backend_dev_t dev)
{
    ggml_backend_t backend = ggml_backend_dev_init(dev, NULL);
    if (!backend)
        fail("the device opens no backend");
    return backend;
}

ggml_backend_event_t event_new(ggml_backend_dev_t dev)
{
    ggml_backend_event_t event = ggml_backend_event_new(dev);
    if (!event)
        fail("the device has no further event");
    return event;
}

struct ggml_context *context_new(void)
{
    const struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 64 + ggml_graph_overhead(),
        .no_alloc = true,
    };
    struct ggml_context *ctx = ggml_init(params);
    CHECK(ctx);
    return ctx;
}

void graph_compute(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    CHECK(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
}

void graph_compute_async(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    CHECK(ggml_backend_graph_compute_async(backend, graph) == GGML_STATUS_SUCCESS);
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

void problem_weights(struct problem *p, unsigned seed)
{
    fill_small(p->wf, p->n * p->n, seed);
    fill_small(p->vf, p->n * p->n, seed + 1);
    fill_small(p->bf, p->n, seed + 2);
    ggml_backend_tensor_set(p->w, p->wf, 0, ggml_nbytes(p->w));
    ggml_backend_tensor_set(p->v, p->vf, 0, ggml_nbytes(p->v));
    ggml_backend_tensor_set(p->b, p->bf, 0, ggml_nbytes(p->b));
}

bool problem_try(struct problem *p, ggml_backend_dev_t dev, int64_t n, int64_t cols)
{
    *p = (struct problem){.n = n, .cols = cols};
    p->backend = ggml_backend_dev_init(dev, NULL);
    if (!p->backend)
        return false;
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
    for (int i = 0; i < ggml_graph_n_nodes(p->graph); i++) {
        if (!ggml_backend_dev_supports_op(dev, ggml_graph_node(p->graph, i)))
            return false;
    }
    p->buffer = ggml_backend_alloc_ctx_tensors(p->ctx, p->backend);
    if (!p->buffer)
        return false;

    p->wf = floats(n * n);
    p->vf = floats(n * n);
    p->bf = floats(n);
    p->xf = floats(n * cols);
    p->want = floats(n * cols);
    p->got = floats(n * cols);
    problem_weights(p, 1);
    return true;
}

void problem_init(struct problem *p, ggml_backend_dev_t dev, int64_t n, int64_t cols)
{
    if (!problem_try(p, dev, n, cols))
        fail("the device opens no backend, lacks an op or has no buffer for the tensors");
}

void problem_question(struct problem *p, unsigned seed)
{
    fill_small(p->xf, p->n * p->cols, seed);
    problem_answer(p);
}

enum outcome problem_ask(struct problem *p)
{
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

enum outcome problem_run(struct problem *p, unsigned seed)
{
    problem_question(p, seed);
    return problem_ask(p);
}

void problem_free(struct problem *p)
{
    ggml_backend_buffer_free(p->buffer);
    ggml_backend_free(p->backend);
    ggml_free(p->ctx);
    float *all[] = {p->wf, p->vf, p->bf, p->xf, p->want, p->got};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    *p = (struct problem){0};
}

/* ---- the unchecked load ------------------------------------------------------------ */

void load_init(struct load *l, ggml_backend_dev_t dev)
{
    enum { N = 384, COLS = 64, LAYERS = 8 };
    *l = (struct load){.backend = backend_new(dev), .ctx = context_new()};
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
    *l = (struct load){0};
}

/* ---- a buffer of bytes -------------------------------------------------------------- */

bool bytes_try(struct bytes *b, ggml_backend_dev_t dev, size_t size)
{
    *b = (struct bytes){.ctx = context_new(), .size = size};
    b->t = ggml_new_tensor_1d(b->ctx, GGML_TYPE_I8, (int64_t)size);
    b->buffer = ggml_backend_alloc_ctx_tensors_from_buft(b->ctx, ggml_backend_dev_buffer_type(dev));
    b->want = calloc(1, size);
    b->got = calloc(1, size);
    CHECK(b->want && b->got);
    return b->buffer;
}

void bytes_init(struct bytes *b, ggml_backend_dev_t dev, size_t size)
{
    CHECK(bytes_try(b, dev, size));
    ggml_backend_buffer_clear(b->buffer, 0);
}

void bytes_fini(struct bytes *b)
{
    ggml_backend_buffer_free(b->buffer);
    ggml_free(b->ctx);
    free(b->want);
    free(b->got);
}

void random_bytes(uint8_t *to, size_t n, uint32_t seed)
{
    uint32_t state = seed * 747796405u + 1u;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        to[i] = (uint8_t)(state >> 24);
    }
}

void bytes_set(struct bytes *b, uint32_t seed)
{
    random_bytes(b->want, b->size, seed);
    ggml_backend_tensor_set(b->t, b->want, 0, b->size);
}

void bytes_set_async(struct bytes *b, ggml_backend_t backend, uint32_t seed)
{
    random_bytes(b->want, b->size, seed);
    ggml_backend_tensor_set_async(backend, b->t, b->want, 0, b->size);
}

void bytes_get_async(struct bytes *b, ggml_backend_t backend, size_t size)
{
    memset(b->got, 0, b->size);
    ggml_backend_tensor_get_async(backend, b->t, b->got, 0, size);
}

/* The whole of it, so that a write beside its target shows too. */
void bytes_check(struct bytes *b, const char *after)
{
    memset(b->got, 0x5a, b->size);
    ggml_backend_tensor_get(b->t, b->got, 0, b->size);
    for (size_t i = 0; i < b->size; i++) {
        if (b->got[i] != b->want[i])
            fail("after %s: byte %zu of %zu is %02x, not %02x", after, i, b->size, b->got[i],
                 b->want[i]);
    }
}
