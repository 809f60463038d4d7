/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest without manners and its worker: messages over a real ring, the worker's own decoder,
 * validator and handlers, and the host's CPU backend (beside it a device that has what GPUs have:
 * memory and a queue of its own, events, an order of nodes). Buffers are allocated, filled and
 * freed, graphs of several ops defined and computed, blobs come and go, and the guest
 * writes to all memory that it has, at any point. A malformed message ends it, as it would end
 * the worker's process.
 *
 * Input: steps, each a byte that picks a kind of message (or what the guest or the server does
 * beside the ring) and bytes for its fields: ids of what there is, ranges within it; and now and
 * then any other. Where the input ends, what is left reads as zeros.
 */
#include "tests/hostile/fuzz/fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "tests/hostile/fuzz/cage.h"
#include "tests/hostile/fuzz/graph_random.h"
#include "tests/hostile/fuzz/worker_world.h"
#include "tests/lib/graph_write.h"
#include "tests/lib/message_table.h"

const char fuzz_corpus[] = "worker";

#define STEPS    96
#define IDS      6u        /* of buffers, streams and so on that the guest has at a time */
#define ELEMENTS (1 << 18) /* per computation: beyond it, only time would pass */

static struct random_graph graphs[APIR_SLOTS_MAX]; /* as the guest has defined them */

static bool may_compute(const struct worker_slot *s)
{
    return s->state != SLOT_READY || s->device == QUEUED ||
           (random_graph_elements(&s->wire) <= ELEMENTS && !random_graph_unpromised(&s->wire));
}

/* ---- fields ---------------------------------------------------------------------- */

/* The n-th of those up to `limit` for which there is something; 0 where there is none. */
static uint32_t pick_live(uint32_t n, uint32_t limit, bool (*lives)(uint32_t id))
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < limit; i++)
        count += lives(i);
    if (count)
        n %= count;
    for (uint32_t i = 0; count && i < limit; i++) {
        if (lives(i) && n-- == 0)
            return i;
    }
    return 0;
}

static bool buffer_lives(uint32_t i)
{
    return worker.buffers[i].id != 0;
}

static bool stream_lives(uint32_t i)
{
    return i > 0 && worker.streams[i].host;
}

static bool slot_lives(uint32_t i)
{
    return worker.slots[i].state != SLOT_EMPTY;
}

static bool blob_lives(uint32_t i)
{
    return i > 0 && worker.blobs[i].map;
}

static uint64_t number(void)
{
    uint32_t v = (uint32_t)world_take(2);
    switch (v >> 13) {
    case 0:
        return v & 0xff;
    case 1:
    case 2:
        return (v & 0x1fff) * 8;
    case 3:
        return world_take(8);
    default:
        return v;
    }
}

/* Any value that the decoder takes; of what there is, mostly. */
static void field_draw(const struct message_field *f, void *user)
{
    const struct apir_msg *msg = user;
    uint8_t pick = 0;
    uint64_t v = 0;
    bool size = strstr(f->name, "size") || strstr(f->name, "offset") ||
                strcmp(f->name, "count") == 0 || strcmp(f->name, "stride") == 0;
    if (size)
        v = number();
    else
        pick = (uint8_t)world_take(1);
    if (!size && pick >= 0xfc)
        v = world_take(f->size);
    else if (strstr(f->name, "buffer") && msg->code == APIR_MSG_BUFFER_ALLOC)
        v = 1 + pick % IDS + ((uint64_t)(pick / IDS) << 12);
    else if (strstr(f->name, "buffer"))
        v = worker.buffers[pick_live(pick, IDS + 1, buffer_lives)].id;
    else if (strstr(f->name, "stream") && msg->code == APIR_MSG_STREAM_OPEN)
        v = 1 + pick % IDS;
    else if (strstr(f->name, "stream"))
        v = f->lowest == 0 && pick % 2 ? 0 : pick_live(pick / 2, IDS + 1, stream_lives);
    else if (strcmp(f->name, "slot") == 0 && msg->code == APIR_MSG_GRAPH_DEF)
        v = pick % IDS;
    else if (strcmp(f->name, "slot") == 0)
        v = pick_live(pick, IDS, slot_lives);
    else if (strcmp(f->name, "blob") == 0)
        v = pick_live(pick, BLOBS, blob_lives);
    else if (strcmp(f->name, "reply") == 0 || strcmp(f->name, "status") == 0)
        v = (uint64_t)(pick % 64) * APIR_REPLY_ALIGN;
    else if (strcmp(f->name, "event") == 0)
        v = pick % IDS;
    else if (strcmp(f->name, "device") == 0)
        v = pick % 4 == 3 ? QUEUED : 0;
    else if (!size)
        v = pick;
    if (v < f->lowest || v > f->highest)
        v = f->lowest +
            (f->highest - f->lowest == UINT64_MAX ? v : v % (f->highest - f->lowest + 1));
    message_field_put(f, v);
}

/* [offset, offset + size) within `limit`. */
static void fit(uint64_t *offset, uint64_t *size, uint64_t limit)
{
    if (limit == 0)
        return;
    *offset %= limit;
    *size = 1 + (*size - 1) % (limit - *offset);
}

static uint64_t buffer_size(uint32_t id)
{
    const struct worker_buffer *b = worker_buffer_find(&worker, id);
    return b ? b->host.size : 0;
}

static uint64_t blob_size(uint32_t id)
{
    return id < APIR_BLOBS_MAX ? worker.blobs[id].size : 0;
}

static void fit_rows(uint64_t offset, uint64_t *size, uint64_t *count, uint64_t *stride,
                     uint64_t limit)
{
    if (limit <= offset)
        return;
    *size = 1 + (*size - 1) % (limit - offset);
    *stride %= limit;
    uint64_t most = *stride ? (limit - offset - *size) / *stride + 1 : 8;
    *count = 1 + (*count - 1) % most;
}

/* Ranges (numbers of 64 bits), and the ids (of 32) of what they are ranges of. */
static const struct range {
    enum apir_msg_code code;
    size_t offset, size, of; /* in the message */
    uint64_t (*limit)(uint32_t id);
} ranges[] = {
#define RANGE(code, m, offset, size, of, limit)                                                    \
    {APIR_MSG_##code, offsetof(struct apir_msg, u.m.offset), offsetof(struct apir_msg, u.m.size),  \
     offsetof(struct apir_msg, u.m.of), limit}
    RANGE(SET, set, offset, size, buffer, buffer_size),
    RANGE(SET, set, blob_offset, size, blob, blob_size),
    RANGE(GET, get, offset, size, buffer, buffer_size),
    RANGE(GET, get, blob_offset, size, blob, blob_size),
    RANGE(SET_2D, set_2d, offset, size, buffer, buffer_size),
    RANGE(GET_2D, get_2d, offset, size, buffer, buffer_size),
    RANGE(SET_INLINE, set_inline, offset, size, buffer, buffer_size),
    RANGE(MEMSET, memset, offset, size, buffer, buffer_size),
    RANGE(COPY, copy, src_offset, size, src_buffer, buffer_size),
    RANGE(COPY, copy, dst_offset, size, dst_buffer, buffer_size),
    RANGE(GRAPH_OPTIMIZE, graph_optimize, out_offset, out_size, blob, blob_size),
};

/* Each within what it is a range of. */
static void message_fit(struct apir_msg *msg)
{
    uint8_t *at = (uint8_t *)msg;
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        const struct range *r = &ranges[i];
        if (r->code == msg->code)
            fit((uint64_t *)(void *)(at + r->offset), (uint64_t *)(void *)(at + r->size),
                r->limit(*(const uint32_t *)(void *)(at + r->of)));
    }
    struct apir_msg_set_2d *set = &msg->u.set_2d;
    struct apir_msg_get_2d *get = &msg->u.get_2d;
    struct apir_msg_graph_optimize *optimize = &msg->u.graph_optimize;
    uint64_t one = optimize->size;
    if (msg->code == APIR_MSG_BUFFER_ALLOC) {
        msg->u.buffer_alloc.size = 1 + (msg->u.buffer_alloc.size - 1) % (3u << 20);
    } else if (msg->code == APIR_MSG_SET_2D) {
        fit_rows(set->offset, &set->size, &set->count, &set->stride, buffer_size(set->buffer));
        set->blob_offset %= 4096;
    } else if (msg->code == APIR_MSG_GET_2D) {
        fit_rows(get->offset, &get->size, &get->count, &get->stride, buffer_size(get->buffer));
        get->blob_offset %= 4096;
    } else if (msg->code == APIR_MSG_GRAPH_OPTIMIZE) {
        fit(&optimize->blob_offset, &one, blob_size(optimize->blob));
    }
}

/* ---- graphs ---------------------------------------------------------------------- */

/* Into the buffers that there are. False: there is none. */
static bool graph_place(struct random_graph *g, struct dice *d)
{
    uint64_t sizes[RANDOM_GRAPH_BUFFERS];
    uint32_t n = 0;
    for (uint32_t i = 0; i <= IDS && n < RANDOM_GRAPH_BUFFERS; i++) {
        if (!worker.buffers[i].id)
            continue;
        sizes[n] = worker.buffers[i].host.size;
        g->buffers[n++] = (struct apir_graph_buffer){worker.buffers[i].id, dice_roll(d, 3)};
    }
    return n && random_graph_place(g, d, worker.ggml.types, sizes, n);
}

/* A graph at the place that the message names; its size, or 0. */
static uint64_t payload_put(const struct apir_msg *msg, uint32_t blob, uint64_t *offset,
                            uint32_t slot)
{
    static uint8_t payload[RANDOM_GRAPH_BYTES];
    struct dice d = world_dice();
    struct random_graph *g = &graphs[msg->code == APIR_MSG_GRAPH_DEF ? slot : APIR_SLOTS_MAX - 1];
    random_graph_make(g, &d, msg->code == APIR_MSG_OP_QUERY ? 1 : 1 + dice_roll(&d, 4));
    if (msg->code != APIR_MSG_GRAPH_DEF)
        graph_imagine(&g->g);
    else if (!graph_place(g, &d))
        return 0;
    size_t size = graph_write(&g->g, payload, sizeof(payload));
    /* Now and then some other byte somewhere. */
    for (uint32_t n = dice_roll(&d, 16) ? 0 : 1 + dice_roll(&d, 3); size && n; n--)
        payload[dice_roll(&d, (uint32_t)size)] = (uint8_t)dice_roll(&d, 256);
    if (size == 0 || size > blob_size(blob))
        return 0;
    *offset %= blob_size(blob) - size + 1;
    memcpy(worker.blobs[blob].map + *offset, payload, size);
    return size;
}

/* False: there is nothing that could be sent. */
static bool payload_fill(struct apir_msg *msg)
{
    struct apir_msg_graph_def *def = &msg->u.graph_def;
    struct apir_msg_graph_optimize *optimize = &msg->u.graph_optimize;
    struct apir_msg_op_query *query = &msg->u.op_query;
    switch (msg->code) {
    case APIR_MSG_GRAPH_DEF:
        return (def->size = payload_put(msg, def->blob, &def->blob_offset, def->slot)) > 0;
    case APIR_MSG_GRAPH_OPTIMIZE:
        optimize->size = payload_put(msg, optimize->blob, &optimize->blob_offset, 0);
        return optimize->size > 0;
    case APIR_MSG_OP_QUERY:
        return (query->size = payload_put(msg, query->blob, &query->blob_offset, 0)) > 0;
    case APIR_MSG_GRAPH_EXEC:
        return may_compute(&worker.slots[msg->u.graph_exec.slot]);
    default:
        return true;
    }
}

/* ---- steps ----------------------------------------------------------------------- */

/* As the worker's main loop does it. False: the context has ended. */
static bool serve(void)
{
    size_t size = 0;
    struct apir_msg msg;
    const char *why = NULL;
    int rc;
    while ((rc = apir_ring_host_take(&worker.ring, worker.message, sizeof(worker.message),
                                     &size)) == 0) {
        if (apir_msg_decode(worker.message, size, worker.state, &msg, &why) < 0)
            break;
        cage_armed = true;
        why = setjmp(cage) ? "assert" : worker_dispatch(&worker, &msg);
        cage_armed = false;
        worker_blobs_reap(&worker);
        if (worker.control_err)
            return false;
        if (why)
            break;
        apir_ring_host_done(&worker.ring);
        apir_ring_host_show(&worker.ring);
    }
    FUZZ_CHECK(rc || (why && *why));
    return rc == -EAGAIN;
}

/* False: it cannot be encoded (ranges of fields are messages_fuzz'). */
static bool message_put(const struct apir_msg *msg)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    int64_t size = apir_msg_encode(msg, buf, sizeof(buf));
    if (size < 0)
        return false;
    apir_ring_guest_put(&ring, buf, (size_t)size);
    apir_ring_guest_publish(&ring);
    return true;
}

static bool message_step(enum apir_msg_code code)
{
    static uint8_t tail[APIR_INLINE_MAX];
    struct apir_msg msg = {.code = code, .tail = code == APIR_MSG_SET_INLINE ? tail : NULL};
    message_walk(&msg, field_draw, &msg);
    if (world_take(1) < 0xfa)
        message_fit(&msg);
    if (!payload_fill(&msg))
        return true;
    if (msg.tail)
        memset(tail, (int)world_take(1), sizeof(tail));
    return !message_put(&msg) || serve();
}

/* The guest writes to any memory that it has ever mapped, but for the ring. */
static void scribble_step(void)
{
    unsigned which = (unsigned)world_take(1);
    uint64_t at = world_take(3), value = world_take(4);
    size_t n = 1 + (size_t)world_take(1) % 64;
    if (n_guest < 2)
        return;
    which = 1 + which % (n_guest - 1);
    for (size_t i = 0; i < n; i++)
        guest[which].map[(at + i) % guest[which].size] = (uint8_t)(value >> i % 4 * 8);
}

static bool step(void)
{
    /* What there must be many of, beside one of each. */
    static const uint8_t often[] = {
        APIR_MSG_GRAPH_DEF,  APIR_MSG_GRAPH_DEF,    APIR_MSG_GRAPH_EXEC,   APIR_MSG_GRAPH_EXEC,
        APIR_MSG_GRAPH_EXEC, APIR_MSG_BUFFER_ALLOC, APIR_MSG_BUFFER_ALLOC,
    };
    unsigned kind = (unsigned)world_take(1);
    if (kind < 0x20) {
        world_blob_step();
        return true;
    }
    if (kind < 0x30) {
        scribble_step();
        return true;
    }
    if (kind < 0x80)
        return message_step(often[kind % sizeof(often)]);
    return message_step(message_table[kind % MESSAGE_ROWS].code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!worker.ggml.fns)
        world_load();
    for (uint32_t i = 0; i < APIR_SLOTS_MAX; i++)
        graphs[i].g.n_tensors = 0;
    world_in = (struct fuzz_input){data, size};
    /* Mostly there is what every guest has: streams, buffers, an arena. */
    uint8_t start = (uint8_t)world_take(1);
    bool goes_on = true;
    world_open(start & 2);
    if (start & 1) {
        const struct apir_msg first[] = {
            {.code = APIR_MSG_HELLO,
             .u.hello = {.magic = APIR_HELLO_MAGIC, .major = APIR_PROTOCOL_MAJOR}},
            {.code = APIR_MSG_STREAM_OPEN, .u.stream_open = {.stream = 1, .status = 1024}},
            {.code = APIR_MSG_BUFFER_ALLOC, .u.buffer_alloc = {.buffer = 1, .size = 65536}},
            {.code = APIR_MSG_BUFFER_ALLOC, .u.buffer_alloc = {.buffer = 2, .size = 200000}},
            {.code = APIR_MSG_STREAM_OPEN,
             .u.stream_open = {.stream = 2, .device = QUEUED, .status = 2048}},
            {.code = APIR_MSG_BUFFER_ALLOC,
             .u.buffer_alloc = {.device = QUEUED, .buffer = 3, .size = 150000}},
        };
        world_blob_add(1, 4 * APIR_SHM_ALIGN);
        for (size_t i = 0; i < sizeof(first) / sizeof(first[0]) && goes_on; i++) {
            FUZZ_CHECK(message_put(&first[i]));
            goes_on = serve();
        }
        FUZZ_CHECK(worker.control_err || (goes_on && worker_control_drain(&worker) == 0));
    }
    for (unsigned i = 0; i < STEPS && world_in.left && goes_on; i++) {
        goes_on = step();
        if (goes_on)
            world_check_slots();
        if (goes_on)
            world_check_books();
    }
    world_close();
    return 0;
}
