/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes between buffers and shared memory. A device that reaches a blob itself (BLOB_REGISTER)
 * copies what a stream is given, in the order of its queue. It also makes large transfers that the
 * client waits for: with such a blob, and with the arena, which it is shown at the first of them.
 * All else ggml's set and get do, after the stream's work so far.
 * docs/decisions.md, Large transfers are the device's; Copies between two GPUs are queued.
 */
#include "backend/worker/handlers.h"

#include <string.h>

#include "backend/worker/blob.h"
#include "backend/worker/extra.h"
#include "backend/worker/stream.h"
#include "backend/worker/table.h"

/* Below this a read by the CPU is done before the device has started one. */
#define DIRECT_GET_MIN (64u << 10)
/* The same for a write. To a GPU whose memory the CPU can write, it does so at some GB/s. */
#define DIRECT_SET_MIN (2u << 20)

/* Both ends of a transfer between a buffer and a blob, checked. */
struct transfer {
    struct worker_buffer *buffer;
    void *data;                 /* row * count bytes in shared memory */
    struct host_buffer *direct; /* the blob as the device sees it; NULL: it does not */
    uint64_t direct_offset;
};

static bool in_buffer(const struct worker_buffer *b, uint64_t offset, uint64_t size)
{
    return offset <= b->host.size && size <= b->host.size - offset;
}

/*
 * `count` rows of `row` bytes, `stride` apart from `offset` of the buffer on,
 * packed in the blob. NULL with *ret, or the reason for FATAL.
 */
static const char *transfer_check(struct worker *w, uint32_t buffer, uint64_t offset, uint64_t row,
                                  uint64_t count, uint64_t stride, uint32_t blob,
                                  uint64_t blob_offset, struct transfer *ret)
{
    typedef unsigned __int128 u128;
    *ret = (struct transfer){.buffer = worker_buffer_find(w, buffer)};
    if (!ret->buffer)
        return worker_bad_buffer;
    if (ret->buffer->extra)
        return worker_bad_extra;
    if ((u128)(count - 1) * stride + offset + row > ret->buffer->host.size)
        return worker_bad_range;
    u128 packed = (u128)row * count;
    ret->data =
        packed <= APIR_BLOB_SIZE_MAX ? worker_region(w, blob, blob_offset, (uint64_t)packed) : NULL;
    if (!ret->data)
        return worker_bad_region;
    struct worker_blob *b = &w->blobs[blob];
    if (b->direct.handle && b->device == ret->buffer->device) {
        ret->direct = &b->direct;
        ret->direct_offset = blob_offset;
    }
    return NULL;
}

/*
 * The blob as the device sees it, for a large transfer that the client waits for; NULL: it is not
 * the device that copies. The arena is shown only to devices whose memory the CPU does not reach.
 */
static struct host_buffer *direct_of(struct worker *w, const struct transfer *t, uint32_t blob)
{
    if (t->direct || blob != APIR_ARENA_BLOB_ID || t->buffer->host.memory)
        return t->direct;
    return worker_arena_seen(w, t->buffer->device);
}

/* Whether work on the buffer can be queued on the stream: it is of the same device. */
static bool queued(const struct worker *w, uint32_t stream, const struct worker_buffer *b)
{
    return stream && w->streams[stream].device == b->device;
}

/* The next bytes of a tensor that the host converts. */
static const char *set_extra(struct worker *w, struct worker_buffer *b, uint32_t stream,
                             uint64_t offset, const void *data, uint64_t size)
{
    if (!data)
        return worker_bad_region;
    const char *why = worker_stream_settle(w, stream);
    return why ? why : worker_extra_put(w, b, offset, data, size);
}

const char *worker_set(struct worker *w, const struct apir_msg_set *m)
{
    struct transfer t;
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (b && b->extra)
        return set_extra(w, b, m->stream, m->offset,
                         worker_region(w, m->blob, m->blob_offset, m->size), m->size);
    const char *why =
        transfer_check(w, m->buffer, m->offset, m->size, 1, 0, m->blob, m->blob_offset, &t);
    if (why)
        return why;
    struct worker_stream *s = &w->streams[m->stream];
    if (m->stream && !s->host)
        return worker_bad_stream;
    if (t.direct && queued(w, m->stream, t.buffer)) {
        host_buffer_copy_async(&w->ggml, s->host, t.direct, t.direct_offset, s->host,
                               &t.buffer->host, m->offset, m->size);
        worker_stream_note(w, s, m->size);
        return NULL;
    }
    why = worker_stream_settle(w, m->stream);
    if (why)
        return why;
    struct host_buffer *direct = m->size >= DIRECT_SET_MIN ? direct_of(w, &t, m->blob) : NULL;
    if (direct)
        host_buffer_copy(&w->ggml, direct, m->blob_offset, &t.buffer->host, m->offset, m->size);
    else
        host_buffer_set(&w->ggml, &t.buffer->host, m->offset, t.data, m->size);
    return NULL;
}

const char *worker_set_inline(struct worker *w, const struct apir_msg_set_inline *m,
                              const uint8_t *data)
{
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (!b)
        return worker_bad_buffer;
    if (b->extra)
        return set_extra(w, b, m->stream, m->offset, data, m->size);
    if (!in_buffer(b, m->offset, m->size))
        return worker_bad_range;
    const char *why = worker_stream_settle(w, m->stream);
    if (!why)
        host_buffer_set(&w->ggml, &b->host, m->offset, data, m->size);
    return why;
}

/* The client copies one step while we write the next. */
static void answer(struct worker *w, uint8_t *to, const uint8_t *from, uint64_t size)
{
    const uint64_t step = apir_get_step(size);
    for (; size > step; to += step, from += step) {
        memcpy(to, from, step);
        size -= step;
        apir_ring_host_progress(&w->ring, (size + step - 1) / step);
    }
    memcpy(to, from, size);
}

/*
 * A small result of a device with memory of its own. It makes a stop in memory of ours, which
 * drivers write to faster than to shared memory; from there it goes to the client in steps.
 */
static const char *get_small_queued(struct worker *w, const struct apir_msg_get *m,
                                    const struct transfer *t)
{
    uint8_t *staging = host_device_staging(&w->ggml, &w->ggml.devices[t->buffer->device]);
    host_buffer_get_async(&w->ggml, w->streams[m->stream].host, &t->buffer->host, m->offset,
                          staging, m->size);
    const char *why = worker_stream_settle(w, m->stream);
    if (!why)
        answer(w, t->data, staging, m->size);
    return why;
}

const char *worker_get(struct worker *w, const struct apir_msg_get *m)
{
    struct transfer t;
    const char *why =
        transfer_check(w, m->buffer, m->offset, m->size, 1, 0, m->blob, m->blob_offset, &t);
    if (why)
        return why;
    struct worker_stream *s = &w->streams[m->stream];
    if (m->stream && !s->host)
        return worker_bad_stream;
    /* Behind the graph in the same queue: one wait for both. */
    if (s->dirty && queued(w, m->stream, t.buffer) && !t.buffer->host.memory) {
        if (!t.direct && m->size <= HOST_STAGING_SIZE)
            return get_small_queued(w, m, &t);
        if (t.direct)
            host_buffer_copy_async(&w->ggml, s->host, &t.buffer->host, m->offset, s->host, t.direct,
                                   t.direct_offset, m->size);
        else
            host_buffer_get_async(&w->ggml, s->host, &t.buffer->host, m->offset, t.data, m->size);
        return worker_stream_settle(w, m->stream);
    }
    why = worker_stream_settle(w, m->stream);
    if (why)
        return why;
    struct host_buffer *direct = m->size >= DIRECT_GET_MIN ? direct_of(w, &t, m->blob) : NULL;
    if (direct)
        host_buffer_copy(&w->ggml, &t.buffer->host, m->offset, direct, m->blob_offset, m->size);
    else if (t.buffer->host.memory)
        answer(w, t.data, t.buffer->host.memory + m->offset, m->size);
    else
        host_buffer_get(&w->ggml, &t.buffer->host, m->offset, t.data, m->size);
    return NULL;
}

const char *worker_set_2d(struct worker *w, const struct apir_msg_set_2d *m)
{
    struct transfer t;
    const char *why = transfer_check(w, m->buffer, m->offset, m->size, m->count, m->stride, m->blob,
                                     m->blob_offset, &t);
    if (!why)
        why = worker_stream_settle(w, m->stream);
    if (!why)
        host_buffer_set_rows(&w->ggml, &t.buffer->host, m->offset, t.data, m->size, m->count,
                             m->stride);
    return why;
}

const char *worker_get_2d(struct worker *w, const struct apir_msg_get_2d *m)
{
    struct transfer t;
    const char *why = transfer_check(w, m->buffer, m->offset, m->size, m->count, m->stride, m->blob,
                                     m->blob_offset, &t);
    if (!why)
        why = worker_stream_settle(w, m->stream);
    if (!why)
        host_buffer_get_rows(&w->ggml, &t.buffer->host, m->offset, t.data, m->size, m->count,
                             m->stride);
    return why;
}

const char *worker_memset(struct worker *w, const struct apir_msg_memset *m)
{
    struct worker_buffer *b = worker_buffer_find(w, m->buffer);
    if (!b)
        return worker_bad_buffer;
    if (b->extra)
        return worker_bad_extra;
    if (!in_buffer(b, m->offset, m->size))
        return worker_bad_range;
    const char *why = worker_stream_settle(w, m->stream);
    if (why)
        return why;
    if (host_buffer_memset(&w->ggml, &b->host, m->offset, (uint8_t)m->value, m->size) < 0)
        return "out of memory in MEMSET"; /* a void call on the guest's side: no other way */
    return NULL;
}

/*
 * Whether the host's backend can order such a copy itself: within a stream, or from one GPU to
 * another of the same backend, both of which have memory of their own. Between two streams of one
 * GPU Vulkan's orders only one of them.
 */
static bool copy_is_queued(const struct worker *w, const struct apir_msg_copy *m,
                           const struct worker_buffer *src, const struct worker_buffer *dst)
{
    if (!queued(w, m->src_stream, src) || !queued(w, m->dst_stream, dst))
        return false;
    if (m->src_stream == m->dst_stream)
        return true;
    const struct host_device *from = &w->ggml.devices[src->device];
    const struct host_device *to = &w->ggml.devices[dst->device];
    return from != to && from->is_gpu && to->is_gpu && from->reg == to->reg && !src->host.memory &&
           !dst->host.memory;
}

const char *worker_copy(struct worker *w, const struct apir_msg_copy *m)
{
    struct worker_buffer *src = worker_buffer_find(w, m->src_buffer);
    struct worker_buffer *dst = worker_buffer_find(w, m->dst_buffer);
    if (!src || !dst)
        return worker_bad_buffer;
    if (src->extra || dst->extra)
        return worker_bad_extra;
    if (!in_buffer(src, m->src_offset, m->size) || !in_buffer(dst, m->dst_offset, m->size))
        return worker_bad_range;
    struct worker_stream *ss = &w->streams[m->src_stream], *ds = &w->streams[m->dst_stream];
    if ((m->src_stream && !ss->host) || (m->dst_stream && !ds->host))
        return worker_bad_stream;
    /* No backend says what becomes of these, and Vulkan forbids them. */
    if (src == dst && m->src_offset < m->dst_offset + m->size &&
        m->dst_offset < m->src_offset + m->size)
        return "source and destination overlap";
    worker_stream_inherit(w, m->dst_stream, m->src_stream);
    if (copy_is_queued(w, m, src, dst)) {
        host_buffer_copy_async(&w->ggml, ss->host, &src->host, m->src_offset, ds->host, &dst->host,
                               m->dst_offset, m->size);
        worker_stream_note(w, ds, m->size);
        if (ss != ds)
            worker_stream_note(w, ss, 0);
        return NULL;
    }
    /* A copy that is done at once comes after the work of both, and before what follows. */
    const char *why = worker_stream_settle(w, m->src_stream);
    if (!why)
        why = worker_stream_settle(w, m->dst_stream);
    if (!why)
        host_buffer_copy(&w->ggml, &src->host, m->src_offset, &dst->host, m->dst_offset, m->size);
    return why;
}
