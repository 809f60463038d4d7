/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host buffer type: memory of this process that the host reaches too, so that a
 * transfer names it instead of copying it. llama.cpp keeps there what it hands to and
 * gets from a device: inputs, results, what the CPU computes for it. To ggml it is
 * plain memory. Where there is no shared room it is just that.
 */
#include "frontend/ggml/host_buffer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "frontend/link/shared.h"
#include "frontend/plugin/buffer.h"

#define HOST_ALIGNMENT 64u
#define HOST_SHARE     8u /* of the window, in all */

struct host_buffer {
    void *base;
    uint64_t size;
    struct client_shared *shared; /* NULL: ordinary memory */
};

static struct host_buffer *context_of(void *buffer)
{
    return GG_AT(buffer, plugin.layout.buffer.ctx, struct host_buffer *);
}

static struct plugin_device *device_of(void *buft)
{
    return GG_AT(buft, plugin.layout.buft.device, struct plugin_device *);
}

/* ---- buffer ------------------------------------------------------------------- */

static void buffer_free(void *buffer)
{
    struct client *c = &plugin.client;
    struct host_buffer *b = context_of(buffer);
    if (!b->shared) {
        munmap(b->base, b->size);
    } else if (!client_forked(c)) {
        /* Nothing may still be on its way into this memory. */
        client_lock(c);
        client_reads_finish_locked(c, 0, UINT64_MAX);
        client_unlock(c);
        client_shared_free(c, b->shared);
    }
    free(b);
}

static void *buffer_base(void *buffer)
{
    return context_of(buffer)->base;
}

static void buffer_memset(void *buffer, struct gg_tensor *t, uint8_t value, size_t offset,
                          size_t size)
{
    (void)buffer;
    memset((uint8_t *)t->data + offset, value, size);
}

static void buffer_set(void *buffer, struct gg_tensor *t, const void *data, size_t offset,
                       size_t size)
{
    (void)buffer;
    memcpy((uint8_t *)t->data + offset, data, size);
}

static void buffer_get(void *buffer, const struct gg_tensor *t, void *data, size_t offset,
                       size_t size)
{
    (void)buffer;
    memcpy(data, (const uint8_t *)t->data + offset, size);
}

static void buffer_clear(void *buffer, uint8_t value)
{
    struct host_buffer *b = context_of(buffer);
    memset(b->base, value, b->size);
}

/* ---- buffer type -------------------------------------------------------------- */

static const char *buft_name(void *buft)
{
    return device_of(buft)->host_buft_name;
}

static size_t buft_alignment(void *buft)
{
    (void)buft;
    return HOST_ALIGNMENT;
}

static bool buft_is_host(void *buft)
{
    (void)buft;
    return true;
}

static void *buft_alloc(void *buft, size_t size)
{
    struct client *c = &plugin.client;
    struct host_buffer *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->size = size;
    b->shared = client_shared_new(c, size, HOST_SHARE);
    if (b->shared) {
        b->base = b->shared->blob.map;
        client_shared_register(c, b->shared, device_of(buft)->index);
    } else {
        b->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (b->base == MAP_FAILED) {
            free(b);
            return NULL;
        }
    }
    struct gg_buffer_i iface = {{NULL}};
    void (*free_fn)(void *) = buffer_free;
    memcpy(&iface.fn[0], &free_fn, sizeof(free_fn));
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.base, buffer_base);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.memset, buffer_memset);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.set, buffer_set);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.get, buffer_get);
    PLUGIN_SET_FN(&iface, plugin.layout.buffer.clear, buffer_clear);
    return plugin.buffer_init(buft, iface, b, size);
}

/* Its largest and a tensor's size are ggml's own: no such function of ours. */
void plugin_host_buft_init(struct plugin_device *d)
{
    const char *(*name)(void *) = buft_name;
    memcpy(d->host_buft, &name, sizeof(name));
    PLUGIN_SET_FN(d->host_buft, plugin.layout.buft.alloc, buft_alloc);
    PLUGIN_SET_FN(d->host_buft, plugin.layout.buft.align, buft_alignment);
    PLUGIN_SET_FN(d->host_buft, plugin.layout.buft.is_host, buft_is_host);
    GG_AT(d->host_buft, plugin.layout.buft.device, void *) = d;
    GG_AT(d->host_buft, plugin.layout.buft.ctx, void *) = d;
}
