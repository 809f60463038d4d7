/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the host's memory. Their addresses in this process are reserved and
 * never touched: tensor->data minus the base is the offset on the host.
 */
#include "frontend/ggml/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "frontend/ggml/transfer.h"
#include "frontend/graph/query.h"
#include "frontend/graph/slots.h"
#include "frontend/plugin/buffer.h"
#include "frontend/plugin/stream.h"
#include "common/log.h"
#include "common/text.h"

static struct plugin_buffer *context_of(void *buffer)
{
    return GG_AT(buffer, plugin.layout.buffer.ctx, struct plugin_buffer *);
}

/* ---- ggml's vtable ------------------------------------------------------------ */

static void buffer_free(void *buffer)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b = context_of(buffer);
    if (client_usable(c)) {
        os_lock_acquire(&plugin_slots.lock);
        client_lock(c);
        slots_forget_buffer(&plugin_slots, b->id);
        struct apir_msg msg = {.code = APIR_MSG_BUFFER_FREE, .u.buffer_free = {b->id}};
        client_put_locked(c, &msg);
        client_flush_locked(c);
        plugin_buffer_id_put_locked(b->id);
        plugin_buffer_untouch_locked(b->id);
        client_unlock(c);
        os_lock_release(&plugin_slots.lock);
    }
    munmap(b->base, b->size);
    free(b);
}

static void *buffer_base(void *buffer)
{
    return context_of(buffer)->base;
}

static void buffer_set(void *buffer, struct gg_tensor *t, const void *data, size_t offset,
                       size_t size)
{
    (void)buffer;
    plugin_tensor_set(NULL, t, data, offset, size);
}

static void buffer_get(void *buffer, const struct gg_tensor *t, void *data, size_t offset,
                       size_t size)
{
    (void)buffer;
    plugin_tensor_get(NULL, t, data, offset, size);
}

static void buffer_set_2d(void *buffer, struct gg_tensor *t, const void *data, size_t offset,
                          size_t size, size_t n, size_t stride_tensor, size_t stride_data)
{
    (void)buffer;
    plugin_tensor_set_2d(NULL, t, data, offset, size, n, stride_tensor, stride_data);
}

static void buffer_get_2d(void *buffer, const struct gg_tensor *t, void *data, size_t offset,
                          size_t size, size_t n, size_t stride_tensor, size_t stride_data)
{
    (void)buffer;
    plugin_tensor_get_2d(NULL, t, data, offset, size, n, stride_tensor, stride_data);
}

static bool buffer_copy(void *buffer, const struct gg_tensor *src, struct gg_tensor *dst)
{
    (void)buffer;
    return plugin_buffer_of(src) && plugin_tensor_copy(NULL, NULL, src, dst);
}

static void buffer_memset(void *buffer, struct gg_tensor *t, uint8_t value, size_t offset,
                          size_t size)
{
    (void)buffer;
    plugin_tensor_memset(t, value, offset, size);
}

static void buffer_clear(void *buffer, uint8_t value)
{
    struct client *c = &plugin.client;
    if (!client_usable(c))
        return;
    struct apir_msg msg = {
        .code = APIR_MSG_BUFFER_CLEAR,
        .u.buffer_clear = {.buffer = context_of(buffer)->id, .value = value},
    };
    client_send(c, &msg);
}

static void buffer_reset(void *buffer)
{
    struct client *c = &plugin.client;
    if (!client_usable(c))
        return;
    struct apir_msg msg = {.code = APIR_MSG_BUFFER_RESET,
                           .u.buffer_reset = {context_of(buffer)->id}};
    client_send(c, &msg);
}

/* ---- on the host ---------------------------------------------------------------- */

static int ask(struct plugin_buffer *b, struct apir_reply_status *ret_answer)
{
    struct apir_msg msg = {
        .code = APIR_MSG_BUFFER_ALLOC,
        .u.buffer_alloc = {.device = b->device->index, .buffer = b->id, .size = b->size},
    };
    uint32_t *reply = &msg.u.buffer_alloc.reply;
    if (b->extra) {
        msg.code = APIR_MSG_BUFFER_ALLOC_EXTRA;
        msg.u.buffer_alloc_extra = (struct apir_msg_buffer_alloc_extra){
            .device = b->device->index,
            .extra = b->extra->number,
            .buffer = b->id,
            .size = b->size,
        };
        reply = &msg.u.buffer_alloc_extra.reply;
    }
    return client_call(&plugin.client, &msg, reply, ret_answer, sizeof(*ret_answer));
}

/* ---- of an extra type ------------------------------------------------------------ */

/* All of it or nothing, as natively, where parts make ggml abort. */
static void extra_set(void *buffer, struct gg_tensor *t, const void *data, size_t offset,
                      size_t size)
{
    struct plugin_buffer *b = context_of(buffer);
    if (offset != 0 || size != plugin.nbytes(t)) {
        apir_log(APIR_LOG_ERROR, "%s: '%.64s' can only be set as a whole", b->extra->name, t->name);
        return;
    }
    os_lock_acquire(&b->whole);
    b->is_set = true;
    plugin_tensor_set_whole(t, data);
    os_lock_release(&b->whole);
}

/* Nobody but the host's kernels can read it. */
static void extra_get(void *buffer, const struct gg_tensor *t, void *data, size_t offset,
                      size_t size)
{
    (void)offset;
    apir_log(APIR_LOG_ERROR, "%s: '%.64s' cannot be read", context_of(buffer)->extra->name,
             t->name);
    client_fill_lost(data, size, (uint32_t)t->type);
}

static int extra_init(void *buffer, struct gg_tensor *t);

/* Into a vtable, or a buffer, which begins with one. */
static void functions_fill(void *iface, const struct plugin_buffer *b)
{
    void (*free_fn)(void *) = buffer_free;
    memcpy(iface, &free_fn, sizeof(free_fn));
    PLUGIN_SET_FN(iface, plugin.layout.buffer.base, buffer_base);
    PLUGIN_SET_FN(iface, plugin.layout.buffer.clear, buffer_clear);
    PLUGIN_SET_FN(iface, plugin.layout.buffer.reset, buffer_reset);
    if (b->extra) {
        PLUGIN_SET_FN(iface, plugin.layout.buffer.init, extra_init);
        PLUGIN_SET_FN(iface, plugin.layout.buffer.set, extra_set);
        PLUGIN_SET_FN(iface, plugin.layout.buffer.get, extra_get);
        return;
    }
    PLUGIN_SET_FN(iface, plugin.layout.buffer.memset, buffer_memset);
    PLUGIN_SET_FN(iface, plugin.layout.buffer.set, buffer_set);
    PLUGIN_SET_FN(iface, plugin.layout.buffer.get, buffer_get);
    PLUGIN_SET_FN(iface, plugin.layout.buffer.set_2d, buffer_set_2d);
    PLUGIN_SET_FN(iface, plugin.layout.buffer.get_2d, buffer_get_2d);
    PLUGIN_SET_FN(iface, plugin.layout.buffer.cpy, buffer_copy);
}

/* The same buffer, of the device's own type. Nothing has been set in it. A ggml status. */
static int become_plain(void *buffer, struct plugin_buffer *b)
{
    struct client *c = &plugin.client;
    struct apir_msg msg = {.code = APIR_MSG_BUFFER_FREE, .u.buffer_free = {b->id}};
    struct apir_reply_status answer = {.status = APIR_E_NOMEM};
    client_send(c, &msg);
    b->extra = NULL;
    functions_fill(buffer, b);
    GG_AT(buffer, plugin.layout.buffer.buft, void *) = b->device->buft;
    if (ask(b, &answer) == 0 && answer.status == APIR_OK)
        return GG_STATUS_SUCCESS;
    apir_log(APIR_LOG_ERROR, "%s: the host has no plain buffer in the place of another",
             b->device->name);
    return GG_STATUS_ALLOC_FAILED;
}

/*
 * A tensor that the type has no layout for: llama.cpp puts an adapter's matrices into the type of
 * the weight that they belong to. All tensors of a buffer get their places before any is set, so
 * the whole buffer can still be another one.
 */
static int extra_init(void *buffer, struct gg_tensor *t)
{
    struct plugin_buffer *b = context_of(buffer);
    struct apir_reply_op_query answer;
    if (!b->extra || t->view_src || !client_usable(&plugin.client))
        return GG_STATUS_SUCCESS;
    if (query_op(b->device, t, &answer) == 0 && (answer.extras & (1u << b->extra->number)))
        return GG_STATUS_SUCCESS;
    if (!b->is_set)
        return become_plain(buffer, b);
    apir_log(APIR_LOG_ERROR, "%s: has no layout for '%.64s'", b->extra->name, t->name);
    return GG_STATUS_FAILED;
}

/* ---- allocation --------------------------------------------------------------- */

static void *buffer_make(struct plugin_buffer *b)
{
    struct gg_buffer_i iface = {{NULL}};
    functions_fill(&iface, b);
    void *buft = b->extra ? b->device->extras[b->extra->number].buft : b->device->buft;
    b->ggml = plugin.buffer_init(buft, iface, b, b->size);
    return b->ggml;
}

void *plugin_buffer_alloc(struct plugin_device *d, const struct plugin_extra *extra, size_t size)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b =
        client_forked(c) || size > APIR_SIZE_MAX ? NULL : calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    void *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        free(b);
        return NULL;
    }
    *b = (struct plugin_buffer){.device = d, .base = base, .size = size, .extra = extra};
    struct apir_reply_status answer = {.status = APIR_E_NOMEM};
    int rc = -ENODEV;
    if (client_usable(c)) {
        client_lock(c);
        b->id = plugin_buffer_id_get_locked();
        client_unlock(c);
        rc = b->id ? ask(b, &answer) : -EBUSY;
    }
    /* After a loss addresses are all there is: where ggml's scheduler is refused a buffer, and the
     * program tries again, it crashes. graph_compute is what fails. */
    if (rc == -ENODEV)
        return buffer_make(b);
    if (rc || answer.status != APIR_OK) {
        /* A limit is for the user to know; that memory is short ggml says itself. */
        apir_text_accept(answer.why, sizeof(answer.why));
        apir_log(*answer.why ? APIR_LOG_ERROR : APIR_LOG_WARN,
                 "%s: the host has no buffer of %zu MiB%s%s", d->name,
                 (size + (1u << 20) - 1) >> 20, *answer.why ? ": " : "", answer.why);
        if (b->id) {
            client_lock(c);
            plugin_buffer_id_put_locked(b->id);
            client_unlock(c);
        }
        munmap(base, size);
        free(b);
        return NULL;
    }
    return buffer_make(b);
}
