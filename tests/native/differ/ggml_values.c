/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/differ/ggml_values.h"

#include <stdlib.h>
#include <string.h>

enum { ANY_INTEGER = 50 /* positions, numbers to be copied */ };

static bool holds(const struct ggml_tensor *user, const struct ggml_tensor *t)
{
    return user && (user == t || user->view_src == t);
}

/* How large what source i of this op holds may be. */
static int64_t limit_of(const struct ggml_tensor *node, int i)
{
    switch (node->op) {
    case GGML_OP_GET_ROWS:
        return i == 1 ? node->src[0]->ne[1] : ANY_INTEGER;
    case GGML_OP_GET_ROWS_BACK:
        return i == 1 ? node->ne[1] : ANY_INTEGER;
    case GGML_OP_SET_ROWS:
        return i == 1 ? node->ne[1] : ANY_INTEGER;
    case GGML_OP_MUL_MAT_ID:
        return i == 2 ? node->src[0]->ne[2] : ANY_INTEGER;
    case GGML_OP_ADD_ID:
        return i == 2 ? node->src[1]->ne[1] : ANY_INTEGER;
    case GGML_OP_SSM_SCAN:
        return i == 6 ? node->src[0]->ne[3] : ANY_INTEGER;
    default:
        return ANY_INTEGER;
    }
}

/*
 * How large an integer in `t` may be, from all that use it in the graph; 0: nobody that computes
 * does, so it may hold anything.
 */
static int64_t limit_in(struct ggml_cgraph *graph, const struct ggml_tensor *t)
{
    int64_t limit = 0;
    for (int n = 0; n < ggml_graph_n_nodes(graph); n++) {
        const struct ggml_tensor *node = ggml_graph_node(graph, n);
        for (int i = 0; i < GGML_MAX_SRC; i++) {
            if (!holds(node->src[i], t) || !(node->flags & GGML_TENSOR_FLAG_COMPUTE))
                continue;
            const int64_t most = limit_of(node, i);
            limit = !limit || most < limit ? most : limit;
        }
    }
    return limit;
}

/* Neighbours differ, for rows that are written twice have no defined contents. */
static int64_t integer(struct differ_random *r, int64_t limit, int64_t first, int64_t i)
{
    return limit ? (first + i) % limit : (int64_t)differ_next(r);
}

static void make_quantized(struct differ_random *r, const struct ggml_tensor *t, void *data)
{
    const int64_t n = ggml_nelements(t), row = t->ne[0];
    float *numbers = differ_alloc((size_t)n * sizeof(*numbers));
    float *importance = differ_alloc((size_t)row * sizeof(*importance));
    for (int64_t i = 0; i < n; i++)
        numbers[i] = differ_float(r);
    for (int64_t i = 0; i < row; i++)
        importance[i] = 1;
    ggml_quantize_chunk(t->type, numbers, data, 0, n / row, row, importance);
    free(numbers);
    free(importance);
}

static void make(struct differ_random *r, const struct ggml_tensor *t, int64_t limit, void *data)
{
    const int64_t n = ggml_nelements(t), first = limit ? differ_below(r, (uint32_t)limit) : 0;
    switch (t->type) {
    case GGML_TYPE_F32:
        for (int64_t i = 0; i < n; i++)
            ((float *)data)[i] = differ_float(r);
        break;
    case GGML_TYPE_F16:
        for (int64_t i = 0; i < n; i++)
            ((ggml_fp16_t *)data)[i] = ggml_fp32_to_fp16(differ_float(r));
        break;
    case GGML_TYPE_BF16:
        for (int64_t i = 0; i < n; i++)
            ((ggml_bf16_t *)data)[i] = ggml_fp32_to_bf16(differ_float(r));
        break;
    case GGML_TYPE_I32:
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)data)[i] = (int32_t)integer(r, limit, first, i);
        break;
    case GGML_TYPE_I64:
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)data)[i] = integer(r, limit, first, i);
        break;
    case GGML_TYPE_Q8_1: /* never in a file: nothing makes them but a kernel */
    case GGML_TYPE_Q8_K:
        memset(data, 0, ggml_nbytes(t));
        break;
    default:
        if (ggml_is_quantized(t->type) && n)
            make_quantized(r, t, data);
        else
            memset(data, 1, ggml_nbytes(t));
        break;
    }
}

void values_fill(struct world *w, const struct both *g, size_t i, int stream)
{
    const struct pair p = both_pair(g, i);
    const size_t size = ggml_nbytes(p.t[NATIVE]);
    if (!size)
        return;
    void *data = differ_alloc(size);
    make(&w->r, p.t[NATIVE], limit_in(g->built[NATIVE].graph, p.t[NATIVE]), data);
    for (int s = 0; s < SIDES; s++) {
        if (stream == NOBODY)
            ggml_backend_tensor_set(p.t[s], data, 0, size);
        else
            ggml_backend_tensor_set_async(w->stream[s][stream], p.t[s], data, 0, size);
    }
    world_later(w, stream, data, NULL, 0);
}
