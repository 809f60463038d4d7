/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libggml-stamp: a ggml backend that is as fast as any can be. Its one device,
 * STAMP0, says that it is a GPU and supports every op; its memory is this
 * process's; and instead of computing a graph it stamps the last node (stamp.h),
 * but for the one with which a server tries it.
 * What a token costs on it is ggml's own cost and the copies; what it costs
 * beyond that through the plug-in is ours.
 *
 * It belongs to the host side, under a name which ggml's loader looks for, and
 * to the bench itself, which compares with it. Like the plug-in it is written
 * for the layout that the probe finds; unlike the plug-in it links to ggml.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/ggml_abi.h"
#include "protocol/ggml_probe.h"
#include "tests/bench/stamp.h"

/* tests/hostile/sandbox: what a worker does that somebody else has taken over. */
#ifdef STAMP_HOOK
void STAMP_HOOK(void);
#else
#define STAMP_HOOK() ((void)0)
#endif

/* Most of what follows has parameters that ggml has chosen. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORT      __attribute__((visibility("default")))
#define ALIGNMENT   64u
#define INPUTS_MAX  64u
#define GRAPHS_KEPT 8u

void *ggml_backend_buffer_init(void *buft, struct gg_buffer_i iface, void *ctx, size_t size);
const char *ggml_op_name(int op);

static struct ggml_layout layout;
static uint64_t buft_words[GG_BUFT_WORDS];
static struct gg_device device;
static struct gg_reg registration;

struct input {
    const struct gg_tensor *tensor;
    uint64_t seed;
    size_t size;
};

/* Where the inputs of a graph are: found once, so that a stamp costs the same
 * whether a graph has ten nodes or ten thousand. */
struct known_graph {
    const void *cgraph, *first, *last;
    uint64_t uid;
    int32_t n_nodes;
    uint32_t n_inputs;
    struct input inputs[INPUTS_MAX];
};

struct stream {
    uint64_t ggml[GG_BACKEND_WORDS]; /* first: what ggml sees */
    uint64_t count;
    struct known_graph graphs[GRAPHS_KEPT];
    uint32_t next_graph;
};

/* Of a buffer type, a backend and the device. */
static const char *stamp_name(void *object)
{
    return "STAMP0";
}

/* ---- buffers ------------------------------------------------------------------ */

static void *memory_of(void *buffer)
{
    return GG_AT(buffer, layout.buffer.ctx, void *);
}

static void buffer_free(void *buffer)
{
    free(memory_of(buffer));
}

static void buffer_memset(void *buffer, struct gg_tensor *t, uint8_t value, size_t offset,
                          size_t size)
{
    memset((char *)t->data + offset, value, size);
}

static void buffer_set(void *buffer, struct gg_tensor *t, const void *data, size_t offset,
                       size_t size)
{
    memcpy((char *)t->data + offset, data, size);
}

static void buffer_get(void *buffer, const struct gg_tensor *t, void *data, size_t offset,
                       size_t size)
{
    memcpy(data, (const char *)t->data + offset, size);
}

static void buffer_clear(void *buffer, uint8_t value)
{
    memset(memory_of(buffer), value, GG_AT(buffer, layout.buffer.size, size_t));
}

#define PUT(object, offset, function)                                                              \
    do {                                                                                           \
        __typeof__(&function) fn_ = function;                                                      \
        if (offset)                                                                                \
            memcpy((char *)(object) + (offset), &fn_, sizeof(fn_));                                \
    } while (0)

static void *buft_alloc(void *buft, size_t size)
{
    size_t rounded = (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, rounded);
    if (!memory)
        return NULL;
    memset(memory, 0, rounded); /* no page is touched first while a token is timed */
    struct gg_buffer_i iface = {{NULL}};
    void (*free_fn)(void *) = buffer_free;
    memcpy(&iface.fn[0], &free_fn, sizeof(free_fn));
    PUT(&iface, layout.buffer.base, memory_of);
    PUT(&iface, layout.buffer.memset, buffer_memset);
    PUT(&iface, layout.buffer.set, buffer_set);
    PUT(&iface, layout.buffer.get, buffer_get);
    PUT(&iface, layout.buffer.clear, buffer_clear);
    return ggml_backend_buffer_init(buft, iface, memory, size);
}

/* It is malloc's memory, as a CPU's buffers are. */
static bool buft_is_host(void *buft)
{
    return true;
}

static size_t buft_alignment(void *buft)
{
    return ALIGNMENT;
}

/* ---- computing ---------------------------------------------------------------- */

static size_t tensor_size(const struct gg_tensor *t)
{
    return t->nb[3] * (size_t)t->ne[3]; /* inputs lie without gaps */
}

static void input_add(struct known_graph *g, const struct gg_tensor *t)
{
    const char *name = t && !t->view_src && !t->src[0] ? stamp_input_name(t->name) : NULL;
    if (!name || tensor_size(t) == 0)
        return;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        if (g->inputs[i].tensor == t)
            return;
    }
    if (g->n_inputs < INPUTS_MAX)
        g->inputs[g->n_inputs++] =
            (struct input){.tensor = t, .seed = stamp_seed(name), .size = tensor_size(t)};
}

static const struct known_graph *graph_know(struct stream *s, const struct gg_cgraph_head *graph)
{
    const void *first = graph->nodes[0], *last = graph->nodes[graph->n_nodes - 1];
    uint64_t uid = layout.cgraph_uid ? GG_AT(graph, layout.cgraph_uid, const uint64_t) : 0;
    for (uint32_t i = 0; i < GRAPHS_KEPT; i++) {
        const struct known_graph *g = &s->graphs[i];
        if (g->cgraph == graph && g->first == first && g->last == last &&
            g->n_nodes == graph->n_nodes && g->uid == uid)
            return g;
    }
    struct known_graph *g = &s->graphs[s->next_graph++ % GRAPHS_KEPT];
    *g = (struct known_graph){
        .cgraph = graph, .first = first, .last = last, .uid = uid, .n_nodes = graph->n_nodes};
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        for (int k = 0; k < 10; k++)
            input_add(g, graph->nodes[i]->src[k]);
    }
    return g;
}

/*
 * The one graph that is computed: a small product and a sum, with which a server tries each device
 * (backend/worker/trial.h). False: it is another one.
 */
static bool trial_compute(const struct gg_cgraph_head *graph)
{
    const struct gg_tensor *product = graph->nodes[0], *sum = graph->nodes[1];
    if (graph->n_nodes != 2 || strcmp(ggml_op_name(product->op), "MUL_MAT") != 0 ||
        strcmp(ggml_op_name(sum->op), "ADD") != 0 || tensor_size(sum) > 4096)
        return false;
    const struct gg_tensor *a = product->src[0], *b = product->src[1], *c = sum->src[1];
    for (int64_t i = 0; i < sum->ne[0] * sum->ne[1]; i++) {
        const float *row = (const float *)a->data + i % sum->ne[0] * a->ne[0];
        const float *column = (const float *)b->data + i / sum->ne[0] * a->ne[0];
        float all = ((const float *)c->data)[i];
        for (int64_t k = 0; k < a->ne[0]; k++)
            all += row[k] * column[k];
        ((float *)sum->data)[i] = all;
    }
    return true;
}

static int stream_graph_compute(void *backend, void *cgraph)
{
    struct stream *s = backend;
    const struct gg_cgraph_head *graph = cgraph;
    if (graph->n_nodes > 1 && trial_compute(graph))
        return GG_STATUS_SUCCESS;
    STAMP_HOOK();
    if (graph->n_nodes == 0)
        return GG_STATUS_SUCCESS;
    const struct known_graph *g = graph_know(s, graph);
    struct stamp stamp = {.magic = STAMP_MAGIC,
                          .count = ++s->count,
                          .n_inputs = g->n_inputs,
                          .n_nodes = (uint32_t)graph->n_nodes};
    for (uint32_t i = 0; i < g->n_inputs; i++)
        stamp.hash += stamp_input(g->inputs[i].seed, g->inputs[i].tensor->data, g->inputs[i].size);
    const struct gg_tensor *to = graph->nodes[graph->n_nodes - 1];
    size_t size = tensor_size(to);
    if (size < sizeof(stamp) + sizeof(stamp.count))
        return GG_STATUS_SUCCESS;
    memcpy(to->data, &stamp, sizeof(stamp));
    memcpy((char *)to->data + size - sizeof(stamp.count), &stamp.count, sizeof(stamp.count));
    return GG_STATUS_SUCCESS;
}

static void stream_free(void *backend)
{
    free(backend);
}

/* ---- the device ----------------------------------------------------------------- */

static const char *device_description(void *dev)
{
    return "stamps, computes nothing";
}

static void device_memory(void *dev, size_t *ret_free, size_t *ret_total)
{
    *ret_free = *ret_total = (size_t)1 << 30;
}

static int device_type(void *dev)
{
    return GG_DEV_GPU;
}

static void device_props(void *dev, void *props)
{
    GG_AT(props, 0, const char *) = stamp_name(dev);
    GG_AT(props, 8, const char *) = device_description(dev);
    GG_AT(props, 16, size_t) = GG_AT(props, 24, size_t) = (size_t)1 << 30;
    GG_AT(props, 32, int32_t) = GG_DEV_GPU;
    if (layout.props_device_id)
        GG_AT(props, layout.props_device_id, const char *) = NULL;
    memset((char *)props + layout.props_caps, 0, 4);
}

static void *device_init(void *dev, const char *params)
{
    static uint8_t guid[16] = {0x73, 0x74, 0x61, 0x6d, 0x70, 0x00, 0x4b, 0x21,
                               0x9d, 0x11, 0x5e, 0x0c, 0x7a, 0x62, 0x3f, 0xe8};
    struct stream *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    const char *(*name)(void *) = stamp_name;
    s->ggml[0] = (uintptr_t)guid;
    memcpy(&s->ggml[1], &name, sizeof(name));
    PUT(s->ggml, layout.backend.free, stream_free);
    PUT(s->ggml, layout.backend.graph_compute, stream_graph_compute);
    GG_AT(s->ggml, layout.backend.device, void *) = dev;
    return s;
}

static void *device_buft(void *dev)
{
    return buft_words;
}

static bool device_supports_op(void *dev, const struct gg_tensor *op)
{
    return true;
}

static bool device_supports_buft(void *dev, void *buft)
{
    return buft == buft_words;
}

static const char *reg_name(void *reg)
{
    return "STAMP";
}

static size_t reg_count(void *reg)
{
    return 1;
}

static void *reg_device(void *reg, size_t index)
{
    return index == 0 ? &device : NULL;
}

/* As CUDA, whose devices want memory pinned that they cannot make a buffer of. */
static bool memory_pin(void *data, size_t size)
{
    fprintf(stderr, "stamp: %zu bytes pinned\n", size);
    return true;
}

static void memory_unpin(void *data)
{
    fputs("stamp: unpinned\n", stderr);
}

static void *reg_proc(void *reg, const char *name)
{
    bool (*pin)(void *, size_t) = memory_pin;
    void (*unpin)(void *) = memory_unpin;
    void *ret = NULL;
    if (strcmp(name, "ggml_backend_register_host_buffer") == 0)
        memcpy(&ret, &pin, sizeof(ret));
    else if (strcmp(name, "ggml_backend_unregister_host_buffer") == 0)
        memcpy(&ret, &unpin, sizeof(ret));
    return ret;
}

EXPORT void *ggml_backend_init(void);

EXPORT void *ggml_backend_init(void)
{
    char why[256];
    void *anchor;
    const char *(*op_name)(int) = ggml_op_name;
    memcpy(&anchor, &op_name, sizeof(anchor));
    Dl_info info;
    void *base = dladdr(anchor, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!base || ggml_probe_layout(dlsym, base, &layout, why, sizeof(why)) < 0) {
        fprintf(stderr, "libggml-stamp: %s\n", base ? why : "cannot find ggml in this process");
        return NULL;
    }
    const char *(*name)(void *) = stamp_name;
    memcpy(buft_words, &name, sizeof(name));
    PUT(buft_words, layout.buft.alloc, buft_alloc);
    PUT(buft_words, layout.buft.align, buft_alignment);
    PUT(buft_words, layout.buft.is_host, buft_is_host);
    GG_AT(buft_words, layout.buft.device, void *) = &device;
    device = (struct gg_device){
        .iface = {.get_name = stamp_name,
                  .get_description = device_description,
                  .get_memory = device_memory,
                  .get_type = device_type,
                  .get_props = device_props,
                  .init_backend = device_init,
                  .get_buffer_type = device_buft,
                  .supports_op = device_supports_op,
                  .supports_buft = device_supports_buft},
        .reg = &registration,
    };
    registration = (struct gg_reg){.api_version = layout.api_version,
                                   .get_name = reg_name,
                                   .get_device_count = reg_count,
                                   .get_device = reg_device,
                                   .get_proc_address = reg_proc};
    return &registration;
}
