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

#include "frontend/plugin.h"
#include "protocol/log.h"

static struct plugin_buffer *context_of(void *buffer)
{
    return GG_AT(buffer, plugin.layout.buffer.ctx, struct plugin_buffer *);
}

struct plugin_buffer *plugin_buffer_of(const struct gg_tensor *t)
{
    void *buffer = t->view_src ? t->view_src->buffer : t->buffer;
    if (!buffer)
        return NULL;
    void *buft = GG_AT(buffer, plugin.layout.buffer.buft, void *);
    for (uint32_t i = 0; i < plugin.n_devices; i++) {
        if (buft == plugin.devices[i].buft)
            return context_of(buffer);
    }
    return NULL;
}

/* ---- transfers ---------------------------------------------------------------- */

/* The range [offset, offset + size) of t in its buffer. */
static bool locate(const struct gg_tensor *t, size_t offset, size_t size,
                   struct plugin_buffer **ret_buffer, uint64_t *ret_offset)
{
    struct plugin_buffer *b = plugin_buffer_of(t);
    if (!b || !client_usable(&plugin.client))
        return false;
    uint64_t at = (uint64_t)((uintptr_t)t->data - (uintptr_t)b->base) + offset;
    if ((uintptr_t)t->data < (uintptr_t)b->base || at > b->size || size > b->size - at)
        return false;
    *ret_buffer = b;
    *ret_offset = at;
    return true;
}

static void note(struct plugin_stream *s, uint64_t pos, bool settles)
{
    if (s && pos)
        plugin_stream_note_locked(s, pos, settles);
}

void plugin_tensor_set(struct plugin_stream *s, struct gg_tensor *t, const void *data,
                       size_t offset, size_t size)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b;
    uint64_t at;
    if (size == 0 || !locate(t, offset, size, &b, &at))
        return;
    client_lock(c);
    if (size <= APIR_INLINE_MAX) {
        struct apir_msg msg = {
            .code = APIR_MSG_SET_INLINE,
            .tail = data,
            .u.set_inline = { .stream = s ? s->id : 0, .buffer = b->id, .offset = at,
                              .size = size },
        };
        note(s, client_put_locked(c, &msg), false);
        client_unlock(c);
        return;
    }
    const uint8_t *p = data;
    for (size_t done = 0; done < size;) {
        size_t n = size - done < CLIENT_CHUNK ? size - done : CLIENT_CHUNK;
        struct client_block *block = client_block_locked(c, n);
        if (!block)
            break;
        memcpy(client_block_data(c, block), p + done, n);
        struct apir_msg msg = {
            .code = APIR_MSG_SET,
            .u.set = { .stream = s ? s->id : 0, .buffer = b->id, .offset = at + done, .size = n,
                       .blob = 1, .blob_offset = block->offset },
        };
        block->until = client_put_locked(c, &msg);
        if (!block->until)
            break;
        note(s, block->until, false);
        /* Shown chunk by chunk: the host uploads one while we copy the next. */
        client_flush_locked(c);
        done += n;
    }
    client_unlock(c);
}

/* Queues the read of one chunk; false: lost, and dst is filled. */
static bool get_chunk_locked(struct plugin_stream *s, struct plugin_buffer *b, uint64_t at,
                             uint8_t *dst, size_t n, uint32_t type)
{
    struct client *c = &plugin.client;
    struct client_block *block = client_block_locked(c, n);
    if (!block) {
        client_fill_lost(dst, n, type);
        return false;
    }
    struct apir_msg msg = {
        .code = APIR_MSG_GET,
        .u.get = { .stream = s ? s->id : 0, .buffer = b->id, .offset = at, .size = n, .blob = 1,
                   .blob_offset = block->offset },
    };
    block->until = client_put_locked(c, &msg);
    if (!block->until) {
        client_fill_lost(dst, n, type);
        return false;
    }
    block->held = 1;
    struct client_read r = {
        .dst = dst, .size = n, .block = block, .type = type, .stream = s ? s->id : UINT32_MAX,
    };
    client_read_defer_locked(c, &r);
    note(s, block->until, true);
    return true;
}

void plugin_tensor_get(struct plugin_stream *s, const struct gg_tensor *t, void *data,
                       size_t offset, size_t size)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b;
    uint64_t at;
    if (size == 0)
        return;
    if (!locate(t, offset, size, &b, &at)) {
        client_fill_lost(data, size, (uint32_t)t->type);
        return;
    }
    uint8_t *p = data;
    client_lock(c);
    size_t done = 0;
    while (done < size) {
        size_t n = size - done < CLIENT_CHUNK ? size - done : CLIENT_CHUNK;
        if (!get_chunk_locked(s, b, at + done, p + done, n, (uint32_t)t->type))
            break;
        done += n;
        client_flush_locked(c);
    }
    if (done < size)
        client_fill_lost(p + done, size - done, (uint32_t)t->type);
    if (!s)
        client_reads_finish_locked(c, UINT32_MAX);
    client_unlock(c);
}

/* Rows that fit a chunk together; at least one. */
static size_t rows_per_chunk(size_t row, size_t n)
{
    size_t rows = CLIENT_CHUNK / row;
    return rows == 0 ? 1 : rows < n ? rows : n;
}

void plugin_tensor_set_2d(struct plugin_stream *s, struct gg_tensor *t, const void *data,
                          size_t offset, size_t size, size_t n, size_t stride_tensor,
                          size_t stride_data)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b;
    uint64_t at;
    if (size == 0 || n == 0)
        return;
    if (size > CLIENT_CHUNK) {
        for (size_t i = 0; i < n; i++)
            plugin_tensor_set(s, t, (const uint8_t *)data + i * stride_data,
                              offset + i * stride_tensor, size);
        return;
    }
    if (!locate(t, offset, (n - 1) * stride_tensor + size, &b, &at))
        return;
    client_lock(c);
    size_t per = rows_per_chunk(size, n);
    for (size_t i = 0; i < n; i += per) {
        size_t rows = n - i < per ? n - i : per;
        struct client_block *block = client_block_locked(c, rows * size);
        if (!block)
            break;
        uint8_t *to = client_block_data(c, block);
        for (size_t k = 0; k < rows; k++)
            memcpy(to + k * size, (const uint8_t *)data + (i + k) * stride_data, size);
        struct apir_msg msg = {
            .code = APIR_MSG_SET_2D,
            .u.set_2d = { .stream = s ? s->id : 0, .buffer = b->id,
                          .offset = at + i * stride_tensor, .size = size, .count = rows,
                          .stride = stride_tensor, .blob = 1, .blob_offset = block->offset },
        };
        block->until = client_put_locked(c, &msg);
        if (!block->until)
            break;
        note(s, block->until, false);
        client_flush_locked(c);
    }
    client_unlock(c);
}

void plugin_tensor_get_2d(struct plugin_stream *s, const struct gg_tensor *t, void *data,
                          size_t offset, size_t size, size_t n, size_t stride_tensor,
                          size_t stride_data)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b;
    uint64_t at;
    if (size == 0 || n == 0)
        return;
    bool found = locate(t, offset, (n - 1) * stride_tensor + size, &b, &at);
    if (size > CLIENT_CHUNK || !found) {
        for (size_t i = 0; i < n; i++)
            plugin_tensor_get(s, t, (uint8_t *)data + i * stride_data,
                              offset + i * stride_tensor, size);
        return;
    }
    client_lock(c);
    size_t per = rows_per_chunk(size, n);
    for (size_t i = 0; i < n; i += per) {
        size_t rows = n - i < per ? n - i : per;
        uint8_t *dst = (uint8_t *)data + i * stride_data;
        struct client_block *block = client_block_locked(c, rows * size);
        struct apir_msg msg = { .code = APIR_MSG_GET_2D };
        if (block) {
            msg.u.get_2d = (struct apir_msg_get_2d){
                .stream = s ? s->id : 0, .buffer = b->id, .offset = at + i * stride_tensor,
                .size = size, .count = rows, .stride = stride_tensor, .blob = 1,
                .blob_offset = block->offset,
            };
            block->until = client_put_locked(c, &msg);
        }
        if (!block || !block->until) {
            for (size_t k = 0; k < rows; k++)
                client_fill_lost(dst + k * stride_data, size, (uint32_t)t->type);
            continue;
        }
        block->held = 1;
        struct client_read r = {
            .dst = dst, .size = rows * size, .row = size, .stride = stride_data, .block = block,
            .type = (uint32_t)t->type, .stream = s ? s->id : UINT32_MAX,
        };
        client_read_defer_locked(c, &r);
        note(s, block->until, true);
        client_flush_locked(c);
    }
    if (!s)
        client_reads_finish_locked(c, UINT32_MAX);
    client_unlock(c);
}

/* Whether t's elements lie without gaps; *ret_size: its bytes. Blocks of quantised
 * types need no care: nb[1] spans whole rows. */
static bool contiguous(const struct gg_tensor *t, uint64_t *ret_size)
{
    uint64_t next = t->nb[1];
    if (t->ne[0] <= 0 || t->nb[1] < t->nb[0])
        return false;
    for (int i = 1; i < 4; i++) {
        if (t->ne[i] != 1 && t->nb[i] != next)
            return false;
        next *= (uint64_t)t->ne[i];
    }
    *ret_size = next;
    return true;
}

bool plugin_tensor_copy(struct plugin_stream *src_stream, struct plugin_stream *dst_stream,
                        const struct gg_tensor *src, struct gg_tensor *dst)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *sb, *db;
    uint64_t so, d_o, size, dst_size;
    if (src->type != dst->type || memcmp(src->ne, dst->ne, sizeof(src->ne)) != 0 ||
        memcmp(src->nb, dst->nb, sizeof(src->nb)) != 0 || !contiguous(src, &size) ||
        !contiguous(dst, &dst_size) || size != dst_size || size == 0)
        return false;
    if (!locate(src, 0, size, &sb, &so) || !locate(dst, 0, size, &db, &d_o))
        return false;
    client_lock(c);
    struct apir_msg msg = {
        .code = APIR_MSG_COPY,
        .u.copy = { .src_stream = src_stream ? src_stream->id : 0,
                    .dst_stream = dst_stream ? dst_stream->id : 0,
                    .src_buffer = sb->id, .src_offset = so, .dst_buffer = db->id,
                    .dst_offset = d_o, .size = size },
    };
    uint64_t pos = client_put_locked(c, &msg);
    note(src_stream, pos, false);
    note(dst_stream, pos, false);
    client_unlock(c);
    return true;
}

/* ---- ggml's vtable ------------------------------------------------------------ */

static void buffer_free(void *buffer)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b = context_of(buffer);
    if (client_usable(c)) {
        client_lock(c);
        slots_forget_buffer_locked(&plugin.slots, b->id);
        struct apir_msg msg = { .code = APIR_MSG_BUFFER_FREE, .u.buffer_free = { b->id } };
        client_put_locked(c, &msg);
        client_flush_locked(c);
        uint32_t index = b->id % APIR_BUFFERS_MAX;
        plugin.buffer_used[index / 64] &= ~(UINT64_C(1) << (index % 64));
        client_unlock(c);
    }
    munmap(b->base, b->size);
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
    struct client *c = &plugin.client;
    struct plugin_buffer *b;
    uint64_t at;
    if (size == 0 || !locate(t, offset, size, &b, &at))
        return;
    struct apir_msg msg = {
        .code = APIR_MSG_MEMSET,
        .u.memset = { .buffer = b->id, .offset = at, .size = size, .value = value },
    };
    client_lock(c);
    client_put_locked(c, &msg);
    client_unlock(c);
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

static void buffer_clear(void *buffer, uint8_t value)
{
    struct client *c = &plugin.client;
    if (!client_usable(c))
        return;
    struct apir_msg msg = {
        .code = APIR_MSG_BUFFER_CLEAR,
        .u.buffer_clear = { .buffer = context_of(buffer)->id, .value = value },
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
    struct apir_msg msg = { .code = APIR_MSG_BUFFER_RESET,
                            .u.buffer_reset = { context_of(buffer)->id } };
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

#define SET_FN(member, function)                                                                   \
    do {                                                                                           \
        __typeof__(&function) fn_ = function;                                                      \
        if (plugin.layout.buffer.member)                                                           \
            memcpy(&iface.fn[plugin.layout.buffer.member / 8], &fn_, sizeof(fn_));                 \
    } while (0)

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
    *b = (struct plugin_buffer){ .device = d, .base = base, .size = size };
    client_lock(c);
    b->id = id_get_locked();
    client_unlock(c);
    struct apir_msg msg = {
        .code = APIR_MSG_BUFFER_ALLOC,
        .u.buffer_alloc = { .device = d->index, .buffer = b->id, .size = size },
    };
    struct apir_reply_status answer = { .status = APIR_E_NOMEM };
    int rc = b->id ? client_call(c, &msg, &msg.u.buffer_alloc.reply, &answer, sizeof(answer))
                   : -EBUSY;
    if (rc || answer.status != APIR_OK) {
        apir_log(APIR_LOG_WARN, "%s: the host has no buffer of %zu MiB", d->name, size >> 20);
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
    struct gg_buffer_i iface = { { NULL } };
    void (*free_fn)(void *) = buffer_free;
    memcpy(&iface.fn[0], &free_fn, sizeof(free_fn));
    SET_FN(base, buffer_base);
    SET_FN(memset, buffer_memset);
    SET_FN(set, buffer_set);
    SET_FN(get, buffer_get);
    SET_FN(set_2d, buffer_set_2d);
    SET_FN(get_2d, buffer_get_2d);
    SET_FN(cpy, buffer_copy);
    SET_FN(clear, buffer_clear);
    SET_FN(reset, buffer_reset);
    return plugin.buffer_init(d->buft, iface, b, size);
}
