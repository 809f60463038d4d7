/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/link/arena.h"

#include <string.h>

#include "protocol/atomic.h"
#include "protocol/gguf.h"

#define NAP_NS 20000u /* while another thread copies out of the oldest block */

static struct client_block *block_at(struct client *c, uint32_t i)
{
    return &c->blocks[(c->block_first + i) % CLIENT_BLOCKS_MAX];
}

static void blocks_reclaim(struct client *c)
{
    while (c->block_count && !apir_load_acquire32(&block_at(c, 0)->held) &&
           client_reached(c, block_at(c, 0)->until)) {
        c->block_first = (c->block_first + 1) % CLIENT_BLOCKS_MAX;
        c->block_count--;
    }
    /* Two places in turn, not the same again (bench-overhead: 15 us a token, and 10 with two). What
     * lies in one is still in our cache, and the host would have to take each line back before it
     * can write there. docs/decisions.md, Results lie at two places in turn. */
    if (c->block_count == 0 && c->arena_next != c->arena_turn)
        c->arena_next = c->arena_turn = c->arena_turn ? 0 : c->arena_next;
}

/* Where `size` bytes fit behind the newest block, or UINT64_MAX. */
static uint64_t arena_place(const struct client *c, uint64_t oldest, uint64_t size)
{
    if (c->block_count == 0) {
        if (size <= c->arena_size - c->arena_next)
            return c->arena_next;
        return size <= c->arena_size ? 0 : UINT64_MAX;
    }
    if (c->block_count == CLIENT_BLOCKS_MAX)
        return UINT64_MAX;
    if (c->arena_next > oldest) {
        const bool behind = size <= c->arena_size - c->arena_next;
        /* Never up to the oldest: equal would look like empty. As near to the beginning as may
         * be: fewer pages, which stay known to both sides. But what is left behind counts as full
         * then, so only where there is room for more than this one. */
        if (size < oldest && (!behind || oldest >= c->arena_size / 4))
            return 0;
        return behind ? c->arena_next : UINT64_MAX;
    }
    return size < oldest - c->arena_next ? c->arena_next : UINT64_MAX;
}

struct client_block *client_block_try_locked(struct client *c, uint64_t size)
{
    size = (size + 63) & ~UINT64_C(63);
    if (!client_usable(c))
        return NULL;
    blocks_reclaim(c);
    uint64_t oldest = c->block_count ? block_at(c, 0)->offset : 0;
    uint64_t at = arena_place(c, oldest, size);
    if (at == UINT64_MAX)
        return NULL;
    c->block_count++;
    struct client_block *b = block_at(c, c->block_count - 1);
    *b = (struct client_block){
        .offset = at,
        .size = size,
    };
    b->until = c->ring.tail + (UINT64_C(1) << 40); /* not before the caller says */
    c->arena_next = at + size;
    return b;
}

struct client_block *client_block_locked(struct client *c, uint64_t size)
{
    for (;;) {
        struct client_block *b = client_block_try_locked(c, size);
        if (b || !client_usable(c) || size > c->arena_size || c->block_count == 0)
            return b;
        b = block_at(c, 0);
        client_flush_locked(c);
        if (client_wait_locked(c, b->until) < 0)
            return NULL;
        if (b->held)
            client_reads_finish_locked(c, 0, UINT64_MAX);
        if (b->held) {
            /* Another thread is copying out of it and needs no lock for that. */
            client_unlock(c);
            os_sleep_ns(NAP_NS);
            client_lock(c);
        }
    }
}

void client_block_release(struct client_block *b)
{
    apir_store_release32(&b->held, 0);
}

void client_read_defer_locked(struct client *c, const struct client_read *r)
{
    if (c->read_count == CLIENT_BLOCKS_MAX)
        client_reads_finish_locked(c, 0, UINT64_MAX);
    c->reads[c->read_count++] = *r;
}

void client_fill_lost(void *dst, size_t size, uint32_t type)
{
    uint8_t *p = dst;
    static const uint8_t nan32[4] = {0, 0, 0xc0, 0x7f}, nan16[2] = {0, 0x7e},
                         nanb16[2] = {0xc0, 0x7f};
    const uint8_t *pattern = type == APIR_TYPE_F32    ? nan32
                             : type == APIR_TYPE_F16  ? nan16
                             : type == APIR_TYPE_BF16 ? nanb16
                                                      : NULL;
    size_t n = type == APIR_TYPE_F32 ? 4 : 2;
    if (!pattern) {
        memset(dst, 0, size);
        return;
    }
    for (size_t i = 0; i < size; i++)
        p[i] = pattern[i % n];
}

/* Where head is once the first `done` of `size` bytes are there; `until`: all. */
static uint64_t step_position(uint64_t until, uint64_t size, uint64_t done)
{
    const uint64_t step = apir_get_step(size);
    return until - ((size + step - 1) / step - (done + step - 1) / step);
}

/* The opposite: how many of `size` bytes are there. Never more, whatever head is. */
static uint64_t bytes_there(const struct client *c, uint64_t until, uint64_t size)
{
    const uint64_t left = until - apir_load_acquire64(&c->ring.header->head);
    const uint64_t step = apir_get_step(size), steps = (size + step - 1) / step;
    return (int64_t)left <= 0 ? size : left < steps ? (steps - left) * step : 0;
}

void client_block_read(struct client *c, struct client_block *b, void *dst, uint64_t size,
                       uint32_t type, uint64_t expect_ns)
{
    const uint8_t *from = client_block_data(c, b);
    for (uint64_t done = 0, there; done < size; done = there) {
        /* This first: it knows whether there still is a ring to look at. */
        if (client_wait(c, step_position(b->until, size, done + 1), done ? 0 : expect_ns) < 0) {
            client_fill_lost(dst, size, type);
            break;
        }
        there = bytes_there(c, b->until, size);
        /* A broken host's head may go back. */
        if (there < done)
            there = done;
        memcpy((uint8_t *)dst + done, from + done, there - done);
    }
    client_block_release(b);
}

static struct apir_stream_status *stream_status(const struct client *c, uint32_t stream)
{
    return (struct apir_stream_status *)(void *)(c->replies + client_stream_offset(stream));
}

uint32_t client_stream_status(const struct client *c, uint32_t stream)
{
    return apir_load_acquire32(&stream_status(c, stream)->failed);
}

void client_stream_clear(struct client *c, uint32_t stream)
{
    apir_store_release32(&stream_status(c, stream)->failed, APIR_OK);
}

/* Whether the graphs before a read that is complete have been computed. */
static bool read_is_sound(const struct client *c, const struct client_read *r)
{
    return r->stream == 0 || r->stream > APIR_STREAMS_MAX ||
           client_stream_status(c, r->stream) == APIR_OK;
}

static void read_finish(struct client *c, const struct client_read *r)
{
    client_flush_locked(c);
    if (r->block && !r->stride) {
        client_block_read(c, r->block, r->dst, r->size, r->type, 0);
        if (!read_is_sound(c, r))
            client_fill_lost(r->dst, r->size, r->type);
        return;
    }
    bool ok = client_wait_locked(c, r->until) == 0 && read_is_sound(c, r);
    uint64_t rows = r->stride ? r->size / r->row : 1;
    uint64_t row = r->stride ? r->row : r->size;
    for (uint64_t i = 0; i < rows; i++) {
        uint8_t *dst = (uint8_t *)r->dst + i * r->stride;
        if (!ok)
            client_fill_lost(dst, row, r->type);
        else if (r->block)
            memcpy(dst, (uint8_t *)client_block_data(c, r->block) + i * row, row);
    }
    if (r->block)
        client_block_release(r->block);
}

uint64_t client_reads_begin_locked(const struct client *c, uint32_t stream, uint64_t upto)
{
    for (uint32_t i = c->read_count; i-- > 0;) {
        const struct client_read *r = &c->reads[i];
        const uint64_t step = apir_get_step(r->size);
        if (r->stream == stream && r->until == upto && r->block && !r->stride)
            return step_position(upto, r->size, r->size < step ? r->size : step);
    }
    return upto;
}

void client_reads_finish_locked(struct client *c, uint32_t stream, uint64_t upto)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->read_count; i++) {
        if ((stream == 0 || c->reads[i].stream == stream) && c->reads[i].until <= upto)
            read_finish(c, &c->reads[i]);
        else
            c->reads[kept++] = c->reads[i];
    }
    c->read_count = kept;
}
