/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graphs are built by the host's own ggml as llama.cpp builds them, fusions included: a
 * backend chooses a shader by an operation's neighbours, types and sizes.
 */
#include "backend/worker/shaders/fill.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "backend/worker/ggml/fns.h"
#include "backend/worker/ggml/graph.h"
#include "backend/worker/ggml/vulkan.h"
#include "common/clock.h"
#include "common/log.h"
#include "protocol/gguf.h"

typedef struct gg_tensor tensor;

#define SYMBOLS(S)                                                                                 \
    S(tensor *, ggml_new_tensor, (void *, int type, int n_dims, const int64_t *ne))                \
    S(tensor *, ggml_rms_norm, (void *, tensor *, float eps))                                      \
    S(tensor *, ggml_add, (void *, tensor *, tensor *))                                            \
    S(tensor *, ggml_mul, (void *, tensor *, tensor *))                                            \
    S(tensor *, ggml_mul_mat, (void *, tensor *, tensor *))                                        \
    S(tensor *, ggml_get_rows, (void *, tensor *, tensor *))                                       \
    S(tensor *, ggml_set_rows, (void *, tensor *, tensor *, tensor *))                             \
    S(tensor *, ggml_reshape_2d, (void *, tensor *, int64_t, int64_t))                             \
    S(tensor *, ggml_view_2d, (void *, tensor *, int64_t, int64_t, size_t nb1, size_t offset))     \
    S(tensor *, ggml_reshape_3d, (void *, tensor *, int64_t, int64_t, int64_t))                    \
    S(tensor *, ggml_permute, (void *, tensor *, int, int, int, int))                              \
    S(tensor *, ggml_mul_mat_id, (void *, tensor *experts, tensor *, tensor *ids))                 \
    S(tensor *, ggml_add_id, (void *, tensor *, tensor *experts, tensor *ids))                     \
    S(tensor *, ggml_soft_max, (void *, tensor *))                                                 \
    S(tensor *, ggml_argsort, (void *, tensor *, int order))                                       \
    S(tensor *, ggml_sum_rows, (void *, tensor *))                                                 \
    S(tensor *, ggml_clamp, (void *, tensor *, float min, float max))                              \
    S(tensor *, ggml_div, (void *, tensor *, tensor *))                                            \
    S(tensor *, ggml_swiglu_oai, (void *, tensor *, tensor *, float alpha, float limit))           \
    S(tensor *, ggml_swiglu_split, (void *, tensor *, tensor *))                                   \
    S(tensor *, ggml_geglu_split, (void *, tensor *, tensor *))                                    \
    S(tensor *, ggml_rope_ext,                                                                     \
      (void *, tensor *, tensor *pos, tensor *factors, int n_dims, int mode, int n_ctx,            \
       float freq_base, float freq_scale, float ext, float attn, float fast, float slow))          \
    S(tensor *, ggml_flash_attn_ext,                                                               \
      (void *, tensor *q, tensor *k, tensor *v, tensor *mask, float scale, float max_bias,         \
       float softcap))                                                                             \
    S(void, ggml_flash_attn_ext_set_prec, (tensor *, int))                                         \
    S(void, ggml_flash_attn_ext_add_sinks, (tensor *, tensor *))                                   \
    S(size_t, ggml_tensor_overhead, (void))                                                        \
    S(void *, ggml_backend_alloc_ctx_tensors_from_buft, (void *, void *buft))

/* Functions by which the host's ggml builds graphs. */
struct shaders_ggml {
#define S(ret, name, args) ret(*name) args;
    SYMBOLS(S)
#undef S
};

/* Static memory, for good. NULL with *err: this ggml lacks some, which came in autumn 2025. */
static const struct shaders_ggml *ggml_load(const struct host_ggml *hg, struct apir_error *err)
{
    static struct shaders_ggml gg;
    void *p;
#define S(ret, name, args)                                                                         \
    p = dlsym(hg->library, #name);                                                                 \
    if (!p) {                                                                                      \
        apir_error_set(err, ENOTSUP, "the host's ggml lacks %s", #name);                           \
        return NULL;                                                                               \
    }                                                                                              \
    memcpy(&gg.name, &p, sizeof(p));
    SYMBOLS(S)
#undef S
    return &gg;
}

#define ROPE_NEOX   2
#define PREC_F32    10
#define DESCENDING  1   /* of ARGSORT */
#define TENSORS_MAX 128 /* of one graph */
#define OUTPUTS     32000

/* What differs between families of models. */
static const struct shape {
    int64_t width, inner; /* of the residual stream, of the feed-forward part (of one expert) */
    int64_t head, n_heads, n_kv_heads;
    int rope;
    bool norms_heads, has_bias, has_geglu;
    int64_t n_experts, n_used; /* 0: no mixture */
    bool is_oss;               /* sinks, biases for each expert, experts of MXFP4 */
} shapes[] = {
    /* SmolLM, Llama, Mistral: of 135M, 1B and 8B parameters */
    {576, 1536, 64, 9, 3, 0, false, false, false, 0, 0, false},
    {2048, 8192, 64, 32, 8, 0, false, false, false, 0, 0, false},
    {4096, 14336, 128, 32, 8, 0, false, false, false, 0, 0, false},
    /* Qwen 2, and 3 */
    {1536, 8960, 128, 12, 2, ROPE_NEOX, false, true, false, 0, 0, false},
    {2560, 9728, 128, 32, 8, ROPE_NEOX, true, false, false, 0, 0, false},
    /* Gemma */
    {2560, 10240, 256, 8, 4, ROPE_NEOX, true, false, true, 0, 0, false},
    /* Mixtures of experts: Qwen 3, gpt-oss */
    {2048, 768, 128, 32, 4, ROPE_NEOX, true, false, false, 128, 8, false},
    {2880, 2880, 64, 64, 8, ROPE_NEOX, false, true, false, 32, 4, true},
};
#define DENSE_SHAPES 6

static const uint8_t types[] = {
    APIR_TYPE_Q4_K,   APIR_TYPE_Q6_K, APIR_TYPE_Q8_0, APIR_TYPE_Q4_0,
    APIR_TYPE_F16,    APIR_TYPE_Q5_K, APIR_TYPE_BF16, APIR_TYPE_Q3_K,
    APIR_TYPE_IQ4_XS, APIR_TYPE_Q2_K, APIR_TYPE_Q5_0, APIR_TYPE_IQ4_NL,
};
#define COMMON_TYPES 7

/*
 * Tokens at once, and those that attention goes over: one program's answer and prompts, then
 * answers of several sequences.
 */
static const struct batch {
    int64_t n, context;
} batches[] = {
    {1, 256},  {16, 256}, {48, 256}, {512, 512}, {1, 1024}, {512, 4096}, {2, 1024},
    {4, 1024}, {8, 1024}, {3, 1024}, {5, 1024},  {6, 1024}, {7, 1024},
};
#define N_BATCHES   (sizeof(batches) / sizeof(batches[0]))
#define ONE_PROGRAM 4 /* batches */

/* What is computed, in this order: each batch with each type with each shape. */
static const struct part {
    size_t shape, n_shapes, type, n_types, n_batches;
    int cache; /* type of the keys and values */
} parts[] = {
    {0, DENSE_SHAPES, 0, COMMON_TYPES, N_BATCHES, APIR_TYPE_F16},
    {DENSE_SHAPES, sizeof(shapes) / sizeof(shapes[0]) - DENSE_SHAPES, 0, 3, ONE_PROGRAM,
     APIR_TYPE_F16},
    {0, DENSE_SHAPES, 0, 1, ONE_PROGRAM, APIR_TYPE_Q8_0},
    {0, DENSE_SHAPES, COMMON_TYPES, sizeof(types) - COMMON_TYPES, ONE_PROGRAM, APIR_TYPE_F16},
};

struct graph {
    struct host_ggml *host;
    const struct shaders_ggml *gg;
    const struct shape *shape;
    void *ctx, *cgraph;
    int type, cache;
    int64_t n, context; /* tokens */
};

static tensor *new_tensor(struct graph *g, int type, int64_t a, int64_t b, int64_t c)
{
    const int64_t ne[3] = {a, b, c};
    return g->gg->ggml_new_tensor(g->ctx, type, 3, ne);
}

/* It is computed before what is built after this. */
static void then(struct graph *g, tensor *x)
{
    g->host->fns->ggml_build_forward_expand(g->cgraph, x);
}

static tensor *norm(struct graph *g, tensor *x, int64_t width)
{
    tensor *weight = new_tensor(g, APIR_TYPE_F32, width, 1, 1);
    return g->gg->ggml_mul(g->ctx, g->gg->ggml_rms_norm(g->ctx, x, 1e-5f), weight);
}

/* x times a weight of its own, in by out. */
static tensor *weigh(struct graph *g, tensor *x, int64_t in, int64_t out, bool bias)
{
    tensor *y = g->gg->ggml_mul_mat(g->ctx, new_tensor(g, g->type, in, out, 1), x);
    return bias ? g->gg->ggml_add(g->ctx, y, new_tensor(g, APIR_TYPE_F32, out, 1, 1)) : y;
}

/* `width` per head; norms and turns it where that is due. */
static tensor *heads(struct graph *g, tensor *x, int64_t n_heads, tensor *positions)
{
    const struct shape *s = g->shape;
    x = g->gg->ggml_reshape_3d(g->ctx, x, s->head, n_heads, g->n);
    if (s->norms_heads)
        x = norm(g, x, s->head);
    return g->gg->ggml_rope_ext(g->ctx, x, positions, NULL, (int)s->head, s->rope, 4096, 10000.0f,
                                1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
}

/* Puts a batch into a cache, which is returned as attention reads it. */
static tensor *remember(struct graph *g, tensor *x, tensor *rows)
{
    const struct shaders_ggml *gg = g->gg;
    const struct shape *s = g->shape;
    const int64_t width = s->head * s->n_kv_heads;
    tensor *cache = new_tensor(g, g->cache, width, g->context, 1);
    x = gg->ggml_view_2d(g->ctx, x, width, g->n, (size_t)width * sizeof(float), 0);
    then(g, gg->ggml_set_rows(g->ctx, cache, x, rows));
    cache = gg->ggml_reshape_3d(g->ctx, cache, s->head, s->n_kv_heads, g->context);
    return gg->ggml_permute(g->ctx, cache, 0, 2, 1, 3);
}

static tensor *attend(struct graph *g, tensor *x)
{
    const struct shaders_ggml *gg = g->gg;
    const struct shape *s = g->shape;
    const int64_t kv = s->head * s->n_kv_heads;
    tensor *positions = new_tensor(g, APIR_TYPE_I32, g->n, 1, 1);
    tensor *rows = new_tensor(g, APIR_TYPE_I64, g->n, 1, 1);
    /* ggml of 2025 aborts where a mask has not as many rows as its kernels take at a time. */
    const int64_t rows_at_a_time = g->host->layout.api_version < 3 ? 64 : 1;
    tensor *mask = new_tensor(g, APIR_TYPE_F16, g->context,
                              (g->n + rows_at_a_time - 1) / rows_at_a_time * rows_at_a_time, 1);
    tensor *q = weigh(g, x, s->width, s->head * s->n_heads, s->has_bias);
    tensor *k = weigh(g, x, s->width, kv, s->has_bias);
    tensor *v = weigh(g, x, s->width, kv, s->has_bias);
    q = heads(g, q, s->n_heads, positions);
    k = heads(g, k, s->n_kv_heads, positions);
    then(g, q);
    then(g, v);
    then(g, k);
    k = remember(g, k, rows);
    v = remember(g, v, rows);
    q = gg->ggml_permute(g->ctx, q, 0, 2, 1, 3);
    x = gg->ggml_flash_attn_ext(g->ctx, q, k, v, mask, 0.125f, 0.0f, 0.0f);
    if (s->is_oss)
        gg->ggml_flash_attn_ext_add_sinks(x, new_tensor(g, APIR_TYPE_F32, s->n_heads, 1, 1));
    gg->ggml_flash_attn_ext_set_prec(x, PREC_F32);
    x = gg->ggml_reshape_2d(g->ctx, x, s->head * s->n_heads, g->n);
    return weigh(g, x, s->head * s->n_heads, s->width, s->is_oss);
}

/* With the experts of these numbers. */
static tensor *weigh_by(struct graph *g, tensor *x, int64_t in, int64_t out, tensor *ids)
{
    const struct shape *s = g->shape;
    const int type = s->is_oss ? APIR_TYPE_MXFP4 : g->type;
    tensor *experts = new_tensor(g, type, in, out, s->n_experts);
    tensor *y = g->gg->ggml_mul_mat_id(g->ctx, experts, x, ids);
    if (!s->is_oss)
        return y;
    return g->gg->ggml_add_id(g->ctx, y, new_tensor(g, APIR_TYPE_F32, out, s->n_experts, 1), ids);
}

/* How much each of the chosen experts counts; *ret_ids: which are chosen. */
static tensor *choose(struct graph *g, tensor *x, tensor **ret_ids)
{
    const struct shaders_ggml *gg = g->gg;
    const struct shape *s = g->shape;
    tensor *router = new_tensor(g, APIR_TYPE_F32, s->width, s->n_experts, 1);
    tensor *odds = gg->ggml_mul_mat(g->ctx, router, x);
    if (s->is_oss)
        odds = gg->ggml_add(g->ctx, odds, new_tensor(g, APIR_TYPE_F32, s->n_experts, 1, 1));
    else
        odds = gg->ggml_soft_max(g->ctx, odds);
    tensor *order = gg->ggml_argsort(g->ctx, odds, DESCENDING);
    tensor *ids =
        gg->ggml_view_2d(g->ctx, order, s->n_used, g->n, (size_t)s->n_experts * sizeof(int32_t), 0);
    odds = gg->ggml_reshape_3d(g->ctx, odds, 1, s->n_experts, g->n);
    tensor *counts = gg->ggml_get_rows(g->ctx, odds, ids);
    counts = gg->ggml_reshape_2d(g->ctx, counts, s->n_used, g->n);
    if (s->is_oss) {
        counts = gg->ggml_soft_max(g->ctx, counts);
    } else {
        tensor *sum = gg->ggml_sum_rows(g->ctx, counts);
        sum = gg->ggml_clamp(g->ctx, sum, 6.103515625e-5f, INFINITY);
        counts = gg->ggml_div(g->ctx, counts, sum);
    }
    counts = gg->ggml_reshape_3d(g->ctx, counts, 1, s->n_used, g->n);
    then(g, counts);
    *ret_ids = ids;
    return counts;
}

static tensor *mixture(struct graph *g, tensor *x)
{
    const struct shaders_ggml *gg = g->gg;
    const struct shape *s = g->shape;
    tensor *ids, *counts = choose(g, x, &ids);
    x = gg->ggml_reshape_3d(g->ctx, x, s->width, 1, g->n);
    tensor *up = weigh_by(g, x, s->width, s->inner, ids);
    tensor *gate = weigh_by(g, x, s->width, s->inner, ids);
    x = s->is_oss ? gg->ggml_swiglu_oai(g->ctx, gate, up, 1.702f, 7.0f)
                  : gg->ggml_swiglu_split(g->ctx, gate, up);
    x = gg->ggml_mul(g->ctx, weigh_by(g, x, s->inner, s->width, ids), counts);
    tensor *each[8] = {NULL};
    const size_t row = (size_t)s->width * sizeof(float);
    for (int64_t i = 0; i < s->n_used; i++) {
        each[i] =
            gg->ggml_view_2d(g->ctx, x, s->width, g->n, row * (size_t)s->n_used, row * (size_t)i);
        then(g, each[i]);
    }
    x = each[0];
    for (int64_t i = 1; i < s->n_used; i++)
        x = gg->ggml_add(g->ctx, x, each[i]);
    return x;
}

static tensor *feed_forward(struct graph *g, tensor *x)
{
    const struct shape *s = g->shape;
    if (s->n_experts)
        return mixture(g, x);
    tensor *gate = weigh(g, x, s->width, s->inner, false);
    tensor *up = weigh(g, x, s->width, s->inner, false);
    x = s->has_geglu ? g->gg->ggml_geglu_split(g->ctx, gate, up)
                     : g->gg->ggml_swiglu_split(g->ctx, gate, up);
    return weigh(g, x, s->inner, s->width, false);
}

/* A layer, of whose rows as many get an output as answers have. */
static tensor *model(struct graph *g)
{
    const struct shaders_ggml *gg = g->gg;
    const struct shape *s = g->shape;
    tensor *x = new_tensor(g, APIR_TYPE_F32, s->width, g->n, 1);
    tensor *wanted = new_tensor(g, APIR_TYPE_I32, g->n > 8 ? 1 : g->n, 1, 1);
    tensor *y = gg->ggml_add(g->ctx, attend(g, norm(g, x, s->width)), x);
    y = gg->ggml_add(g->ctx, feed_forward(g, norm(g, y, s->width)), y);
    y = norm(g, gg->ggml_get_rows(g->ctx, y, wanted), s->width);
    return weigh(g, y, s->width, OUTPUTS, false);
}

static bool graph_is_supported(const struct graph *g, const struct host_device *device)
{
    const struct gg_cgraph_head *cgraph = g->cgraph;
    for (int i = 0; i < cgraph->n_nodes; i++) {
        if (!host_tensor_supported(g->host, device, cgraph->nodes[i]))
            return false;
    }
    return true;
}

/* Whether the graph was computed. */
static bool graph_compute(struct graph *g, const struct host_device *device, void *stream)
{
    const struct host_ggml_fns *fns = g->host->fns;
    const struct gg_init_params params = {
        .mem_size = TENSORS_MAX * g->gg->ggml_tensor_overhead() +
                    fns->ggml_graph_overhead_custom(TENSORS_MAX, false),
        .no_alloc = true,
    };
    g->ctx = fns->ggml_init(params);
    if (!g->ctx)
        return false;
    bool done = false;
    g->cgraph = fns->ggml_new_graph_custom(g->ctx, TENSORS_MAX, false);
    then(g, model(g));
    if (graph_is_supported(g, device)) {
        host_graph_reorder(g->host, stream, g->cgraph);
        void *buffer = g->gg->ggml_backend_alloc_ctx_tensors_from_buft(g->ctx, device->buft);
        if (buffer) {
            /* Row numbers and positions are among it. */
            fns->ggml_backend_buffer_clear(buffer, 0);
            done = fns->ggml_backend_graph_compute_async(stream, g->cgraph) == GG_STATUS_SUCCESS;
            fns->ggml_backend_synchronize(stream);
            fns->ggml_backend_buffer_free(buffer);
        }
    }
    fns->ggml_free(g->ctx);
    return done;
}

/*
 * Whether rows of these lengths are whole blocks of the type. A ggml ends the process where they
 * are not, or where it has not heard of the type (no block).
 */
static bool type_fits(const struct graph *g, int type)
{
    const struct shape *s = g->shape;
    const int64_t block = g->host->types[type].block;
    return block && s->width % block == 0 && s->inner % block == 0 &&
           (s->head * s->n_heads) % block == 0;
}

static bool types_fit(const struct graph *g)
{
    const int64_t cached = g->host->types[g->cache].block;
    return type_fits(g, g->type) && cached && g->shape->head % cached == 0 &&
           (!g->shape->is_oss || type_fits(g, APIR_TYPE_MXFP4));
}

/*
 * One layer, and the output matrix, of models of several shapes, with weights of each type that
 * models mostly have and batches of each size that takes other shaders: first what every program
 * needs, then mixtures of experts, a quantised cache and rarer types. What the device does not
 * support, or has no memory for (up to 1 GiB), is left out.
 * *ret_graphs: how many it has computed. False: until_ms came before it was through.
 */
static bool models_compute(struct host_ggml *hg, const struct shaders_ggml *gg,
                           const struct host_device *device, uint64_t until_ms,
                           unsigned *ret_graphs)
{
    bool through = false;
    *ret_graphs = 0;
    void *stream = host_stream_open(hg, device);
    for (size_t p = 0; stream && p < sizeof(parts) / sizeof(parts[0]); p++) {
        const struct part *part = &parts[p];
        const size_t n = part->n_batches * part->n_types * part->n_shapes;
        size_t i = 0;
        for (; i < n && apir_now_ms() < until_ms; i++) {
            const struct batch *batch = &batches[i / (part->n_types * part->n_shapes)];
            struct graph g = {
                .host = hg,
                .gg = gg,
                .shape = &shapes[part->shape + i % part->n_shapes],
                .type = types[part->type + i / part->n_shapes % part->n_types],
                .cache = part->cache,
                .n = batch->n,
                .context = batch->context,
            };
            *ret_graphs += types_fit(&g) && graph_compute(&g, device, stream);
        }
        through = i == n;
    }
    host_stream_close(hg, stream);
    return through;
}

/* A driver that computes on the CPU compiles for minutes what it then computes for minutes. */
static bool is_software(const struct host_device *d)
{
    static struct worker_vulkan_gpu gpus[WORKER_VULKAN_MAX];
    const uint32_t n = worker_vulkan_list(gpus);
    for (uint32_t i = 0; i < n; i++) {
        if (gpus[i].is_software && strcmp(gpus[i].name, d->description) == 0)
            return true;
    }
    return false;
}

int worker_shaders_fill(struct host_ggml *hg, uint64_t most_ms, bool all, struct apir_error *err)
{
    const uint64_t began = apir_now_ms();
    const struct shaders_ggml *gg = ggml_load(hg, err);
    if (!gg)
        return -ENOTSUP;
    for (uint32_t i = 0; i < hg->n_devices; i++) {
        const struct host_device *d = &hg->devices[i];
        unsigned n = 0;
        if (!d->is_gpu || (!all && is_software(d))) {
            apir_log(APIR_LOG_INFO, "%s (%s): left out, it is the CPU", d->name, d->description);
            continue;
        }
        const bool through = models_compute(hg, gg, d, began + most_ms, &n);
        apir_log(APIR_LOG_INFO, "%s (%s): computed %u graphs in %.1f s%s", d->name, d->description,
                 n, (double)(apir_now_ms() - began) / 1000.0,
                 through ? "" : "; what is left, the next time");
    }
    return 0;
}
