/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/plugin/buffer.h"

#include <string.h>

static void *buffer_of(const struct gg_tensor *t)
{
    return t->view_src ? t->view_src->buffer : t->buffer;
}

static const struct plugin_extra *extra_of(const void *buft)
{
    for (uint32_t i = 0; i < plugin.n_devices; i++) {
        const struct plugin_device *d = &plugin.devices[i];
        for (uint32_t k = 0; k < d->info.n_extras; k++) {
            if (buft == d->extras[k].buft)
                return &d->extras[k];
        }
    }
    return NULL;
}

static bool is_ours(void *buffer)
{
    void *buft = GG_AT(buffer, plugin.layout.buffer.buft, void *);
    for (uint32_t i = 0; i < plugin.n_devices; i++) {
        if (buft == plugin.devices[i].buft)
            return true;
    }
    return extra_of(buft);
}

const struct plugin_extra *plugin_extra_of(const struct gg_tensor *t)
{
    void *buffer = buffer_of(t);
    return buffer ? extra_of(GG_AT(buffer, plugin.layout.buffer.buft, void *)) : NULL;
}

bool plugin_is_imagined(const struct plugin_device *d, const struct gg_tensor *t)
{
    return !t->view_src && t->buffer &&
           GG_AT(t->buffer, plugin.layout.buffer.buft, void *) == d->buft &&
           !GG_AT(t->buffer, plugin.layout.buffer.ctx, void *);
}

bool plugin_is_in_cpu_memory(const struct gg_tensor *t)
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

/* ---- ids ------------------------------------------------------------------------ */

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
