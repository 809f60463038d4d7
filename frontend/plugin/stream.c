/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/plugin/stream.h"

#include <string.h>

#include "common/log.h"
#include "common/text.h"

void plugin_stream_note_locked(struct plugin_stream *s, uint64_t pos, bool settles)
{
    s->last = pos;
    s->last_settles = settles;
}

void plugin_stream_touch_locked(struct plugin_stream *s, const uint32_t *buffers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t index = buffers[i] % APIR_BUFFERS_MAX;
        s->touched[index / 64] |= UINT64_C(1) << (index % 64);
    }
}

void plugin_buffer_untouch_locked(uint32_t id)
{
    const uint32_t index = id % APIR_BUFFERS_MAX;
    for (uint32_t i = 0; i < APIR_STREAMS_MAX; i++) {
        if (plugin.streams[i])
            plugin.streams[i]->touched[index / 64] &= ~(UINT64_C(1) << (index % 64));
    }
}

uint64_t plugin_stream_bit(const struct plugin_stream *s)
{
    return UINT64_C(1) << (s->id - 1);
}

bool plugin_stream_failed(struct plugin_stream *s)
{
    struct client *c = &plugin.client;
    uint32_t status = client_stream_status(c, s->id);
    if (status == APIR_OK)
        return false;
    if (__atomic_fetch_or(&plugin.streams_failed, plugin_stream_bit(s), __ATOMIC_ACQ_REL) &
        plugin_stream_bit(s))
        return true;
    struct apir_stream_status answer;
    memcpy(&answer, c->replies + client_stream_offset(s->id), sizeof(answer));
    apir_text_accept(answer.why, sizeof(answer.why));
    apir_log(APIR_LOG_ERROR, "%s: a graph failed on the host: %s", s->device->name,
             *answer.why                    ? answer.why
             : status == APIR_E_NOMEM       ? "out of memory"
             : status == APIR_E_LIMIT       ? "no room for its graphs (context_graph_mib)"
             : status == APIR_E_UNSUPPORTED ? "an operation is not supported there"
                                            : "its backend reports an error");
    return true;
}

bool plugin_buffer_is_void(const struct plugin_buffer *b)
{
    struct client *c = &plugin.client;
    if (__atomic_load_n(&plugin.streams_failed, __ATOMIC_ACQUIRE) == 0 ||
        GG_AT(b->ggml, plugin.layout.buffer.usage, int32_t) == GG_USAGE_WEIGHTS)
        return false;
    const uint32_t index = b->id % APIR_BUFFERS_MAX;
    bool found = false;
    client_lock(c);
    uint64_t left = __atomic_load_n(&plugin.streams_failed, __ATOMIC_ACQUIRE);
    for (; left; left &= left - 1) {
        const struct plugin_stream *s = plugin.streams[__builtin_ctzll(left)];
        found = found || (s && (s->touched[index / 64] & (UINT64_C(1) << (index % 64))));
    }
    client_unlock(c);
    return found;
}
