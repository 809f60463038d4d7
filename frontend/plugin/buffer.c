/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/plugin/buffer.h"

#include <string.h>

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
    return buffer && is_ours(buffer)
               ? GG_AT(buffer, plugin.layout.buffer.ctx, struct plugin_buffer *)
               : NULL;
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

/* ---- ids and the list --------------------------------------------------------- */

uint32_t plugin_buffer_id_get_locked(void)
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

void plugin_buffer_id_put_locked(uint32_t id)
{
    const uint32_t index = id % APIR_BUFFERS_MAX;
    plugin.buffer_used[index / 64] &= ~(UINT64_C(1) << (index % 64));
}

void plugin_buffer_add(struct plugin_buffer *b)
{
    os_lock_acquire(&plugin.buffers_lock);
    b->next = plugin.buffers;
    plugin.buffers = b;
    os_lock_release(&plugin.buffers_lock);
}

void plugin_buffer_remove(struct plugin_buffer *b)
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
