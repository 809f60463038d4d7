/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes between the program's memory and buffers on the host. Three ways, the first
 * that applies: inside the message; by reference, where the program's memory is shared
 * (host buffers); through the arena, in chunks, so that one is uploaded while the next
 * is copied.
 */
#include "frontend/ggml/transfer.h"

#include <string.h>

#include "frontend/link/expect.h"
#include "frontend/link/shared.h"
#include "frontend/plugin/stream.h"

/* A result that the host's CPU writes goes through the arena below this, where we copy its
 * beginning while the host writes its end. */
#define REFERENCE_GET_MIN (1u << 20)
/* Pieces of a set: a quarter of it, so that most is uploaded while the rest is copied; large
 * enough not to feel the message, small enough that four fit the arena. Where the host's CPU
 * copies, only so large that few pages of the arena are in use; a GPU feels each piece. */
#define SET_PIECE_MIN (256u << 10)
#define SET_PIECE_MAX (2u << 20)
#define CPU_PIECE_MAX (512u << 10)
/* The first one of a GPU whose host waits for it; the next are twice as large. Not where the CPU
 * copies: places in the arena would change with the sizes, and set in a VM is slower then, up to
 * half. */
#define SET_PIECE_SOON (64u << 10)
#define GET_CHUNKS     4u /* of one synchronous read, under way at once */

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

static uint32_t id_of(const struct plugin_stream *s)
{
    return s ? s->id : 0;
}

/* ---- set -------------------------------------------------------------------- */

static uint64_t put_set_locked(struct plugin_stream *s, const struct plugin_buffer *b, uint64_t at,
                               uint64_t size, uint32_t blob, uint64_t blob_offset)
{
    struct apir_msg msg = {
        .code = APIR_MSG_SET,
        .u.set = {.stream = id_of(s),
                  .buffer = b->id,
                  .offset = at,
                  .size = size,
                  .blob = blob,
                  .blob_offset = blob_offset},
    };
    uint64_t pos = client_put_locked(&plugin.client, &msg);
    note(s, pos, false);
    /* Shown at once: the host uploads this one while we copy the next. */
    client_flush_locked(&plugin.client);
    return pos;
}

static void set_inline_locked(struct plugin_stream *s, const struct plugin_buffer *b, uint64_t at,
                              const void *data, size_t size)
{
    struct apir_msg msg = {
        .code = APIR_MSG_SET_INLINE,
        .tail = data,
        .u.set_inline = {.stream = id_of(s), .buffer = b->id, .offset = at, .size = size},
    };
    note(s, client_put_locked(&plugin.client, &msg), false);
}

/* Of a piece in the arena; `most` where a device copies it. */
static size_t piece_max(const struct plugin_buffer *b, size_t most)
{
    return b->device->info.flags & APIR_DEVICE_SYNC ? CPU_PIECE_MAX : most;
}

static void set_chunks_locked(struct plugin_stream *s, const struct plugin_buffer *b, uint64_t at,
                              const uint8_t *data, size_t size)
{
    struct client *c = &plugin.client;
    const size_t most = piece_max(b, SET_PIECE_MAX);
    size_t piece = size / 4 < SET_PIECE_MIN ? SET_PIECE_MIN : size / 4 > most ? most : size / 4;
    const bool soon = !(b->device->info.flags & APIR_DEVICE_SYNC) && client_host_idle(c);
    size_t next = soon ? SET_PIECE_SOON : piece;
    for (size_t done = 0; done < size; next = 2 * next < piece ? 2 * next : piece) {
        /* No crumbs. */
        size_t n = size - done < next + SET_PIECE_SOON ? size - done : next;
        struct client_block *block = client_block_locked(c, n);
        if (!block)
            return;
        memcpy(client_block_data(c, block), data + done, n);
        block->until = put_set_locked(s, b, at + done, n, APIR_ARENA_BLOB_ID, block->offset);
        if (!block->until)
            return;
        done += n;
    }
}

/* False: the data are not in shared memory, or too few. Lets the lock go while it waits. */
static bool set_by_reference_locked(struct plugin_stream *s, const struct plugin_buffer *b,
                                    uint64_t at, const void *data, size_t size)
{
    struct client *c = &plugin.client;
    if (!s && size < PLUGIN_REFERENCE_MIN)
        return false;
    const struct client_shared *m = client_shared_find_locked(c, data, size);
    if (!m)
        return false;
    uint64_t pos = put_set_locked(s, b, at, size, m->id, client_shared_offset(m, data));
    if (s || !pos)
        return true; /* the caller leaves its data alone until it has synchronized */
    const uint64_t expect = expect_known_bytes(plugin.mib_ns, size), began = os_now_ns();
    client_unlock(c);
    client_wait(c, pos, expect);
    const uint64_t took = os_now_ns() - began;
    client_lock(c);
    expect_learn_bytes(&plugin.mib_ns, size, took);
    return true;
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
    if (size <= APIR_INLINE_MAX)
        set_inline_locked(s, b, at, data, size);
    else if (!set_by_reference_locked(s, b, at, data, size))
        set_chunks_locked(s, b, at, data, size);
    client_unlock(c);
}

void plugin_tensor_set_whole(struct gg_tensor *t, const void *data)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b;
    uint64_t at;
    const size_t size = plugin.nbytes(t);
    if (size == 0 || !locate(t, 0, size, &b, &at))
        return;
    struct apir_msg msg = {
        .code = APIR_MSG_TENSOR_BEGIN,
        .u.tensor_begin = {.buffer = b->id,
                           .offset = at,
                           .type = (uint32_t)t->type,
                           .ne0 = (uint64_t)t->ne[0],
                           .ne1 = (uint64_t)t->ne[1],
                           .ne2 = (uint64_t)t->ne[2]},
    };
    const uint64_t pos = client_send(c, &msg);
    if (pos)
        plugin_tensor_set(NULL, t, data, 0, size);
}

/* ---- get -------------------------------------------------------------------- */

/* Puts the read of one piece on the ring: its position, or 0. */
static uint64_t put_get_locked(struct plugin_stream *s, const struct plugin_buffer *b, uint64_t at,
                               uint64_t size, uint32_t blob, uint64_t blob_offset)
{
    struct apir_msg msg = {
        .code = APIR_MSG_GET,
        .u.get = {.stream = id_of(s),
                  .buffer = b->id,
                  .offset = at,
                  .size = size,
                  .blob = blob,
                  .blob_offset = blob_offset},
    };
    return client_put_locked(&plugin.client, &msg);
}

static struct client_shared *get_reference_locked(const void *dst, size_t size)
{
    if (size < PLUGIN_REFERENCE_MIN)
        return NULL;
    struct client_shared *m = client_shared_find_locked(&plugin.client, dst, size);
    return m && (m->direct || size >= REFERENCE_GET_MIN) ? m : NULL;
}

static void get_async(struct plugin_stream *s, const struct plugin_buffer *b, uint64_t at,
                      uint8_t *dst, size_t size, uint32_t type)
{
    struct client *c = &plugin.client;
    client_lock(c);
    const struct client_shared *m = get_reference_locked(dst, size);
    const size_t most = m ? size : piece_max(b, CLIENT_CHUNK);
    for (size_t done = 0; done < size;) {
        size_t n = size - done < most ? size - done : most;
        struct client_block *block = m ? NULL : client_block_locked(c, n);
        uint64_t until = 0;
        if (m)
            until = put_get_locked(s, b, at, n, m->id, client_shared_offset(m, dst));
        else if (block)
            until = block->until =
                put_get_locked(s, b, at + done, n, APIR_ARENA_BLOB_ID, block->offset);
        if (!until) {
            client_fill_lost(dst + done, size - done, type);
            break;
        }
        if (block)
            block->held = 1;
        struct client_read r = {
            .dst = dst + done,
            .size = n,
            .until = until,
            .block = block,
            .type = type,
            .stream = s->id,
        };
        client_read_defer_locked(c, &r);
        note(s, until, true);
        done += n;
        if (done < size)
            client_flush_locked(c);
    }
    client_unlock(c);
}

/* A piece of a synchronous read that is under way. */
struct piece {
    struct client_block *block;
    uint8_t *dst;
    size_t size;
};

static void get_sync_chunks(const struct plugin_buffer *b, uint64_t at, uint8_t *dst, size_t size,
                            uint32_t type)
{
    struct client *c = &plugin.client;
    struct piece pieces[GET_CHUNKS];
    const size_t most = piece_max(b, CLIENT_CHUNK);
    uint32_t first = 0, n = 0;
    size_t done = 0;
    bool ok = true;
    while ((ok && done < size) || n) {
        size_t want = size - done < most ? size - done : most;
        struct client_block *block = NULL;
        if (ok && done < size && n < GET_CHUNKS) {
            client_lock(c);
            /* Never wait for room with pieces of our own to copy: somebody may wait for
             * these. */
            block = n ? client_block_try_locked(c, want) : client_block_locked(c, want);
            if (block)
                block->until =
                    put_get_locked(NULL, b, at + done, want, APIR_ARENA_BLOB_ID, block->offset);
            if (block && block->until) {
                block->held = 1;
                client_flush_locked(c);
            }
            client_unlock(c);
            ok = n || (block && block->until);
        }
        if (block && block->until) {
            pieces[(first + n++) % GET_CHUNKS] = (struct piece){block, dst + done, want};
            done += want;
        } else if (n) {
            const struct piece *p = &pieces[first];
            /* Without the lock: other threads go on while we wait and copy. */
            client_block_read(c, p->block, p->dst, p->size, type, expect_bytes(p->size));
            first = (first + 1) % GET_CHUNKS;
            n--;
        }
    }
    if (done < size)
        client_fill_lost(dst + done, size - done, type);
}

static void get_sync(const struct plugin_buffer *b, uint64_t at, uint8_t *dst, size_t size,
                     uint32_t type)
{
    struct client *c = &plugin.client;
    client_lock(c);
    const struct client_shared *m = get_reference_locked(dst, size);
    uint64_t pos = m ? put_get_locked(NULL, b, at, size, m->id, client_shared_offset(m, dst)) : 0;
    if (m)
        client_flush_locked(c);
    client_unlock(c);
    if (!m)
        get_sync_chunks(b, at, dst, size, type);
    else if (!pos || client_wait(c, pos, expect_bytes(size)) < 0)
        client_fill_lost(dst, size, type);
}

void plugin_tensor_get(struct plugin_stream *s, const struct gg_tensor *t, void *data,
                       size_t offset, size_t size)
{
    struct plugin_buffer *b;
    uint64_t at;
    if (size == 0)
        return;
    if (!locate(t, offset, size, &b, &at) || (!s && plugin_buffer_is_void(b)))
        client_fill_lost(data, size, (uint32_t)t->type);
    else if (s)
        get_async(s, b, at, data, size, (uint32_t)t->type);
    else
        get_sync(b, at, data, size, (uint32_t)t->type);
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
            .u.set_2d = {.stream = s ? s->id : 0,
                         .buffer = b->id,
                         .offset = at + i * stride_tensor,
                         .size = size,
                         .count = rows,
                         .stride = stride_tensor,
                         .blob = APIR_ARENA_BLOB_ID,
                         .blob_offset = block->offset},
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
    bool found = locate(t, offset, (n - 1) * stride_tensor + size, &b, &at) &&
                 (s || !plugin_buffer_is_void(b));
    if (size > CLIENT_CHUNK || !found) {
        for (size_t i = 0; i < n; i++)
            plugin_tensor_get(s, t, (uint8_t *)data + i * stride_data, offset + i * stride_tensor,
                              size);
        return;
    }
    client_lock(c);
    size_t per = rows_per_chunk(size, n);
    for (size_t i = 0; i < n; i += per) {
        size_t rows = n - i < per ? n - i : per;
        uint8_t *dst = (uint8_t *)data + i * stride_data;
        struct client_block *block = client_block_locked(c, rows * size);
        struct apir_msg msg = {.code = APIR_MSG_GET_2D};
        if (block) {
            msg.u.get_2d = (struct apir_msg_get_2d){
                .stream = s ? s->id : 0,
                .buffer = b->id,
                .offset = at + i * stride_tensor,
                .size = size,
                .count = rows,
                .stride = stride_tensor,
                .blob = APIR_ARENA_BLOB_ID,
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
            .dst = dst,
            .size = rows * size,
            .row = size,
            .stride = stride_data,
            .until = block->until,
            .block = block,
            .type = (uint32_t)t->type,
            .stream = s ? s->id : CLIENT_SYNCHRONOUS,
        };
        client_read_defer_locked(c, &r);
        note(s, block->until, true);
        client_flush_locked(c);
    }
    if (!s)
        client_reads_finish_locked(c, CLIENT_SYNCHRONOUS, UINT64_MAX);
    client_unlock(c);
}

bool plugin_tensor_copy(struct plugin_stream *src_stream, struct plugin_stream *dst_stream,
                        const struct gg_tensor *src, struct gg_tensor *dst)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *sb, *db;
    uint64_t so, d_o, size = plugin.nbytes(src);
    /* With gaps the bytes between are somebody else's: ggml then copies by other ways. */
    if (src->type != dst->type || memcmp(src->ne, dst->ne, sizeof(src->ne)) != 0 || size == 0 ||
        !plugin.is_contiguous(src) || !plugin.is_contiguous(dst) || size != plugin.nbytes(dst))
        return false;
    if (!locate(src, 0, size, &sb, &so) || !locate(dst, 0, size, &db, &d_o))
        return false;
    /* By way of the program it becomes NaN, as all of what a failed graph was to compute. */
    if (plugin_buffer_is_void(sb))
        return false;
    /* The host refuses those; ggml then copies by way of memory of its own. */
    if (sb == db && so < d_o + size && d_o < so + size)
        return false;
    client_lock(c);
    struct apir_msg msg = {
        .code = APIR_MSG_COPY,
        .u.copy = {.src_stream = src_stream ? src_stream->id : 0,
                   .dst_stream = dst_stream ? dst_stream->id : 0,
                   .src_buffer = sb->id,
                   .src_offset = so,
                   .dst_buffer = db->id,
                   .dst_offset = d_o,
                   .size = size},
    };
    uint64_t pos = client_put_locked(c, &msg);
    note(src_stream, pos, false);
    note(dst_stream, pos, false);
    client_unlock(c);
    return true;
}

void plugin_tensor_memset(struct gg_tensor *t, uint8_t value, size_t offset, size_t size)
{
    struct client *c = &plugin.client;
    struct plugin_buffer *b;
    uint64_t at;
    if (size == 0 || !locate(t, offset, size, &b, &at))
        return;
    struct apir_msg msg = {
        .code = APIR_MSG_MEMSET,
        .u.memset = {.buffer = b->id, .offset = at, .size = size, .value = value},
    };
    client_send(c, &msg);
}
