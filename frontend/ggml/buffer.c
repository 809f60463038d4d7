/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the host's memory. Their addresses in this process are reserved and
 * never touched: tensor->data minus the base is the offset on the host.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "frontend/ggml/plugin.h"
#include "common/log.h"

static struct plugin_buffer *context_of(void *buffer)
{
    return GG_AT(buffer, plugin.layout.buffer.ctx, struct plugin_buffer *);
}

static void *buffer_of(const struct gg_tensor *t)
{
    return t->view_src ? t->view_src->buffer : t->buffer;
}

static bool is_ours(void *buffer)
{
    void *buft = GG_AT(buffer, plugin.layout.buffer.buft, void *);
    for (uint32_t i = 0; i < plugin.n_devices; i++) {
        if (buft == plugin.devices[i].buft)
            return true;
    }
    return false;
}

bool plugin_is_in_host_memory(const struct gg_tensor *t)
{
    void *buffer = buffer_of(t);
    if (!buffer || is_ours(buffer))
        return false;
    void *buft = GG_AT(buffer, plugin.layout.buffer.buft, void *);
    bool (*is_host)(void *);
    memcpy(&is_host, (char *)buft + plugin.layout.buft.is_host, sizeof(is_host));
    return is_host && is_host(buft);
}

struct plugin_buffer *plugin_buffer_of(const struct gg_tensor *t)
{
    void *buffer = buffer_of(t);
    return buffer && is_ours(buffer) ? context_of(buffer) : NULL;
}

/* ---- filling in shared memory --------------------------------------------------- */

/*
 * Where the host computes in memory that both sides can map, weights are written to
 * it directly, once, by the loader. With the first graph that ends, and so does our
 * mapping: it would be room in the window for nothing.
 */
#define FILL_MIN   (1u << 20)
#define FILL_SLACK 4096u /* behind it: some of the CPU's kernels go a little too far */
#define FILL_SHARE 2u    /* of the window, while models load */

/* The shared memory that the buffer now lies in, or NULL: it stays where it is. */
static struct client_shared *fill_begin(const struct plugin_buffer *b)
{
    struct client *c = &plugin.client;
    if (!(b->device->info.flags & APIR_DEVICE_UMA) || b->size < FILL_MIN ||
        GG_AT(b->ggml, plugin.layout.buffer.usage, int32_t) != GG_USAGE_WEIGHTS)
        return NULL;
    struct client_shared *m = client_shared_new(c, b->size + FILL_SLACK, FILL_SHARE);
    if (!m)
        return NULL;
    struct apir_msg msg = {
        .code = APIR_MSG_BUFFER_SHARE,
        .u.buffer_share = {.buffer = b->id, .blob = m->id},
    };
    struct apir_reply_status answer = {.status = APIR_E_FAILED};
    int rc = client_call(c, &msg, &msg.u.buffer_share.reply, &answer, sizeof(answer));
    if (!rc && answer.status == APIR_OK)
        return m;
    client_shared_free(c, m, false);
    return NULL;
}

bool plugin_buffer_fill(struct plugin_buffer *b, uint64_t offset, const void *data, size_t size)
{
    if (__atomic_load_n(&b->fill, __ATOMIC_ACQUIRE) == FILL_DONE)
        return false;
    os_lock_acquire(&b->fill_lock);
    if (b->fill == FILL_NEW) {
        b->shared = fill_begin(b);
        if (b->shared)
            __atomic_add_fetch(&plugin.n_filling, 1u, __ATOMIC_RELEASE);
        /* Only now: another thread that saw DONE before would send what SHARE then drops. */
        __atomic_store_n(&b->fill, b->shared ? FILL_OPEN : FILL_DONE, __ATOMIC_RELEASE);
    }
    bool open = b->fill == FILL_OPEN;
    if (open)
        memcpy((uint8_t *)b->shared->blob.map + offset, data, size);
    os_lock_release(&b->fill_lock);
    return open;
}

void plugin_buffer_seal(struct plugin_buffer *b)
{
    if (__atomic_load_n(&b->fill, __ATOMIC_ACQUIRE) == FILL_DONE)
        return;
    os_lock_acquire(&b->fill_lock);
    if (b->fill == FILL_OPEN) {
        __atomic_sub_fetch(&plugin.n_filling, 1u, __ATOMIC_RELEASE);
        client_shared_free(&plugin.client, b->shared, true);
        b->shared = NULL;
    }
    __atomic_store_n(&b->fill, FILL_DONE, __ATOMIC_RELEASE);
    os_lock_release(&b->fill_lock);
}

void plugin_buffers_seal(void)
{
    if (__atomic_load_n(&plugin.n_filling, __ATOMIC_ACQUIRE) == 0)
        return;
    os_lock_acquire(&plugin.buffers_lock);
    for (struct plugin_buffer *b = plugin.buffers; b; b = b->next) {
        if (__atomic_load_n(&b->fill, __ATOMIC_ACQUIRE) == FILL_OPEN)
            plugin_buffer_seal(b);
    }
    os_lock_release(&plugin.buffers_lock);
}

/* ---- ggml's vtable ------------------------------------------------------------ */

static void list_remove(struct plugin_buffer *b)
{
    os_lock_acquire(&plugin.buffers_lock);
    for (struct plugin_buffer **p = &plugin.buffers; *p; p = &(*p)->next) {
        if (*p == b) {
            *p = b->next;
            break;
        }
    }
    os_lock_release(&plugin.buffers_lock);
}

static void buffer_free(void *buffer)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b = context_of(buffer);
    if (!client_forked(c)) {
        list_remove(b);
        plugin_buffer_seal(b);
    }
    if (client_usable(c)) {
        os_lock_acquire(&plugin.slots.lock);
        client_lock(c);
        slots_forget_buffer(&plugin.slots, b->id);
        struct apir_msg msg = {.code = APIR_MSG_BUFFER_FREE, .u.buffer_free = {b->id}};
        client_put_locked(c, &msg);
        client_flush_locked(c);
        uint32_t index = b->id % APIR_BUFFERS_MAX;
        plugin.buffer_used[index / 64] &= ~(UINT64_C(1) << (index % 64));
        plugin_buffer_untouch_locked(b->id);
        client_unlock(c);
        os_lock_release(&plugin.slots.lock);
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
    plugin_buffer_seal(context_of(buffer));
    struct apir_msg msg = {
        .code = APIR_MSG_BUFFER_CLEAR,
        .u.buffer_clear = {.buffer = context_of(buffer)->id, .value = value},
    };
    client_lock(c);
    client_put_locked(c, &msg);
    client_unlock(c);
}

static void buffer_reset(void *buffer)
{
    struct client *c = &plugin.client;
    if (!client_usable(c))
        return;
    struct apir_msg msg = {.code = APIR_MSG_BUFFER_RESET,
                           .u.buffer_reset = {context_of(buffer)->id}};
    client_lock(c);
    client_put_locked(c, &msg);
    client_unlock(c);
}

/* ---- allocation --------------------------------------------------------------- */

/* An id that no live buffer has: index below, generation above. 0: none left. */
static uint32_t id_get_locked(void)
{
    for (uint32_t i = 0; i < APIR_BUFFERS_MAX; i++) {
        if (plugin.buffer_used[i / 64] & (UINT64_C(1) << (i % 64)))
            continue;
        plugin.buffer_used[i / 64] |= UINT64_C(1) << (i % 64);
        uint16_t generation = ++plugin.buffer_generation[i];
        if (generation == 0)
            generation = ++plugin.buffer_generation[i];
        return (uint32_t)generation * APIR_BUFFERS_MAX + i;
    }
    return 0;
}

void *plugin_buffer_alloc(struct plugin_device *d, size_t size)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b = client_usable(c) ? calloc(1, sizeof(*b)) : NULL;
    if (!b)
        return NULL;
    void *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        free(b);
        return NULL;
    }
    *b = (struct plugin_buffer){.device = d, .base = base, .size = size};
    client_lock(c);
    b->id = id_get_locked();
    client_unlock(c);
    struct apir_msg msg = {
        .code = APIR_MSG_BUFFER_ALLOC,
        .u.buffer_alloc = {.device = d->index, .buffer = b->id, .size = size},
    };
    struct apir_reply_status answer = {.status = APIR_E_NOMEM};
    int rc =
        b->id ? client_call(c, &msg, &msg.u.buffer_alloc.reply, &answer, sizeof(answer)) : -EBUSY;
    if (rc || answer.status != APIR_OK) {
        /* A limit is for the user to know; that memory is short ggml says itself. */
        plugin_why_clean(answer.why);
        apir_log(*answer.why ? APIR_LOG_ERROR : APIR_LOG_WARN,
                 "%s: the host has no buffer of %zu MiB%s%s", d->name,
                 (size + (1u << 20) - 1) >> 20, *answer.why ? ": " : "", answer.why);
        if (b->id && !rc) {
            uint32_t index = b->id % APIR_BUFFERS_MAX;
            client_lock(c);
            plugin.buffer_used[index / 64] &= ~(UINT64_C(1) << (index % 64));
            client_unlock(c);
        }
        munmap(base, size);
        free(b);
        return NULL;
    }
    struct gg_buffer_i iface = {{NULL}};
    void (*free_fn)(void *) = buffer_free;
    memcpy(&iface.fn[0], &free_fn, sizeof(free_fn));
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.base, buffer_base);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.memset, buffer_memset);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.set, buffer_set);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.get, buffer_get);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.set_2d, buffer_set_2d);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.get_2d, buffer_get_2d);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.cpy, buffer_copy);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.clear, buffer_clear);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.reset, buffer_reset);
    b->ggml = plugin.buffer_init(d->buft, iface, b, size);
    os_lock_acquire(&plugin.buffers_lock);
    b->next = plugin.buffers;
    plugin.buffers = b;
    os_lock_release(&plugin.buffers_lock);
    return b->ggml;
}
