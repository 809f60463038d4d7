/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ggml's device and buffer type objects: one pair per device of the host.
 */
#include "frontend/ggml/device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "frontend/ggml/buffer.h"
#include "frontend/ggml/host_buffer.h"
#include "frontend/ggml/stream.h"
#include "frontend/graph/query.h"
#include "frontend/plugin/buffer.h"

static struct plugin_device *device_of(void *dev)
{
    return dev;
}

static const char *device_name(void *dev)
{
    return device_of(dev)->name;
}

static const char *device_description(void *dev)
{
    return device_of(dev)->description;
}

static void device_memory(void *dev, size_t *ret_free, size_t *ret_total)
{
    struct plugin_device *d = device_of(dev);
    struct apir_msg msg = {.code = APIR_MSG_DEVICE_MEMORY, .u.device_memory = {.device = d->index}};
    struct apir_reply_device_memory answer = {0};
    if (client_call(&plugin.client, &msg, &msg.u.device_memory.reply, &answer, sizeof(answer)) < 0)
        answer = (struct apir_reply_device_memory){.memory_total = d->info.memory_total};
    *ret_free = answer.memory_free;
    *ret_total = answer.memory_total;
}

static int device_type(void *dev)
{
    (void)dev;
    return GG_DEV_GPU;
}

static void device_props(void *dev, void *props)
{
    struct plugin_device *d = device_of(dev);
    const struct ggml_layout *l = &plugin.layout;
    size_t memory_free, memory_total;
    device_memory(dev, &memory_free, &memory_total);
    GG_AT(props, 0, const char *) = d->name;
    GG_AT(props, 8, const char *) = d->description;
    GG_AT(props, 16, size_t) = memory_free;
    GG_AT(props, 24, size_t) = memory_total;
    GG_AT(props, 32, int32_t) = GG_DEV_GPU;
    if (l->props_device_id)
        GG_AT(props, l->props_device_id, const char *) = *d->device_id ? d->device_id : NULL;
    uint8_t *caps = (uint8_t *)props + l->props_caps;
    caps[0] = true;  /* async */
    caps[1] = true;  /* host_buffer */
    caps[2] = false; /* buffer_from_host_ptr */
    caps[3] = true;  /* events */
    if (l->props_size > l->props_caps + 4)
        caps[4] = true; /* mmap of the model file; padding in builds without it */
}

static void *device_buft(void *dev)
{
    return device_of(dev)->buft;
}

static void *device_host_buft(void *dev)
{
    return device_of(dev)->host_buft;
}

/* A bit per source that lies in a buffer of an extra type. */
static uint32_t sources_in_extras(const struct gg_tensor *op)
{
    uint32_t there = 0;
    for (uint32_t i = 0; i < sizeof(op->src) / sizeof(op->src[0]); i++) {
        if (op->src[i] && plugin_extra_of(op->src[i]))
            there |= 1u << i;
    }
    return there;
}

/*
 * What the host says, by where the op's weight is. llama.cpp has a device's own buffer type before
 * its extra ones and takes the first that is supported; what an extra type has a better layout for
 * is therefore supported there alone, for who knows of them.
 */
static bool is_supported(const struct plugin_device *d, const struct gg_tensor *op,
                         const struct apir_reply_op_query *answer)
{
    const uint32_t there = sources_in_extras(op);
    if (there)
        return there == 1 && (answer->extras & (1u << plugin_extra_of(op->src[0])->number));
    if (answer->extras && op->src[0] && plugin_is_imagined(d, op->src[0]) &&
        __atomic_load_n(&d->extras_known, __ATOMIC_RELAXED))
        return false;
    return answer->flags & APIR_OP_SUPPORTED;
}

static bool device_supports_op(void *dev, const struct gg_tensor *op);

/*
 * SET_ROWS, and SET in place, write into a tensor that is there. What the host does not support of
 * that, where it lies with us or would (ggml asks before there is memory), cannot be left to the
 * CPU either: ggml aborts the process, or the CPU's kernel writes to addresses where nothing is. So
 * the answer is yes, the reason is said once, and the host refuses a graph with it.
 */
static bool is_for_us_alone(struct plugin_device *d, const struct gg_tensor *op)
{
    const struct gg_tensor *to = op->view_src;
    const char *name = plugin.op_name(op->op);
    if (!to || (strcmp(name, "SET_ROWS") != 0 && strcmp(name, "SET") != 0))
        return false;
    const struct plugin_buffer *b = plugin_buffer_of(to);
    const bool computed = !to->buffer && !plugin_op_is_view(to->op);
    if (!(b && b->device == d) && !plugin_is_imagined(d, to) &&
        !(computed && device_supports_op(d, to)))
        return false;
    if (!__atomic_exchange_n(&d->too_old_told, true, __ATOMIC_RELAXED))
        apir_log(APIR_LOG_ERROR,
                 "%s: the host's ggml cannot do %s in '%.64s', as this program's asks: graphs with "
                 "it fail, it wants a newer ggml on the host",
                 d->name, name, op->name);
    return true;
}

static bool device_supports_op(void *dev, const struct gg_tensor *op)
{
    struct apir_reply_op_query answer;
    if (plugin_op_is_view(op->op))
        return true; /* every backend has them, no need to ask */
    /* What is to be written lies where we cannot write. (Sources may: the scheduler copies them.
     * And memory of ggml's device over several devices is parts of theirs, which may be ours.) */
    if (plugin_is_in_cpu_memory(op))
        return false;
    int rc = query_op(device_of(dev), op, &answer);
    /* ggml aborts the process where a tensor that lies in our memory is of an op that we do not
     * support. After a loss nothing may change here: graph_compute is what fails. */
    if (rc == -ENODEV)
        return true;
    const bool supported = rc == 0 && is_supported(device_of(dev), op, &answer);
    if (supported || (rc == 0 && is_for_us_alone(device_of(dev), op)))
        return true;
    /* For the same reason: the graph fails then. */
    const struct plugin_buffer *b = plugin_buffer_of(op);
    return b && b->device == dev;
}

static bool device_supports_buft(void *dev, void *buft)
{
    struct plugin_device *d = device_of(dev);
    for (uint32_t i = 0; i < d->info.n_extras; i++) {
        if (buft == d->extras[i].buft)
            return true;
    }
    return buft == d->buft;
}

static bool device_offload_op(void *dev, const struct gg_tensor *op)
{
    struct apir_reply_op_query answer;
    return query_op(device_of(dev), op, &answer) == 0 && (answer.flags & APIR_OP_OFFLOAD);
}

/* ---- buffer type -------------------------------------------------------------- */

static struct plugin_device *buft_device(void *buft)
{
    return GG_AT(buft, plugin.layout.buft.device, struct plugin_device *);
}

static const char *buft_name(void *buft)
{
    return buft_device(buft)->buft_name;
}

static void *buft_alloc(void *buft, size_t size)
{
    return plugin_buffer_alloc(buft_device(buft), NULL, size);
}

static const struct plugin_extra *buft_extra(void *buft)
{
    return GG_AT(buft, plugin.layout.buft.ctx, const struct plugin_extra *);
}

static const char *extra_name(void *buft)
{
    return buft_extra(buft)->name;
}

static void *extra_alloc(void *buft, size_t size)
{
    return plugin_buffer_alloc(buft_device(buft), buft_extra(buft), size);
}

static size_t buft_alignment(void *buft)
{
    return buft_device(buft)->info.alignment;
}

static size_t buft_max_size(void *buft)
{
    return buft_device(buft)->info.max_size;
}

/* What the host wants for a tensor; or its own bytes, where that makes no sense. */
static size_t size_of(const struct gg_tensor *t, uint64_t wanted)
{
    const size_t plain = plugin.nbytes(t);
    return wanted > plain && wanted <= APIR_SIZE_MAX ? (size_t)wanted : plain;
}

/* Whether some backend wants room behind the result of this op. */
static bool wants_room(int op)
{
    static const char *const ops[] = {"MUL_MAT", "MUL_MAT_ID", "FLASH_ATTN_EXT",
                                      "ARGSORT", "TOP_K",      "CUMSUM"};
    if (plugin.wants_room)
        return plugin.wants_room(op);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (strcmp(plugin.op_name(op), ops[i]) == 0)
            return true;
    }
    return false;
}

/*
 * The host's answer: it pads rows of blocks, and some ops want room behind their result. Of others
 * it is not asked: ggml ends the program where these take more, or where what is computed in the
 * place of a source would take more than that.
 */
static size_t buft_alloc_size(void *buft, const struct gg_tensor *t)
{
    struct gg_tensor alone = {.type = t->type};
    struct apir_reply_op_query answer;
    if (!plugin_op_is_view(t->op) && !wants_room(t->op)) {
        if (plugin.blck_size(t->type) == 1)
            return plugin.nbytes(t);
        memcpy(alone.ne, t->ne, sizeof(alone.ne));
        memcpy(alone.nb, t->nb, sizeof(alone.nb));
        t = &alone;
    }
    const int rc = query_op(buft_device(buft), t, &answer);
    return size_of(t, rc == 0 && answer.status == APIR_OK ? answer.alloc_size : 0);
}

static bool buft_is_host(void *buft)
{
    (void)buft;
    return false;
}

static size_t extra_alloc_size(void *buft, const struct gg_tensor *t)
{
    struct apir_reply_op_query answer;
    const uint32_t number = buft_extra(buft)->number;
    const int rc = query_op(buft_device(buft), t, &answer);
    return size_of(t, rc == 0 && answer.status == APIR_OK ? answer.extra_sizes[number] : 0);
}

static void buft_fill(struct plugin_device *d, uint64_t *buft)
{
    const char *(*name)(void *) = buft_name;
    memcpy(buft, &name, sizeof(name));
    PLUGIN_SET_FN(buft, plugin.layout.buft.alloc, buft_alloc);
    PLUGIN_SET_FN(buft, plugin.layout.buft.align, buft_alignment);
    PLUGIN_SET_FN(buft, plugin.layout.buft.max_size, buft_max_size);
    PLUGIN_SET_FN(buft, plugin.layout.buft.alloc_size, buft_alloc_size);
    PLUGIN_SET_FN(buft, plugin.layout.buft.is_host, buft_is_host);
    GG_AT(buft, plugin.layout.buft.device, void *) = d;
    GG_AT(buft, plugin.layout.buft.ctx, void *) = d;
}

static void extra_init(struct plugin_device *d, uint32_t number)
{
    struct plugin_extra *e = &d->extras[number];
    const char *(*name)(void *) = extra_name;
    e->number = number;
    snprintf(e->name, sizeof(e->name), "%s_%s", d->name, d->info.extras[number]);
    buft_fill(d, e->buft);
    memcpy(e->buft, &name, sizeof(name));
    PLUGIN_SET_FN(e->buft, plugin.layout.buft.alloc, extra_alloc);
    PLUGIN_SET_FN(e->buft, plugin.layout.buft.alloc_size, extra_alloc_size);
    GG_AT(e->buft, plugin.layout.buft.ctx, void *) = e;
    d->extra_list[number] = e->buft;
}

void **plugin_device_extras(void *dev)
{
    struct plugin_device *d = device_of(dev);
    __atomic_store_n(&d->extras_known, d->info.n_extras > 0, __ATOMIC_RELAXED);
    return d->extra_list;
}

static void text_copy(char *dst, const char *src, size_t cap)
{
    size_t n = strnlen(src, cap - 1);
    memcpy(dst, src, n);
    dst[n] = '\0';
}

void plugin_device_init(struct plugin_device *d, uint32_t number, uint32_t host_index)
{
    d->index = host_index;
    snprintf(d->name, sizeof(d->name), "APIR%u", number);
    snprintf(d->buft_name, sizeof(d->buft_name), "APIR%u", number);
    snprintf(d->host_buft_name, sizeof(d->host_buft_name), "APIR%u_Host", number);
    text_copy(d->description, d->info.description, sizeof(d->description));
    /* The render node stands for one GPU to other backends in this container; a
     * second device of ours must not look like a twin of the first. */
    if (number == 0)
        text_copy(d->device_id, plugin.client.transport.device_id, sizeof(d->device_id));
    d->ggml = (struct gg_device){
        .iface =
            {
                .get_name = device_name,
                .get_description = device_description,
                .get_memory = device_memory,
                .get_type = device_type,
                .get_props = device_props,
                .init_backend = plugin_stream_open,
                .get_buffer_type = device_buft,
                .get_host_buffer_type = device_host_buft,
                .supports_op = device_supports_op,
                .supports_buft = device_supports_buft,
                .offload_op = device_offload_op,
                .event_new = plugin_event_new,
                .event_free = plugin_event_free,
                .event_synchronize = plugin_event_synchronize,
            },
        .reg = &plugin.reg,
        .context = d,
    };
    buft_fill(d, d->buft);
    for (uint32_t i = 0; i < d->info.n_extras; i++)
        extra_init(d, i);
    plugin_host_buft_init(d);
}
