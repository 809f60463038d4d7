/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/model.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/apir_bench.h"
#include "tests/bench/stamp.h"
#include "tests/lib/clock.h"

#define LAYERS    28
#define EMBD      64
#define HEADS     2
#define HEAD_DIM  (EMBD / HEADS)
#define FF        128
#define KV        1024 /* so the mask is 2 KiB */
#define GRAPH_MAX 2048
#define VOCAB     32768

enum { IN_TOKENS, IN_POS, IN_MASK, IN_K_IDXS, IN_V_IDXS, IN_OUT_IDS };

/* ---- the graph ---------------------------------------------------------------- */

static struct ggml_context *context_new(size_t tensors, size_t extra)
{
    struct ggml_init_params p = {.mem_size = tensors * ggml_tensor_overhead() + extra,
                                 .no_alloc = true};
    return ggml_init(p);
}

static struct ggml_tensor *matrix(struct model *m, int64_t in, int64_t out)
{
    return ggml_new_tensor_2d(m->ctx_weights, GGML_TYPE_Q8_0, in, out);
}

static struct ggml_tensor *vector(struct model *m)
{
    return ggml_new_tensor_1d(m->ctx_weights, GGML_TYPE_F32, EMBD);
}

static struct ggml_tensor *input(struct model *m, int index, const char *name, enum ggml_type type,
                                 int64_t n)
{
    struct ggml_tensor *t = ggml_new_tensor_1d(m->ctx_graph, type, n);
    ggml_set_name(t, name);
    ggml_set_input(t);
    m->inputs[index] = t;
    return t;
}

static struct ggml_tensor *norm(struct model *m, struct ggml_tensor *x)
{
    return ggml_mul(m->ctx_graph, ggml_rms_norm(m->ctx_graph, x, 1e-5f), vector(m));
}

static struct ggml_tensor *heads(struct model *m, struct ggml_tensor *x, bool rope)
{
    struct ggml_context *c = m->ctx_graph;
    x = ggml_reshape_3d(c, ggml_mul_mat(c, matrix(m, EMBD, EMBD), x), HEAD_DIM, HEADS, 1);
    if (!rope)
        return x;
    return ggml_rope_ext(c, x, m->inputs[IN_POS], NULL, HEAD_DIM, 0, KV, 10000.0f, 1.0f, 0.0f, 1.0f,
                         32.0f, 1.0f);
}

/* Writes this token's row and returns the whole cache as attention reads it. */
static struct ggml_tensor *cached(struct model *m, struct ggml_tensor *x, int idxs)
{
    struct ggml_context *c = m->ctx_graph;
    struct ggml_tensor *cache = ggml_new_tensor_2d(m->ctx_cache, GGML_TYPE_F16, EMBD, KV);
    ggml_build_forward_expand(
        m->graph, ggml_set_rows(c, cache, ggml_reshape_2d(c, x, EMBD, 1), m->inputs[idxs]));
    size_t element = ggml_type_size(GGML_TYPE_F16);
    struct ggml_tensor *view =
        ggml_view_3d(c, cache, HEAD_DIM, HEADS, KV, HEAD_DIM * element, EMBD * element, 0);
    return ggml_permute(c, view, 0, 2, 1, 3);
}

static struct ggml_tensor *layer(struct model *m, struct ggml_tensor *x)
{
    struct ggml_context *c = m->ctx_graph;
    struct ggml_tensor *cur = norm(m, x);
    struct ggml_tensor *q = ggml_permute(c, heads(m, cur, true), 0, 2, 1, 3);
    struct ggml_tensor *k = cached(m, heads(m, cur, true), IN_K_IDXS);
    struct ggml_tensor *v = cached(m, heads(m, cur, false), IN_V_IDXS);
    cur = ggml_flash_attn_ext(c, q, k, v, m->inputs[IN_MASK], 0.125f, 0.0f, 0.0f);
    cur = ggml_mul_mat(c, matrix(m, EMBD, EMBD), ggml_reshape_2d(c, cur, EMBD, 1));
    x = ggml_add(c, cur, x);
    cur = norm(m, x);
    struct ggml_tensor *gate = ggml_mul_mat(c, matrix(m, EMBD, FF), cur);
    struct ggml_tensor *up = ggml_mul_mat(c, matrix(m, EMBD, FF), cur);
    cur = ggml_mul_mat(c, matrix(m, FF, EMBD), ggml_swiglu_split(c, gate, up));
    return ggml_add(c, cur, x);
}

static void build(struct model *m)
{
    struct ggml_context *c = m->ctx_graph;
    m->graph = ggml_new_graph_custom(c, GRAPH_MAX, false);
    struct ggml_tensor *tokens = input(m, IN_TOKENS, "inp_tokens", GGML_TYPE_I32, 1);
    input(m, IN_POS, "inp_pos", GGML_TYPE_I32, 1);
    input(m, IN_MASK, "inp_mask", GGML_TYPE_F16, KV);
    input(m, IN_K_IDXS, "inp_k_idxs", GGML_TYPE_I64, 1);
    input(m, IN_V_IDXS, "inp_v_idxs", GGML_TYPE_I64, 1);
    struct ggml_tensor *rows = input(m, IN_OUT_IDS, "inp_out_ids", GGML_TYPE_I32, 1);

    struct ggml_tensor *x = ggml_get_rows(c, matrix(m, EMBD, VOCAB), tokens);
    for (int i = 0; i < LAYERS; i++)
        x = layer(m, x);
    x = ggml_get_rows(c, x, rows);
    ggml_build_forward_expand(m->graph, x);
    /* What is missing to the promised number; norm and logits are three more. */
    while (ggml_graph_n_nodes(m->graph) < MODEL_NODES - 3) {
        x = ggml_scale(c, x, 1.0f);
        ggml_build_forward_expand(m->graph, x);
    }
    m->logits =
        ggml_mul_mat(c, matrix(m, EMBD, (int64_t)(m->out_size / sizeof(float))), norm(m, x));
    ggml_set_name(m->logits, "logits");
    ggml_set_output(m->logits);
    ggml_build_forward_expand(m->graph, m->logits);
    if (ggml_graph_n_nodes(m->graph) != MODEL_NODES)
        fail("the graph has %d nodes", ggml_graph_n_nodes(m->graph));
}

/* ---- life --------------------------------------------------------------------- */

static void place(struct model *m, const char *device, size_t uid_offset)
{
    bool ok;
    m->weights = ggml_backend_alloc_ctx_tensors(m->ctx_weights, m->backend);
    m->cache = ggml_backend_alloc_ctx_tensors(m->ctx_cache, m->backend);
    if (!m->weights || !m->cache)
        fail("no room for weights and cache on %s", device);
    ggml_backend_buffer_set_usage(m->weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    if (m->road == MODEL_SCHED) {
        ggml_backend_t both[2] = {m->backend, m->cpu};
        m->sched = ggml_backend_sched_new(both, NULL, 2, GRAPH_MAX, false, false);
        ok = m->sched && ggml_backend_sched_alloc_graph(m->sched, m->graph);
        if (ok && ggml_backend_sched_get_n_splits(m->sched) != 1)
            fail("the scheduler has split the graph in %d",
                 ggml_backend_sched_get_n_splits(m->sched));
    } else {
        m->galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(m->backend));
        ok = m->galloc && ggml_gallocr_alloc_graph(m->galloc, m->graph);
    }
    if (!ok)
        fail("the graph cannot be placed on %s", device);
    if (m->road == MODEL_DIRECT_UID) {
        static uint64_t next = UINT64_C(1) << 48; /* far from ggml's own count */
        uint64_t uid = next++;
        memcpy((char *)m->graph + uid_offset, &uid, sizeof(uid));
    }
}

void model_init(struct model *m, const char *device, enum model_road road, size_t uid_offset)
{
    memset(m, 0, sizeof(*m));
    m->road = road;
    m->out_size = MODEL_LOGITS;
    ggml_backend_dev_t dev = ggml_backend_dev_by_name(device);
    m->backend = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    m->cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    m->ctx_weights = context_new(1024, 0);
    m->ctx_cache = context_new(LAYERS * 2 + 1, 0);
    m->ctx_graph = context_new(GRAPH_MAX, ggml_graph_overhead_custom(GRAPH_MAX, false));
    m->out = allocate(1, m->out_size);
    if (!m->backend || !m->cpu)
        fail("no device %s, or no CPU backend", device);
    build(m);
    place(m, device, uid_offset);
    for (int i = 0; i < MODEL_INPUTS; i++) {
        m->sizes[i] = ggml_nbytes(m->inputs[i]);
        m->values[i] = allocate(1, m->sizes[i]);
        m->seeds[i] = stamp_seed(m->inputs[i]->name);
    }
}

void model_fini(struct model *m)
{
    ggml_backend_sched_free(m->sched);
    ggml_gallocr_free(m->galloc);
    ggml_backend_buffer_free(m->weights);
    ggml_backend_buffer_free(m->cache);
    ggml_free(m->ctx_graph);
    ggml_free(m->ctx_cache);
    ggml_free(m->ctx_weights);
    ggml_backend_free(m->backend);
    ggml_backend_free(m->cpu);
    for (int i = 0; i < MODEL_INPUTS; i++)
        free(m->values[i]);
    free(m->out);
    memset(m, 0, sizeof(*m));
}

/* ---- a token -------------------------------------------------------------------- */

void model_prepare(struct model *m)
{
    uint64_t n = m->tokens + 1;
    int32_t token = (int32_t)(n % VOCAB), pos = (int32_t)(n % KV), row = 0;
    int64_t index = pos;
    uint16_t *mask = (uint16_t *)(void *)m->values[IN_MASK];
    memcpy(m->values[IN_TOKENS], &token, sizeof(token));
    memcpy(m->values[IN_POS], &pos, sizeof(pos));
    memcpy(m->values[IN_K_IDXS], &index, sizeof(index));
    memcpy(m->values[IN_V_IDXS], &index, sizeof(index));
    memcpy(m->values[IN_OUT_IDS], &row, sizeof(row));
    /* Both ends of the mask change with every token: the stamp looks there. */
    mask[0] = mask[KV - 1] = (uint16_t)n;
}

void model_token(struct model *m)
{
    bool sched = m->road == MODEL_SCHED;
    m->began = now_ns();
    for (int i = 0; i < MODEL_INPUTS; i++) {
        if (sched) /* into the CPU's copy; the scheduler hands it on, as for llama.cpp */
            ggml_backend_tensor_set(m->inputs[i], m->values[i], 0, m->sizes[i]);
        else
            ggml_backend_tensor_set_async(m->backend, m->inputs[i], m->values[i], 0, m->sizes[i]);
    }
    m->ended[PHASE_SET] = now_ns();
    if (sched)
        ggml_backend_sched_graph_compute_async(m->sched, m->graph);
    else
        ggml_backend_graph_compute_async(m->backend, m->graph);
    m->ended[PHASE_COMPUTE] = now_ns();
    ggml_backend_tensor_get_async(m->backend, m->logits, m->out, 0, m->out_size);
    m->ended[PHASE_GET] = now_ns();
    if (sched)
        ggml_backend_sched_synchronize(m->sched);
    else
        ggml_backend_synchronize(m->backend);
    m->ended[PHASE_SYNC] = now_ns();
    m->tokens++;
}

void model_check(struct model *m)
{
    struct stamp got;
    uint64_t hash = 0, tail;
    memcpy(&got, m->out, sizeof(got));
    memcpy(&tail, m->out + m->out_size - sizeof(tail), sizeof(tail));
    for (int i = 0; i < MODEL_INPUTS; i++)
        hash += stamp_input(m->seeds[i], m->values[i], m->sizes[i]);
    if (m->tokens == 1)
        m->first = got.count;
    uint64_t due = m->first + m->tokens - 1;
    if (got.magic == STAMP_MAGIC && got.count == due && tail == due && got.hash == hash &&
        got.n_inputs == MODEL_INPUTS && got.n_nodes == MODEL_NODES)
        return;
    fail("wrong stamp after %" PRIu64 " tokens: magic %s, count %" PRIu64 " and %" PRIu64
         " where %" PRIu64 " is due, inputs %s (%u of %d), %u nodes",
         m->tokens, got.magic == STAMP_MAGIC ? "right" : "wrong", got.count, tail, due,
         got.hash == hash ? "right" : "wrong", got.n_inputs, MODEL_INPUTS, got.n_nodes);
}
