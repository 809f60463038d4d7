/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/trial.h"

#include <errno.h>
#include <string.h>

#include "backend/worker/ggml/buffer.h"
#include "backend/worker/ggml/graph.h"
#include "common/log.h"
#include "protocol/graph.h"
#include "protocol/gguf.h"

/* One column: the kernel for it is the smallest that there is to be compiled. */
enum { DEPTH = 64, ROWS = 8, COLUMNS = 1 };
enum { A, B, C, PRODUCT, SUM, TENSORS };

#define CELLS (ROWS * COLUMNS)

struct trial {
    struct gg_tensor tensors[TENSORS];
    uint64_t offsets[TENSORS]; /* in the buffer */
    struct host_buffer buffer; /* no handle: none */
    struct host_graph graph;
    void *stream; /* NULL: none */
};

/* Whole numbers, so small that each product and sum of them is exact in every format of floats that
 * a device may compute in, and in every order. */
static float element(unsigned i)
{
    return (float)((int)(i % 5) - 2);
}

static void tensors_shape(struct trial *t)
{
    static const int64_t shapes[TENSORS][2] = {
        [A] = {DEPTH, ROWS},         [B] = {DEPTH, COLUMNS},  [C] = {ROWS, COLUMNS},
        [PRODUCT] = {ROWS, COLUMNS}, [SUM] = {ROWS, COLUMNS},
    };
    for (int i = 0; i < TENSORS; i++) {
        struct gg_tensor *g = &t->tensors[i];
        *g = (struct gg_tensor){
            .type = APIR_TYPE_F32, .ne = {shapes[i][0], shapes[i][1], 1, 1}, .nb = {sizeof(float)}};
        for (int k = 1; k < 4; k++)
            g->nb[k] = g->nb[k - 1] * (size_t)g->ne[k - 1];
    }
}

/* False: this ggml has no such operation on the device. */
static bool node_make(struct host_ggml *hg, const struct host_device *d, struct gg_tensor *node,
                      const char *op, struct gg_tensor *src0, struct gg_tensor *src1)
{
    node->op = host_names_find(&hg->ops, op);
    node->flags = APIR_TENSOR_FLAG_COMPUTE;
    node->src[0] = src0;
    node->src[1] = src1;
    return node->op >= 0 && host_tensor_supported(hg, d, node);
}

static int memory_take(struct host_ggml *hg, const struct host_device *d, struct trial *t,
                       struct apir_error *err)
{
    uint64_t size = 0;
    for (int i = 0; i < TENSORS; i++) {
        t->offsets[i] = size;
        size += host_tensor_alloc_size(hg, d->buft, &t->tensors[i]);
        size = (size + d->alignment - 1) & ~(d->alignment - 1);
    }
    if (host_buffer_alloc(hg, d, d->buft, size, &t->buffer) < 0)
        return apir_error_sys(err, ENOMEM, "%llu bytes", (unsigned long long)size);
    for (int i = 0; i < TENSORS; i++) {
        t->tensors[i].buffer = t->buffer.handle;
        t->tensors[i].data = t->buffer.base + t->offsets[i];
        if (host_tensor_init(hg, &t->tensors[i]) < 0)
            return apir_error_set(err, EIO, "it does not take a tensor");
    }
    return 0;
}

static int result_check(const float *a, const float *b, const float *c, const float *got,
                        struct apir_error *err)
{
    for (unsigned i = 0; i < CELLS; i++) {
        const unsigned row = i % ROWS, column = i / ROWS;
        float want = c[i];
        for (unsigned k = 0; k < DEPTH; k++)
            want += a[row * DEPTH + k] * b[column * DEPTH + k];
        if (!(got[i] == want)) /* what is no number, too */
            return apir_error_set(err, EIO, "wrong result: %g instead of %g", (double)got[i],
                                  (double)want);
    }
    return 0;
}

static int compute(struct host_ggml *hg, struct trial *t, struct apir_error *err)
{
    static const uint32_t nodes[] = {PRODUCT, SUM}, uses[TENSORS] = {1, 1, 1, 1, 0};
    float a[ROWS * DEPTH], b[COLUMNS * DEPTH], c[CELLS], got[CELLS];
    for (unsigned i = 0; i < ROWS * DEPTH; i++)
        a[i] = element(i);
    for (unsigned i = 0; i < COLUMNS * DEPTH; i++)
        b[i] = element(3 * i + 1);
    for (unsigned i = 0; i < CELLS; i++)
        c[i] = element(2 * i + 3);
    memset(got, 0xff, sizeof(got)); /* no numbers: what nobody writes is noticed */
    host_buffer_set(hg, &t->buffer, t->offsets[A], a, sizeof(a));
    host_buffer_set(hg, &t->buffer, t->offsets[B], b, sizeof(b));
    host_buffer_set(hg, &t->buffer, t->offsets[C], c, sizeof(c));
    host_buffer_set(hg, &t->buffer, t->offsets[SUM], got, sizeof(got));
    int rc = host_graph_build(hg, t->tensors, TENSORS, nodes, 2, uses, &t->graph);
    if (rc)
        return apir_error_sys(err, -rc, "its graph cannot be made");
    rc = host_graph_compute(hg, t->stream, &t->graph);
    host_stream_sync(hg, t->stream);
    if (rc)
        return apir_error_set(err, EIO, "ggml's status %d", rc);
    host_buffer_get(hg, &t->buffer, t->offsets[SUM], got, sizeof(got));
    return result_check(a, b, c, got, err);
}

int worker_trial_run(struct host_ggml *hg, const struct host_device *d, struct apir_error *err)
{
    struct trial t = {.stream = NULL};
    struct gg_tensor *const all = t.tensors;
    int rc = 0;
    tensors_shape(&t);
    if (!node_make(hg, d, &all[PRODUCT], "MUL_MAT", &all[A], &all[B]) ||
        !node_make(hg, d, &all[SUM], "ADD", &all[PRODUCT], &all[C])) {
        /* Such as BLAS, whom somebody has named: what it does is asked op by op. */
        apir_log(APIR_LOG_INFO, "%s has no sums of products, and is not tried", d->name);
        return 0;
    }
    t.stream = host_stream_open(hg, d);
    if (!t.stream)
        rc = apir_error_set(err, EIO, "it does not open");
    if (!rc) {
        host_stream_threads(hg, d, t.stream, 1);
        rc = memory_take(hg, d, &t, err);
    }
    if (rc == -ENOMEM) {
        /* Others may have all of it for now: that is no fault of the device, and who asks for more
         * is told by its own allocation. */
        apir_log(APIR_LOG_WARN, "%s has no memory left, and is not tried", d->name);
        host_stream_close(hg, t.stream);
        return 0;
    }
    if (!rc)
        rc = compute(hg, &t, err);
    if (rc)
        return rc;
    host_graph_fini(hg, &t.graph);
    host_stream_close(hg, t.stream);
    host_buffer_free(hg, &t.buffer);
    return 0;
}
