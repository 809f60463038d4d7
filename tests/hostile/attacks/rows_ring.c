/* SPDX-License-Identifier: Apache-2.0 */
/* The words and the bytes of the ring, as no plug-in would write them. */
#define _GNU_SOURCE
#include "tests/hostile/attacks/attack.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/atomic.h"

#define CMD_SIZE  (APIR_RING_SIZE / 2)
#define NO_OFFSET "ring offsets make no sense"

/* ---- head and tail ----------------------------------------------------------------------- */

/* A message that does no harm, 16 bytes of the ring; returns where its answer goes. */
static uint32_t put_small(struct guest *g)
{
    struct apir_msg m = {.code = APIR_MSG_DEVICE_MEMORY,
                         .u.device_memory = {.reply = guest_reply(g)}};
    guest_put(g, &m);
    return m.u.device_memory.reply;
}

/* The whole ring is messages that the host would take. */
static void fill_ring(struct guest *g)
{
    for (uint32_t i = 0; i < CMD_SIZE / 16; i++)
        put_small(g);
    WANT(guest_run(g));
}

/* This tail, that far from where the host is, ends a context. */
static void tail_at(uint64_t distance)
{
    struct guest g;
    guest_connect(&g);
    guest_greet(&g);
    fill_ring(&g);
    uint64_t tail = g.ring.tail + distance;
    g.ring.tail = tail;
    guest_show(&g, tail);
    end_refused(&g, NO_OFFSET);
}

static void tail_backwards(void)
{
    static const uint64_t steps[] = {1, 8, 16, CMD_SIZE, UINT64_C(1) << 32};
    for (size_t i = 0; i < N(steps); i++)
        tail_at(0 - steps[i]);
}

static void tail_past_the_size(void)
{
    static const uint64_t steps[] = {CMD_SIZE + 1, CMD_SIZE + 16, UINT64_C(1) << 32,
                                     UINT64_C(1) << 63};
    for (size_t i = 0; i < N(steps); i++)
        tail_at(steps[i]);
}

/* Until the host has done all, whatever else the shared page says meanwhile. */
static void wait_done(struct guest *g)
{
    if (!SOON(apir_load_acquire64(&g->ring.header->head) == g->ring.tail))
        not_stopped("the host has lost its way");
}

static void head_overwritten(void)
{
    cleanup_guest struct guest g;
    guest_open(&g);
    const uint64_t here = g.ring.tail;
    const uint64_t heads[] = {0,          here - 8, here + 8, here - CMD_SIZE, here + 2 * CMD_SIZE,
                              1ull << 63, ~0ull};
    guest_remember(&g);
    for (size_t i = 0; i < N(heads); i++) {
        uint32_t reply = put_small(&g);
        apir_store_release64(&g.ring.header->head, heads[i]);
        guest_show(&g, g.ring.tail);
        wait_done(&g);
        const struct apir_reply_status *r = guest_reply_at(&g, reply);
        WANT(r->status == APIR_OK);
    }
    guest_unchanged(&g);
    expect_alive(&g);
    refused("not read: the host counts on its own");
}

/* ---- both moved while the host reads ----------------------------------------------------- */

struct scribbler {
    pthread_t thread;
    struct apir_ring_header *header;
    uint64_t tail; /* the honest one, now and then */
    uint32_t stop;
};

static void *scribble(void *arg)
{
    struct scribbler *s = arg;
    unsigned seed = 7;
    while (!apir_load_acquire32(&s->stop)) {
        uint64_t v = (uint64_t)rand_r(&seed) << (rand_r(&seed) % 40);
        apir_store_release64(&s->header->head, v);
        apir_store_release64(&s->header->tail, rand_r(&seed) % 4 ? s->tail : v);
    }
    return NULL;
}

static void both_moved(void)
{
    for (int i = 0; i < 12; i++) {
        struct guest g;
        guest_open(&g);
        fill_ring(&g);
        struct scribbler s = {.header = g.ring.header, .tail = g.ring.tail + CMD_SIZE / 2};
        g.ring.tail += CMD_SIZE / 2;
        WANT(pthread_create(&s.thread, NULL, scribble, &s) == 0);
        int64_t end = now_ms() + WAIT_MS;
        while (guest_state(&g) == APIR_STATE_READY && now_ms() < end) {
            guest_show(&g, s.tail); /* one that found nothing to do has gone to sleep */
            nap_us(100);
        }
        apir_store_release32(&s.stop, 1);
        pthread_join(s.thread, NULL);
        g.ring.tail += 1; /* whatever head says: it is not done */
        end_refused(&g, "");
    }
}

/* ---- words of the host ------------------------------------------------------------------- */

/* All of the first page but the tail, which is the guest's to write. */
static void status_overwritten(void)
{
    cleanup_guest struct guest g;
    guest_open(&g);
    guest_remember(&g);
    static const uint32_t values[] = {0, 1, APIR_STATE_LOST, 0x7fffffff, UINT32_MAX};
    struct apir_ring_header kept;
    memcpy(&kept, g.ring.header, sizeof(kept));
    for (size_t at = 0; at < APIR_RING_HEADER_SIZE / 4; at++) {
        if (at == offsetof(struct apir_ring_header, tail) / 4 ||
            at == offsetof(struct apir_ring_header, tail) / 4 + 1)
            continue;
        for (size_t i = 0; i < N(values); i++) {
            uint32_t reply = put_small(&g);
            apir_store_release32((uint32_t *)(void *)g.ring.header + at, values[i]);
            guest_show(&g, g.ring.tail);
            /* One that finds `idle` gone sleeps on until the doorbell. */
            wait_done(&g);
            const struct apir_reply_status *r = guest_reply_at(&g, reply);
            WANT(r->status == APIR_OK);
        }
    }
    memcpy(g.ring.header, &kept, offsetof(struct apir_ring_header, tail));
    memcpy(&g.ring.header->waiting, &kept.waiting,
           offsetof(struct apir_ring_header, head) - offsetof(struct apir_ring_header, waiting));
    memcpy(&g.ring.header->state, &kept.state,
           sizeof(kept) - offsetof(struct apir_ring_header, state));
    apir_store_release64(&g.ring.header->head, g.ring.tail);
    expect_alive(&g);
    guest_unchanged(&g);
    refused("not read: the host keeps what it goes by");
}

/* ---- the ring's end ---------------------------------------------------------------------- */

#define INLINE_MESSAGE (8u + 24u + APIR_INLINE_MAX)

static void put_inline(struct guest *g, uint32_t buffer, const uint8_t *bytes, size_t size)
{
    guest_put(
        g, &(struct apir_msg){.code = APIR_MSG_SET_INLINE,
                              .tail = bytes,
                              .u.set_inline = {.stream = STREAM, .buffer = buffer, .size = size}});
}

/* Messages of that many bytes in all: a multiple of 8, at least 48. */
static void put_padding(struct guest *g, uint64_t bytes)
{
    static const uint8_t zeros[APIR_INLINE_MAX];
    while (bytes) {
        uint64_t one = bytes <= INLINE_MESSAGE ? bytes : INLINE_MESSAGE;
        if (bytes > INLINE_MESSAGE && bytes - one < 48)
            one -= 48;
        put_inline(g, 3, zeros, one - (INLINE_MESSAGE - APIR_INLINE_MAX));
        bytes -= one;
    }
}

/* Up to so many bytes before the end of the ring. */
static void put_until(struct guest *g, uint64_t left)
{
    uint64_t distance = (CMD_SIZE - left - g->ring.tail) & (CMD_SIZE - 1);
    put_padding(g, distance < 48 ? distance + CMD_SIZE : distance);
}

static void straddling(void)
{
    static uint8_t bytes[APIR_INLINE_MAX], back[APIR_INLINE_MAX];
    cleanup_guest struct guest g;
    guest_open(&g);
    uint32_t offsets = 0;
    for (uint64_t left = 8; left < INLINE_MESSAGE; left += 8, offsets++) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)(i * 13 + left + (i >> 8));
        put_until(&g, left);
        put_inline(&g, 2, bytes, sizeof(bytes));
        guest_get(&g, 2, 0, back, sizeof(back));
        if (memcmp(bytes, back, sizeof(bytes)) != 0)
            not_stopped("%u bytes before the ring's end: other bytes arrived", (unsigned)left);
    }
    /* One that says that it is longer than the host has room for, in either half. */
    for (uint64_t left = 8; left <= 16; left += 8) {
        struct guest bad;
        struct apir_msg_header h = {.code = APIR_MSG_SET_INLINE, .size = APIR_MESSAGE_MAX + 8};
        guest_open(&bad);
        put_until(&bad, left);
        WANT(guest_run(&bad));
        guest_put_bytes(&bad, &h, sizeof(h));
        put_padding(&bad, h.size);
        end_refused(&bad, NO_OFFSET);
    }
    refused("%u offsets, every byte in its place; larger than the host's copy: " NO_OFFSET,
            offsets);
}

/* ---- half a message ---------------------------------------------------------------------- */

static void half_a_message(void)
{
    for (uint64_t shown = 1; shown < 16; shown++) {
        struct guest g;
        guest_open(&g);
        uint32_t reply = put_small(&g);
        guest_show(&g, g.ring.tail - 16 + shown);
        expect_refused(&g, NO_OFFSET);
        const struct apir_reply_status *r = guest_reply_at(&g, reply);
        if (r->status != UINT32_MAX)
            not_stopped("%u bytes of a message were enough to have it answered", (unsigned)shown);
        guest_close(&g);
    }
}

const struct attack_row attack_rows_ring[] = {
    {"ring-tail-backwards", "the tail driven backwards", tail_backwards, 0, 0},
    {"ring-tail-past-size", "the tail driven past the ring's size", tail_past_the_size, 0, 0},
    {"ring-head", "the head driven backwards and past the size", head_overwritten, 0, 0},
    {"ring-both-moved", "head and tail moved while the host reads", both_moved, 0, 0},
    {"ring-status-words", "status words overwritten by the guest", status_overwritten, 0, 0},
    {"ring-straddle", "messages across the ring's end at every offset", straddling, 0, 0},
    {"ring-half-message", "half a message, then silence", half_a_message, 0, 0},
    {0},
};
