/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph that fails on the host is seen by the program: the call that waits fails, or what is read
 * next is NaN and the next graph fails. Then all is well again. The script looks on stderr for the
 * operation and the tensor. Natively such a graph ends the program, so these cases run only remoted
 * and judge themselves.
 */
#include "tests/native/options/cases.h"
#include "tests/native/options/graph.h"
#include "tests/native/options/run.h"

#include <math.h>
#include <string.h>

#include <ggml-alloc.h>

enum { WIDTH = 32, ROWS = 4 };

/* The ways of a program to its results. */
enum way { WAY_COMPUTE, WAY_ASYNC, WAY_ASYNC_READ, WAYS };

static bool all_nan(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isnan(x[i]))
            return false;
    }
    return n > 0;
}

/* Looks up rows, one of which is not there, in the middle of a graph. */
static void bad_rows(ggml_backend_t backend, enum way way)
{
    const int32_t rows[ROWS] = {1, 2, 100000, 3};
    float x[WIDTH * ROWS];
    struct ggml_context *ctx = graph_context();
    struct ggml_tensor *table = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, 10);
    struct ggml_tensor *index = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, ROWS);
    struct ggml_tensor *picked = ggml_get_rows(ctx, ggml_scale(ctx, table, 2.0f), index);
    struct ggml_tensor *out = ggml_scale(ctx, picked, 0.5f);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_set_name(picked, "picked_rows");
    ggml_build_forward_expand(graph, out);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    if (!buffer)
        run_fail("no buffer");

    graph_fill(table, 1);
    ggml_backend_tensor_set(index, rows, 0, sizeof(rows));
    memset(x, 0, sizeof(x));
    const enum ggml_status status = way == WAY_COMPUTE
                                        ? ggml_backend_graph_compute(backend, graph)
                                        : ggml_backend_graph_compute_async(backend, graph);
    if (way == WAY_ASYNC_READ)
        ggml_backend_tensor_get_async(backend, out, x, 0, sizeof(x));
    ggml_backend_synchronize(backend);
    if (way != WAY_ASYNC_READ)
        ggml_backend_tensor_get(out, x, 0, sizeof(x));
    if (status == GGML_STATUS_SUCCESS && !all_nan(x, WIDTH * ROWS))
        run_fail("a graph that cannot be computed came back as a success, with %g", (double)x[0]);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

void case_error_graph(struct run *r)
{
    ggml_backend_t backend = graph_backend(run_device(r));

    for (int i = 0; i < 2 * WAYS; i++) {
        const enum way way = (enum way)(i % WAYS);
        struct record lost = {0};
        bad_rows(backend, way);
        /* The graph that may be refused to say it is a good one or another bad one. */
        if (i < WAYS) {
            (void)graph_try(backend, &lost, "next", (uint32_t)i);
            graph_compute(backend, &r->record, "after it", (uint32_t)i);
        } else {
            bad_rows(backend, way);
        }
        record_fini(&lost);
    }
    ggml_backend_free(backend);
}

/* Puts an index that does not exist where the last layer picks the rows of tokens with logits. */
static bool spoil(struct ggml_tensor *t, bool ask, void *data)
{
    bool *armed = data;
    if (ask && *armed && t->op == GGML_OP_GET_ROWS && t->src[1] &&
        strncmp(t->src[0]->name, "token_embd", 10) != 0) {
        const int32_t index = 1 << 20;
        ggml_backend_tensor_set(t->src[1], &index, 0, sizeof(index));
        *armed = false;
    }
    return !ask;
}

void case_error_decode(struct run *r)
{
    llama_token tokens[30];
    bool armed = false;

    r->setup.context.cb_eval = spoil;
    r->setup.context.cb_eval_user_data = &armed;
    run_open(r);
    llama_memory_t memory = llama_get_memory(r->ctx);
    stream_tokens(tokens, 0, 30);
    for (int round = 0; round < 3; round++) {
        llama_memory_clear(memory, true);
        armed = true;
        const int32_t code = decode_last(r->ctx, tokens, 0, 30);
        if (armed)
            run_fail("no rows were picked: the case tests nothing");
        if (code == 0 && !all_nan(llama_get_logits_ith(r->ctx, -1), context_vocab(r->ctx)))
            run_fail("llama_decode returned 0 and logits that are not NaN");
        llama_memory_clear(memory, true);
        if (code == 0)
            (void)decode_last(r->ctx, tokens, 0, 5); /* the one that may say it */
        llama_memory_clear(memory, true);
        feed(r->ctx, &r->record, "after it", 0, 0, 0, 30);
    }
    run_close(r); /* while `armed` is there */
}
