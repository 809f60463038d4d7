/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built apir-worker below the built server, with this test as a guest that writes to the
 * ring what no plug-in would. Whatever comes: the context goes on, or becomes FATAL with a
 * reason. A worker that dies by a signal or a sanitizer makes it LOST, and fails the test.
 * Run for the CPU, and for lavapipe where Vulkan's loader knows it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/atomic.h"
#include "protocol/messages.h"
#include "protocol/ring.h"
#include "tests/unit/graph_write.h"
#include "tests/unit/server_fixture.h"

#define LAVAPIPE  "/usr/share/vulkan/icd.d/lvp_icd.json"
#define SMALL     65536u
#define ARENA     (1u << 20)
#define WAIT_MS   15000
#define STREAM    1u
#define PAGE      4096u
#define ENDLESS   20000
/* ASan keeps for a while what was freed. Without a bound it is a hundred times as much. */
#if defined(__SANITIZE_ADDRESS__) || (defined(__has_feature) && __has_feature(address_sanitizer))
#define GROWTH_KIB 32768
#else
#define GROWTH_KIB 4096
#endif

static const char *devices = "\"CPU\"";

struct guest {
    struct fixture f;
    struct fixture_context c;
    struct apir_ring_guest ring;
    uint8_t *ring_map;
    uint8_t *blobs[APIR_BLOBS_MAX];
    uint64_t sizes[APIR_BLOBS_MAX];
    uint32_t resources[APIR_BLOBS_MAX];
    uint32_t next_resource;
    uint32_t next_reply;
};

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- a guest ------------------------------------------------------------------------ */

static uint32_t guest_state(const struct guest *g)
{
    return apir_load_acquire32(&g->ring.header->state);
}

static void guest_flush(struct guest *g)
{
    if (apir_ring_guest_publish(&g->ring))
        fixture_doorbell(&g->c, APIR_DOORBELL_KICK, 0, 0);
}

/* Until all of it is done, or the context has ended. False: that. */
static bool guest_run(struct guest *g)
{
    guest_flush(g);
    int64_t end = now_ms() + WAIT_MS;
    while (apir_load_acquire64(&g->ring.header->head) != g->ring.tail) {
        uint32_t state = guest_state(g);
        if (state == APIR_STATE_FATAL || state == APIR_STATE_LOST)
            return false;
        if (now_ms() > end)
            fail_msg("the worker hangs");
        usleep(100);
    }
    return true;
}

static void guest_put(struct guest *g, const struct apir_msg *msg)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    int64_t size = apir_msg_encode(msg, buf, sizeof(buf));
    assert_true(size > 0);
    while (!apir_ring_guest_has_room(&g->ring, (size_t)size))
        assert_true(guest_run(g));
    apir_ring_guest_put(&g->ring, buf, (size_t)size);
}

/* The same with one 32-bit field set to what the encoder would refuse. */
static void guest_put_raw(struct guest *g, const struct apir_msg *msg, size_t field, uint32_t value)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    int64_t size = apir_msg_encode(msg, buf, sizeof(buf));
    assert_true(size > 0);
    memcpy(buf + sizeof(struct apir_msg_header) + field, &value, sizeof(value));
    apir_ring_guest_put(&g->ring, buf, (size_t)size);
}

static const void *reply_at(const struct guest *g, uint32_t offset)
{
    return g->ring_map + APIR_RING_HEADER_SIZE + offset;
}

static uint32_t reply_new(struct guest *g)
{
    uint32_t at = 4096 + (g->next_reply++ % 64) * APIR_REPLY_SIZE;
    memset(g->ring_map + APIR_RING_HEADER_SIZE + at, 0xff, APIR_REPLY_SIZE);
    return at;
}

static void blob_new(struct guest *g, uint32_t id, uint64_t size)
{
    g->resources[id] = g->next_resource++;
    int fd = fixture_create_blob(&g->c, g->resources[id], id, size);
    assert_true(fd >= 0);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    close(fd);
    g->blobs[id] = map;
    g->sizes[id] = size;
}

static void blob_destroy(struct guest *g, uint32_t id)
{
    munmap(g->blobs[id], g->sizes[id]);
    g->blobs[id] = NULL;
    fixture_destroy_resource(&g->c, g->resources[id]);
}

static void guest_open(struct guest *g)
{
    char config[512];
    *g = (struct guest){ .next_resource = 10 };
    snprintf(config, sizeof(config),
             "\"worker\": \"%s\", \"stock_server\": false, \"threads\": 1, \"devices\": [%s]",
             fixture_program("backend/apir-worker"), devices);
    fixture_start(&g->f, config, NULL);
    fixture_open(&g->f, &g->c, 1);
    int fd = fixture_create_blob(&g->c, 1, APIR_RING_BLOB_ID, APIR_RING_SIZE);
    assert_true(fd >= 0);
    g->ring_map = mmap(NULL, APIR_RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(g->ring_map != MAP_FAILED);
    close(fd);
    assert_int_equal(apir_ring_guest_init(&g->ring, g->ring_map, APIR_RING_SIZE), 0);
    blob_new(g, 1, ARENA);
    struct apir_msg hello = { .code = APIR_MSG_HELLO,
                              .u.hello = { .magic = APIR_HELLO_MAGIC,
                                           .major = APIR_PROTOCOL_MAJOR,
                                           .reply = reply_new(g) } };
    guest_put(g, &hello);
    if (!guest_run(g))
        fail_msg("no worker: %s", g->ring.header->reason);
    const struct apir_reply_hello *r = reply_at(g, hello.u.hello.reply);
    assert_int_equal(r->status, APIR_OK);
    assert_true(r->n_devices >= 1);
}

static void guest_close(struct guest *g)
{
    for (uint32_t i = 0; i < APIR_BLOBS_MAX; i++) {
        if (g->blobs[i])
            munmap(g->blobs[i], g->sizes[i]);
    }
    munmap(g->ring_map, APIR_RING_SIZE);
    fixture_close(&g->c);
    fixture_stop(&g->f);
}

/* Everything so far was refused politely or done, and the worker is in its right mind. */
static void expect_fine(struct guest *g)
{
    struct apir_msg m = { .code = APIR_MSG_DEVICE_MEMORY,
                          .u.device_memory = { .reply = reply_new(g) } };
    guest_put(g, &m);
    if (!guest_run(g))
        fail_msg("the context ended (state %u): %s", guest_state(g), g->ring.header->reason);
    const struct apir_reply_device_memory *r = reply_at(g, m.u.device_memory.reply);
    assert_int_equal(r->status, APIR_OK);
}

static void expect_fatal(struct guest *g, const char *reason)
{
    bool alive = guest_run(g);
    if (alive || guest_state(g) != APIR_STATE_FATAL)
        fail_msg("not FATAL (state %u): %s", guest_state(g), g->ring.header->reason);
    if (!strstr(g->ring.header->reason, reason))
        fail_msg("the reason is: %s, not: %s", g->ring.header->reason, reason);
}

/* ---- messages -------------------------------------------------------------------------- */

static void buffer_new_on(struct guest *g, uint32_t device, uint32_t id, uint64_t size)
{
    struct apir_msg m = { .code = APIR_MSG_BUFFER_ALLOC,
                          .u.buffer_alloc = { .device = device, .buffer = id, .size = size,
                                              .reply = reply_new(g) } };
    guest_put(g, &m);
    if (!guest_run(g))
        fail_msg("no buffer: %s", g->ring.header->reason);
    const struct apir_reply_status *r = reply_at(g, m.u.buffer_alloc.reply);
    assert_int_equal(r->status, APIR_OK);
}

static void buffer_new(struct guest *g, uint32_t id, uint64_t size)
{
    buffer_new_on(g, 0, id, size);
}

static void buffer_free(struct guest *g, uint32_t id)
{
    guest_put(g, &(struct apir_msg){ .code = APIR_MSG_BUFFER_FREE, .u.buffer_free = { id } });
}

static void stream_new(struct guest *g, uint32_t id, uint32_t device)
{
    struct apir_msg m = { .code = APIR_MSG_STREAM_OPEN,
                          .u.stream_open = { .stream = id, .device = device,
                                             .status = (id - 1) * APIR_REPLY_ALIGN,
                                             .reply = reply_new(g) } };
    guest_put(g, &m);
    if (!guest_run(g))
        fail_msg("no stream: %s", g->ring.header->reason);
    const struct apir_reply_stream *r = reply_at(g, m.u.stream_open.reply);
    assert_int_equal(r->status, APIR_OK);
}

static void put_stream(struct guest *g, enum apir_msg_code code, uint32_t id)
{
    struct apir_msg m = { .code = code };
    m.u.stream_sync.stream = id; /* CLOSE has the same single field */
    guest_put(g, &m);
}

static void put_event(struct guest *g, enum apir_msg_code code, uint32_t event, uint32_t stream)
{
    struct apir_msg m = { .code = code };
    m.u.event_record.event = event;
    if (code == APIR_MSG_EVENT_RECORD || code == APIR_MSG_EVENT_WAIT)
        m.u.event_record.stream = stream;
    guest_put(g, &m);
}

static void put_transfer(struct guest *g, enum apir_msg_code code, uint32_t stream, uint32_t buffer,
                         uint64_t offset, uint64_t size, uint32_t blob, uint64_t blob_offset)
{
    struct apir_msg m = { .code = code };
    m.u.set = (struct apir_msg_set){ .stream = stream, .buffer = buffer, .offset = offset,
                                     .size = size, .blob = blob, .blob_offset = blob_offset };
    guest_put(g, &m);
}

static void put_register(struct guest *g, uint32_t blob, uint32_t device)
{
    guest_put(g, &(struct apir_msg){ .code = APIR_MSG_BLOB_REGISTER,
                                     .u.blob_register = { blob, device, reply_new(g) } });
}

/* Whether the device takes the blob itself. */
static bool blob_register(struct guest *g, uint32_t blob, uint32_t device)
{
    struct apir_msg m = { .code = APIR_MSG_BLOB_REGISTER,
                          .u.blob_register = { blob, device, reply_new(g) } };
    guest_put(g, &m);
    if (!guest_run(g))
        fail_msg("register: %s", g->ring.header->reason);
    const struct apir_reply_blob *r = reply_at(g, m.u.blob_register.reply);
    assert_int_equal(r->status, APIR_OK);
    return r->flags & APIR_BLOB_DIRECT;
}

static void put_forget(struct guest *g, uint32_t blob)
{
    guest_put(g, &(struct apir_msg){ .code = APIR_MSG_BLOB_FORGET, .u.blob_forget = { blob } });
}

static void put_share(struct guest *g, uint32_t buffer, uint32_t blob)
{
    guest_put(g, &(struct apir_msg){ .code = APIR_MSG_BUFFER_SHARE,
                                     .u.buffer_share = { buffer, blob, reply_new(g) } });
}

static uint32_t share(struct guest *g, uint32_t buffer, uint32_t blob)
{
    struct apir_msg m = { .code = APIR_MSG_BUFFER_SHARE,
                          .u.buffer_share = { buffer, blob, reply_new(g) } };
    guest_put(g, &m);
    if (!guest_run(g))
        fail_msg("share: %s", g->ring.header->reason);
    const struct apir_reply_status *r = reply_at(g, m.u.buffer_share.reply);
    return r->status;
}

static bool is_cpu(void)
{
    return strcmp(devices, "\"CPU\"") == 0;
}

/* What the buffer holds is `value`, as read through the arena. */
static void check_bytes(struct guest *g, uint32_t buffer, uint64_t offset, uint64_t size,
                        uint8_t value)
{
    assert_true(guest_run(g)); /* what is under way may read from there */
    memset(g->blobs[1], (uint8_t)~value, size);
    put_transfer(g, APIR_MSG_GET, 0, buffer, offset, size, 1, 0);
    if (!guest_run(g))
        fail_msg("get: %s", g->ring.header->reason);
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(g->blobs[1][i], value);
}

/* ---- graphs ------------------------------------------------------------------------------ */

enum { T_TABLE, T_IDS, T_BESIDE, T_ROWS, T_SQUARE, T_COUNT };
enum { WIDTH = 4, ROWS = 64 };

static struct apir_tensor tensor_at(uint8_t bits, uint16_t op, uint8_t type, uint64_t offset,
                                    int64_t ne0, int64_t ne1, uint64_t size)
{
    struct apir_tensor t = sample_tensor((uint8_t)(bits | APIR_TENSOR_BUFFER), op);
    t.type = type;
    t.offset = offset;
    t.ne[0] = ne0;
    t.ne[1] = ne1;
    t.ne[2] = t.ne[3] = 1;
    t.nb[0] = size;
    t.nb[1] = size * (uint64_t)ne0;
    t.nb[2] = t.nb[3] = t.nb[1] * (uint64_t)ne1;
    return t;
}

/*
 * Rows of a table at offset 0 of the buffer, picked by `picks` row numbers at ids_at, to
 * rows_at of the results' buffer; and the square of the floats beside_at, which may lie on the
 * row numbers.
 */
static void put_lookup(struct guest *g, uint32_t slot, uint32_t buffer, uint32_t results,
                       uint64_t ids_at, int64_t picks, uint64_t beside_at)
{
    static struct apir_name names[] = { { APIR_NAME_OP, "GET_ROWS" }, { APIR_NAME_OP, "SQR" } };
    struct apir_graph_buffer buffers[] = { { buffer, 1 }, { results, 2 } };
    struct apir_tensor t[T_COUNT];
    t[T_TABLE] = tensor_at(0, APIR_NO_NAME, 0, 0, WIDTH, ROWS, 4);
    t[T_IDS] = tensor_at(0, APIR_NO_NAME, 26, ids_at, picks, 1, 4);
    t[T_BESIDE] = tensor_at(0, APIR_NO_NAME, 0, beside_at, 4, 1, 4);
    t[T_ROWS] = tensor_at(APIR_TENSOR_NODE, 0, 0, 0, WIDTH, picks, 4);
    t[T_ROWS].buffer = 1;
    t[T_ROWS].n_src = 2;
    t[T_ROWS].src[0] = T_TABLE;
    t[T_ROWS].src[1] = T_IDS;
    t[T_SQUARE] = tensor_at(APIR_TENSOR_NODE, 1, 0, 32768, 4, 1, 4);
    t[T_SQUARE].buffer = 1;
    t[T_SQUARE].n_src = 1;
    t[T_SQUARE].src[0] = T_BESIDE;
    const struct apir_graph graph = {
        .n_names = 2, .n_buffers = 2, .n_tensors = T_COUNT, .n_nodes = 2,
        .names = names, .buffers = buffers, .tensors = t,
    };
    size_t size = graph_write(&graph, g->blobs[1] + ARENA / 2, ARENA / 2);
    assert_true(size > 0);
    guest_put(g, &(struct apir_msg){ .code = APIR_MSG_GRAPH_DEF,
                                     .u.graph_def = { .slot = slot, .stream = STREAM, .blob = 1,
                                                      .blob_offset = ARENA / 2, .size = size } });
}

static void put_exec(struct guest *g, uint32_t slot)
{
    guest_put(g, &(struct apir_msg){ .code = APIR_MSG_GRAPH_EXEC,
                                     .u.graph_exec = { .slot = slot, .stream = STREAM } });
}

static void put_drop(struct guest *g, uint32_t slot)
{
    guest_put(g, &(struct apir_msg){ .code = APIR_MSG_GRAPH_DROP, .u.graph_drop = { slot } });
}

/* Row i of the table holds i; the row numbers count down from ROWS - 1. */
static void lookup_fill(uint8_t *memory, uint64_t ids_at, int64_t picks)
{
    for (int i = 0; i < WIDTH * ROWS; i++) {
        float v = (float)(i / WIDTH);
        memcpy(memory + i * 4, &v, sizeof(v));
    }
    for (int64_t i = 0; i < picks; i++) {
        int32_t id = (int32_t)(ROWS - 1 - i);
        memcpy(memory + ids_at + i * 4, &id, sizeof(id));
    }
}

static void lookup_check(struct guest *g, uint32_t results, int64_t picks)
{
    put_transfer(g, APIR_MSG_GET, STREAM, results, 0, (uint64_t)picks * WIDTH * 4, 1, 0);
    if (!guest_run(g))
        fail_msg("after a lookup: %s", g->ring.header->reason);
    for (int64_t i = 0; i < picks * WIDTH; i++) {
        float v;
        memcpy(&v, g->blobs[1] + i * 4, sizeof(v));
        if (v != (float)(ROWS - 1 - i / WIDTH))
            fail_msg("value %d is %f", (int)i, (double)v);
    }
}

/* ---- REGISTER and FORGET --------------------------------------------------------------- */

static void register_refuses_what_is_no_blob(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    put_register(&g, 5, 0);
    expect_fatal(&g, "blob does not exist");
    guest_close(&g);

    guest_open(&g);
    guest_put_raw(&g, &(struct apir_msg){ .code = APIR_MSG_BLOB_REGISTER,
                                          .u.blob_register = { 1, 0, 4096 } },
                  0, APIR_RING_BLOB_ID);
    expect_fatal(&g, "blob out of range");
    guest_close(&g);

    guest_open(&g);
    guest_put_raw(&g, &(struct apir_msg){ .code = APIR_MSG_BLOB_REGISTER,
                                          .u.blob_register = { 1, 0, 4096 } },
                  0, APIR_BLOBS_MAX);
    expect_fatal(&g, "blob out of range");
    guest_close(&g);

    guest_open(&g);
    put_register(&g, 1, APIR_DEVICES_MAX - 1);
    expect_fatal(&g, "device does not exist");
    guest_close(&g);

    guest_open(&g);
    guest_put(&g, &(struct apir_msg){ .code = APIR_MSG_BLOB_REGISTER,
                                      .u.blob_register = { 1, 0, APIR_RING_SIZE } });
    expect_fatal(&g, "reply outside");
    guest_close(&g);
}

static void register_twice_is_refused_where_it_means_something(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    blob_new(&g, 2, SMALL);
    bool direct = blob_register(&g, 2, 0);
    put_register(&g, 2, 0);
    if (direct)
        expect_fatal(&g, "registered already");
    else
        expect_fine(&g);
    guest_close(&g);
}

static void forgotten_blob_is_gone(void **state)
{
    (void)state;
    for (int how = 0; how < 5; how++) {
        struct guest g;
        guest_open(&g);
        buffer_new(&g, 1, SMALL);
        blob_new(&g, 2, SMALL);
        blob_register(&g, 2, 0);
        put_forget(&g, 2);
        if (how == 0)
            put_forget(&g, 2);
        else if (how == 1)
            put_register(&g, 2, 0);
        else if (how == 2)
            put_transfer(&g, APIR_MSG_SET, 0, 1, 0, 100, 2, 0);
        else if (how == 3)
            put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 100, 2, 0);
        else
            put_share(&g, 1, 2);
        expect_fatal(&g, how == 2 || how == 3 ? "region outside its blob" : "blob does not exist");
        guest_close(&g);
    }
    /* The arena is a blob like any other. */
    struct guest g;
    guest_open(&g);
    buffer_new(&g, 1, SMALL);
    put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 100, 1, 0);
    put_forget(&g, 1);
    expect_fine(&g);
    put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 100, 1, 0);
    expect_fatal(&g, "region outside its blob");
    guest_close(&g);
}

/* Transfers are queued, and what they name is taken away behind them. */
static void blob_taken_away_under_transfers(void **state)
{
    (void)state;
    struct guest g;
    enum { N = 16, PART = 262144 };
    guest_open(&g);
    stream_new(&g, STREAM, 0);
    buffer_new(&g, 1, (uint64_t)N * PART);
    for (int round = 0; round < 12; round++) {
        uint8_t value = (uint8_t)(round + 1);
        /* An id may come back only where FORGET was said. */
        uint32_t id = 2 + (uint32_t)round;
        blob_new(&g, id, (uint64_t)N * PART);
        blob_register(&g, id, 0);
        memset(g.blobs[id], value, (uint64_t)N * PART);
        for (uint64_t i = 0; i < N; i++)
            put_transfer(&g, APIR_MSG_SET, STREAM, 1, i * PART, PART, id, i * PART);
        if (round % 4 == 1) {
            /* and an event behind it, unsynchronized */
            put_event(&g, APIR_MSG_EVENT_RECORD, 7, STREAM);
        }
        if (round % 3 != 2) {
            put_forget(&g, id);
            expect_fine(&g);
        } else {
            guest_run(&g);
        }
        /* Without FORGET: the server takes it away from the worker. */
        blob_destroy(&g, id);
        put_stream(&g, APIR_MSG_STREAM_SYNC, STREAM);
        check_bytes(&g, 1, 0, PART, value);
        check_bytes(&g, 1, (uint64_t)(N - 1) * PART, PART, value);
    }
    /* Read into memory that is given up at once. */
    for (int round = 0; round < 6; round++) {
        uint32_t id = 20 + (uint32_t)round;
        blob_new(&g, id, (uint64_t)N * PART);
        blob_register(&g, id, 0);
        for (uint64_t i = 0; i < N; i++)
            put_transfer(&g, APIR_MSG_GET, STREAM, 1, i * PART, PART, id, i * PART);
        guest_flush(&g);
        if (round % 2)
            put_forget(&g, id);
        else
            blob_destroy(&g, id); /* while they run, or have not begun */
        if (round % 2 == 0 && !guest_run(&g)) {
            expect_fatal(&g, "region outside its blob");
            guest_close(&g);
            return;
        }
        expect_fine(&g);
        if (round % 2)
            blob_destroy(&g, id);
    }
    guest_close(&g);
}

struct punch {
    void *map;
    size_t size;
    uint32_t stop;
};

/* Takes the pages away, over and over; the worker's map of them stays, and reads zeros. */
static void *punch(void *arg)
{
    struct punch *p = arg;
    while (!apir_load_acquire32(&p->stop)) {
        if (madvise(p->map, p->size, MADV_REMOVE) < 0)
            return (void *)1;
    }
    return NULL;
}

/* Memory cannot be cut off (it is sealed), but a hole can be made into it at any moment. */
static void memory_punched_under_transfers(void **state)
{
    (void)state;
    enum { N = 16, PART = ARENA / N };
    for (int with_ring = 0; with_ring < 2; with_ring++) {
        struct guest g;
        guest_open(&g);
        stream_new(&g, STREAM, 0);
        buffer_new(&g, 1, ARENA);
        /* The ring's commands, or the arena: what the worker reads, and what it writes. */
        struct punch p = { .map = with_ring ? g.ring_map : g.blobs[1],
                           .size = with_ring ? APIR_RING_SIZE : ARENA };
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, punch, &p), 0);
        for (int round = 0; round < 60; round++) {
            /* The head on the ring says nothing now, so there is nothing to wait for. */
            for (uint64_t i = 0; i < N && with_ring; i++) {
                uint8_t buf[APIR_MESSAGE_MAX];
                const struct apir_msg m = {
                    .code = APIR_MSG_STREAM_SYNC, .u.stream_sync = { STREAM } };
                int64_t size = apir_msg_encode(&m, buf, sizeof(buf));
                assert_true(size > 0);
                apir_ring_guest_put(&g.ring, buf, (size_t)size);
            }
            for (uint64_t i = 0; i < N && !with_ring; i++)
                put_transfer(&g, i % 2 ? APIR_MSG_GET : APIR_MSG_SET, STREAM, 1, i * PART, PART, 1,
                             i * PART);
            guest_flush(&g);
            assert_true(with_ring || guest_run(&g));
        }
        apir_store_release32(&p.stop, 1);
        void *failed = NULL;
        pthread_join(thread, &failed);
        assert_null(failed);
        if (!with_ring) {
            expect_fine(&g);
        } else if (guest_state(&g) == APIR_STATE_LOST) {
            /* FATAL may have been punched away with its reason; but no signal ended it. */
            assert_null(strstr(g.ring.header->reason, "signal"));
        }
        guest_close(&g);
    }
}

/* The blob and its successor of the same id; the worker is told of both between two messages. */
static void blob_ids_are_reused(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    buffer_new(&g, 1, SMALL);
    for (int round = 0; round < 60; round++) {
        uint8_t value = (uint8_t)round;
        blob_new(&g, 2, SMALL);
        if (round % 2)
            blob_register(&g, 2, 0);
        memset(g.blobs[2], value, SMALL);
        put_transfer(&g, APIR_MSG_SET, 0, 1, 0, SMALL, 2, 0);
        put_forget(&g, 2);
        check_bytes(&g, 1, 0, 64, value);
        blob_destroy(&g, 2);
    }
    expect_fine(&g);
    guest_close(&g);
}

static void all_blobs_at_once(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    buffer_new(&g, 1, (uint64_t)SMALL * APIR_BLOBS_MAX);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 2; i < APIR_BLOBS_MAX; i++) {
            /* In another order each time. */
            uint32_t id = round % 2 ? APIR_BLOBS_MAX + 1 - i : i;
            blob_new(&g, id, SMALL);
            memset(g.blobs[id], (int)id + round, SMALL);
            put_transfer(&g, APIR_MSG_SET, 0, 1, (uint64_t)id * SMALL, SMALL, id, 0);
        }
        assert_int_equal(fixture_create_blob(&g.c, 9999, 5, SMALL), -1);
        assert_int_equal(fixture_create_blob(&g.c, 9999, APIR_BLOBS_MAX, SMALL), -1);
        expect_fine(&g);
        for (uint32_t id = 2; id < APIR_BLOBS_MAX; id++) {
            check_bytes(&g, 1, (uint64_t)id * SMALL, 64, (uint8_t)(id + (uint32_t)round));
            put_forget(&g, id);
        }
        expect_fine(&g);
        for (uint32_t id = 2; id < APIR_BLOBS_MAX; id++)
            blob_destroy(&g, id);
    }
    guest_close(&g);
}

/* ---- SHARE ---------------------------------------------------------------------------------- */

static void share_refuses_politely(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    stream_new(&g, STREAM, 0);
    buffer_new(&g, 1, 2 * SMALL);
    buffer_new(&g, 2, SMALL);
    blob_new(&g, 2, SMALL);
    blob_new(&g, 3, 4 * SMALL);
    blob_new(&g, 4, 2 * SMALL);
    blob_new(&g, 5, 2 * SMALL);
    const uint32_t ok = is_cpu() ? APIR_OK : APIR_E_UNSUPPORTED;
    memset(g.blobs[1], 0x21, SMALL);
    put_transfer(&g, APIR_MSG_SET, 0, 1, 0, SMALL, 1, 0);
    /* Too small. */
    assert_int_equal(share(&g, 1, 2), APIR_E_UNSUPPORTED);
    check_bytes(&g, 1, 0, 64, 0x21);
    /* Larger: it would take more than what the buffer is in the books with. */
    assert_int_equal(share(&g, 1, 3), APIR_E_UNSUPPORTED);
    check_bytes(&g, 1, 0, 64, 0x21);
    /* Registered as what it is not: allowed where nothing came of that. */
    blob_register(&g, 5, 0);
    memset(g.blobs[5], 0x43, 2 * SMALL);
    assert_int_equal(share(&g, 1, 5), ok);
    if (!is_cpu()) {
        guest_close(&g);
        return;
    }
    check_bytes(&g, 1, 2 * SMALL - 64, 64, 0x43);
    /* A second time. */
    assert_int_equal(share(&g, 1, 4), APIR_E_UNSUPPORTED);
    /* Its memory is a buffer's now. */
    put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 2 * SMALL + 1, 4, 0);
    expect_fatal(&g, "range outside its buffer");
    guest_close(&g);
}

static void share_refuses_what_is_not_there(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    buffer_new(&g, 1, SMALL);
    put_share(&g, 1, 9);
    expect_fatal(&g, "blob does not exist");
    guest_close(&g);

    guest_open(&g);
    put_share(&g, 1, 1);
    expect_fatal(&g, "buffer does not exist");
    guest_close(&g);

    guest_open(&g);
    buffer_new(&g, 1, SMALL);
    buffer_free(&g, 1);
    put_share(&g, 1, 1);
    expect_fatal(&g, "buffer does not exist");
    guest_close(&g);
    if (!is_cpu())
        return;

    /* A blob that is another buffer's. */
    guest_open(&g);
    buffer_new(&g, 1, SMALL);
    buffer_new(&g, 2, SMALL);
    blob_new(&g, 2, SMALL);
    assert_int_equal(share(&g, 1, 2), APIR_OK);
    put_share(&g, 2, 2);
    expect_fatal(&g, "blob does not exist");
    guest_close(&g);

    guest_open(&g);
    buffer_new(&g, 1, SMALL);
    blob_new(&g, 2, SMALL);
    assert_int_equal(share(&g, 1, 2), APIR_OK);
    put_transfer(&g, APIR_MSG_SET, 0, 1, 0, 64, 2, 0);
    expect_fatal(&g, "region outside its blob");
    guest_close(&g);

    /* The arena itself. */
    guest_open(&g);
    buffer_new(&g, 1, ARENA);
    assert_int_equal(share(&g, 1, 1), APIR_OK);
    buffer_free(&g, 1);
    put_transfer(&g, APIR_MSG_GET, 0, 1, 0, 64, 1, 0);
    expect_fatal(&g, "buffer does not exist");
    guest_close(&g);
}

/* The buffer, its blob's resource and graphs that use it end in every order. */
static void shared_buffer_lives_and_dies(void **state)
{
    (void)state;
    struct guest g;
    if (!is_cpu())
        return;
    guest_open(&g);
    stream_new(&g, STREAM, 0);
    buffer_new(&g, 9, SMALL);
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t id = (i + 1) * APIR_BUFFERS_MAX + 5; /* one index, many generations */
        buffer_new(&g, id, SMALL);
        blob_new(&g, 2, SMALL);
        lookup_fill(g.blobs[2], 8192, 8);
        assert_int_equal(share(&g, id, 2), APIR_OK);
        if (i % 2)
            blob_destroy(&g, 2);
        put_lookup(&g, 3, id, 9, 8192, 8, 4096);
        put_exec(&g, 3);
        lookup_check(&g, 9, 8);
        if (i % 3 == 0)
            put_drop(&g, 3);
        if (i % 4 < 2)
            buffer_free(&g, id);
        expect_fine(&g);
        if (g.blobs[2])
            blob_destroy(&g, 2);
        if (i % 4 >= 2) {
            if (i % 3) {
                put_exec(&g, 3);
                lookup_check(&g, 9, 8);
            }
            buffer_free(&g, id);
        }
        /* Another blob of that id, and another buffer. */
        blob_new(&g, 2, SMALL);
        expect_fine(&g);
        put_forget(&g, 2);
        expect_fine(&g);
        blob_destroy(&g, 2);
    }
    put_exec(&g, 3);
    expect_fatal(&g, "graph slot is not defined");
    guest_close(&g);
}

/* Contents that a graph or a set has put there are not thrown away. */
static void share_of_a_buffer_in_use_is_refused(void **state)
{
    (void)state;
    struct guest g;
    if (!is_cpu())
        return;
    guest_open(&g);
    stream_new(&g, STREAM, 0);
    buffer_new(&g, 1, SMALL);
    buffer_new(&g, 2, SMALL);
    blob_new(&g, 2, SMALL);
    memset(g.blobs[1], 0, SMALL);
    lookup_fill(g.blobs[1], 8192, 4);
    put_transfer(&g, APIR_MSG_SET, 0, 1, 0, SMALL, 1, 0);
    put_lookup(&g, 0, 1, 2, 8192, 4, 0);
    assert_int_equal(share(&g, 1, 2), APIR_E_UNSUPPORTED);
    assert_int_equal(share(&g, 2, 2), APIR_E_UNSUPPORTED);
    put_exec(&g, 0);
    lookup_check(&g, 2, 4);
    put_drop(&g, 0);
    assert_int_equal(share(&g, 2, 2), APIR_E_UNSUPPORTED);
    lookup_check(&g, 2, 4);
    expect_fine(&g);
    guest_close(&g);
}

/* Row numbers at the very end of a buffer, whose end is no page's; and the guest changes them
 * once they have been checked. */
static void integers_are_out_of_reach(void **state)
{
    (void)state;
    static const uint64_t sizes[] = { SMALL, SMALL - 4, SMALL - 4096, SMALL + 36, 3 * PAGE + 100 };
    if (!is_cpu())
        return;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct guest g;
        guest_open(&g);
        stream_new(&g, STREAM, 0);
        buffer_new(&g, 1, sizes[i]);
        buffer_new(&g, 2, SMALL);
        uint64_t blob_size = (sizes[i] + SMALL - 1) / SMALL * SMALL;
        blob_new(&g, 2, blob_size);
        uint64_t at = sizes[i] - 8 * 4;
        lookup_fill(g.blobs[2], at, 8);
        assert_int_equal(share(&g, 1, 2), APIR_OK);
        /* Floats on the same bytes as the row numbers. */
        put_lookup(&g, 0, 1, 2, at, 8, at & ~(uint64_t)15);
        assert_true(guest_run(&g));
        for (uint64_t k = at; k < at + 32; k++)
            g.blobs[2][k] = 0x7f;
        put_exec(&g, 0);
        lookup_check(&g, 2, 8);
        /* Another graph with the same tensor, and a third one beside it: still the same. */
        put_lookup(&g, 1, 1, 2, at, 8, 4096);
        put_lookup(&g, 2, 1, 2, at, 4, 4096);
        put_exec(&g, 1);
        lookup_check(&g, 2, 8);
        put_exec(&g, 2);
        lookup_check(&g, 2, 4);
        /* By message it can be changed. */
        int32_t id = ROWS - 1;
        struct apir_msg m = { .code = APIR_MSG_SET_INLINE, .tail = (const uint8_t *)&id,
                              .u.set_inline = { .stream = STREAM, .buffer = 1, .offset = at,
                                                .size = 4 } };
        guest_put(&g, &m);
        put_exec(&g, 0);
        lookup_check(&g, 2, 8);
        /* One byte too far. */
        put_lookup(&g, 3, 1, 2, at + 1, 8, 0);
        expect_fatal(&g, "data outside its buffer");
        guest_close(&g);
    }
}

/* The same graph defined again and again does not copy its integers every time: 2 MiB of
 * them, 6000 times, would take a quarter of a minute. */
static void integers_are_taken_once(void **state)
{
    (void)state;
    struct guest g;
    if (!is_cpu())
        return;
    /* Larger ones are shared only where the kernel has huge pages for them. */
    const uint64_t size = (2u << 20) - SMALL;
    guest_open(&g);
    stream_new(&g, STREAM, 0);
    buffer_new(&g, 1, size);
    buffer_new(&g, 2, SMALL);
    blob_new(&g, 2, size);
    assert_int_equal(share(&g, 1, 2), APIR_OK);
    lookup_fill(g.blobs[2], PAGE, 8);
    static struct apir_name names[] = { { APIR_NAME_OP, "SQR" } };
    struct apir_graph_buffer buffers[] = { { 1, 1 }, { 2, 2 } };
    struct apir_tensor t[3];
    t[0] = tensor_at(0, APIR_NO_NAME, 24, 0, (int64_t)size, 1, 1);
    t[1] = tensor_at(0, APIR_NO_NAME, 0, 0, 4, 1, 4);
    t[2] = tensor_at(APIR_TENSOR_NODE, 0, 0, 0, 4, 1, 4);
    t[2].buffer = 1;
    t[2].n_src = 1;
    t[2].src[0] = 1;
    const struct apir_graph graph = {
        .n_names = 1, .n_buffers = 2, .n_tensors = 3, .n_nodes = 1,
        .names = names, .buffers = buffers, .tensors = t,
    };
    size_t n = graph_write(&graph, g.blobs[1], ARENA);
    assert_true(n > 0);
    int64_t began = now_ms();
    for (uint32_t i = 0; i < 6000; i++) {
        guest_put(&g, &(struct apir_msg){ .code = APIR_MSG_GRAPH_DEF,
                                          .u.graph_def = { .slot = i % 3, .stream = STREAM,
                                                           .blob = 1, .size = n } });
        assert_true(guest_run(&g));
    }
    int64_t took = now_ms() - began;
    if (took > 6000)
        fail_msg("6000 definitions took %d ms", (int)took);
    expect_fine(&g);
    guest_close(&g);
}

/* ---- events ------------------------------------------------------------------------------ */

static void events_out_of_range(void **state)
{
    (void)state;
    static const enum apir_msg_code codes[] = { APIR_MSG_EVENT_RECORD, APIR_MSG_EVENT_WAIT,
                                                APIR_MSG_EVENT_SYNC, APIR_MSG_EVENT_FREE };
    struct guest g;
    for (size_t i = 0; i < 4; i++) {
        struct apir_msg m = { .code = codes[i] };
        if (i < 2)
            m.u.event_record.stream = 1;
        guest_open(&g);
        stream_new(&g, 1, 0);
        guest_put_raw(&g, &m, 0, i % 2 ? UINT32_MAX : APIR_EVENTS_MAX);
        expect_fatal(&g, "event out of range");
        guest_close(&g);
    }
    for (size_t i = 0; i < 2; i++) {
        struct apir_msg m = { .code = codes[i] };
        m.u.event_record.stream = 1;
        guest_open(&g);
        guest_put_raw(&g, &m, 4, i ? 0 : APIR_STREAMS_MAX + 1);
        expect_fatal(&g, "stream out of range");
        guest_close(&g);
        guest_open(&g);
        put_event(&g, codes[i], 3, APIR_STREAMS_MAX);
        expect_fatal(&g, "stream does not exist");
        guest_close(&g);
        guest_open(&g);
        stream_new(&g, 2, 0);
        put_stream(&g, APIR_MSG_STREAM_CLOSE, 2);
        put_event(&g, codes[i], 3, 2);
        expect_fatal(&g, "stream does not exist");
        guest_close(&g);
    }
}

/* Something for a stream to do. */
static void put_work(struct guest *g, uint32_t stream)
{
    put_transfer(g, APIR_MSG_SET, stream, 1, 0, 1u << 20, 2, 0);
}

static void events_without_a_mark_hold_nobody_up(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    stream_new(&g, 1, 0);
    for (uint32_t e = 0; e < APIR_EVENTS_MAX; e++) {
        put_event(&g, APIR_MSG_EVENT_SYNC, e, 0);
        put_event(&g, APIR_MSG_EVENT_WAIT, e, 1);
        put_event(&g, APIR_MSG_EVENT_FREE, e, 0);
        put_event(&g, APIR_MSG_EVENT_FREE, e, 0);
    }
    put_stream(&g, APIR_MSG_STREAM_SYNC, 1);
    expect_fine(&g);
    guest_close(&g);
}

static void events_outlive_their_streams(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    buffer_new(&g, 1, 2u << 20);
    blob_new(&g, 2, 2u << 20);
    blob_register(&g, 2, 0);
    stream_new(&g, 2, 0);
    for (uint32_t i = 0; i < 30; i++) {
        stream_new(&g, 1, 0);
        if (i % 2)
            put_work(&g, 1);
        put_event(&g, APIR_MSG_EVENT_RECORD, 0, 1);
        put_event(&g, APIR_MSG_EVENT_RECORD, 1, 1);
        if (i % 3 == 0)
            put_event(&g, APIR_MSG_EVENT_WAIT, 0, 2);
        put_stream(&g, APIR_MSG_STREAM_CLOSE, 1);
        put_event(&g, APIR_MSG_EVENT_SYNC, 0, 0);
        put_event(&g, APIR_MSG_EVENT_WAIT, 1, 2);
        if (i % 5 == 0)
            put_event(&g, APIR_MSG_EVENT_FREE, 0, 0);
        put_event(&g, APIR_MSG_EVENT_RECORD, 1, 2);
        put_event(&g, APIR_MSG_EVENT_SYNC, 1, 0);
        put_stream(&g, APIR_MSG_STREAM_SYNC, 2);
        expect_fine(&g);
    }
    guest_close(&g);
}

/* Marks and waits are under way in the device when the event is freed, recorded anew, or moved
 * to a stream of another device. */
static void events_freed_under_way(void **state)
{
    (void)state;
    struct guest g;
    bool two = strchr(devices, ',') != NULL;
    guest_open(&g);
    buffer_new(&g, 1, 2u << 20);
    blob_new(&g, 2, 2u << 20);
    blob_register(&g, 2, 0);
    stream_new(&g, 1, 0);
    stream_new(&g, 2, 0);
    stream_new(&g, 3, two ? 1 : 0);
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t e = i % APIR_EVENTS_MAX;
        if (i % 4 == 0)
            put_work(&g, 1);
        put_event(&g, APIR_MSG_EVENT_RECORD, e, 1);
        if (i % 3 == 1) {
            put_event(&g, APIR_MSG_EVENT_WAIT, e, 2);
            put_work(&g, 2);
        }
        if (i % 5 == 2)
            put_event(&g, APIR_MSG_EVENT_RECORD, e, 3);
        if (i % 5 == 3)
            put_event(&g, APIR_MSG_EVENT_WAIT, e, 3);
        if (i % 7 == 3) {
            put_event(&g, APIR_MSG_EVENT_RECORD, e, 1);
            put_event(&g, APIR_MSG_EVENT_RECORD, e, 1);
        }
        put_event(&g, APIR_MSG_EVENT_FREE, e, 0);
        if (i % 16 == 15)
            expect_fine(&g);
    }
    put_stream(&g, APIR_MSG_STREAM_SYNC, 1);
    put_stream(&g, APIR_MSG_STREAM_SYNC, 2);
    put_stream(&g, APIR_MSG_STREAM_SYNC, 3);
    expect_fine(&g);
    guest_close(&g);
}

/* A wait for the first of two marks, and the host reuses what the first was made of. */
static void event_marked_again_before_its_wait(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    buffer_new(&g, 1, 2u << 20);
    blob_new(&g, 2, 2u << 20);
    blob_register(&g, 2, 0);
    stream_new(&g, 1, 0);
    stream_new(&g, 2, 0);
    for (uint32_t i = 0; i < 10; i++) {
        put_work(&g, 1);
        put_event(&g, APIR_MSG_EVENT_RECORD, 0, 1);
        put_event(&g, APIR_MSG_EVENT_WAIT, 0, 2);
        put_event(&g, APIR_MSG_EVENT_RECORD, 0, 1);
        put_event(&g, APIR_MSG_EVENT_SYNC, 0, 0);
        put_work(&g, 2);
        put_stream(&g, APIR_MSG_STREAM_SYNC, 2);
        expect_fine(&g);
    }
    guest_close(&g);
}

/* ---- transfers ------------------------------------------------------------------------------ */

static void transfers_of_closed_streams_and_other_devices(void **state)
{
    (void)state;
    struct guest g;
    for (int how = 0; how < 3; how++) {
        guest_open(&g);
        buffer_new(&g, 1, SMALL);
        stream_new(&g, 1, 0);
        put_stream(&g, APIR_MSG_STREAM_CLOSE, 1);
        if (how == 0)
            put_transfer(&g, APIR_MSG_SET, 1, 1, 0, 64, 1, 0);
        else if (how == 1)
            put_transfer(&g, APIR_MSG_GET, 1, 1, 0, 64, 1, 0);
        else
            guest_put(&g, &(struct apir_msg){ .code = APIR_MSG_COPY,
                                              .u.copy = { .src_stream = 1, .dst_stream = 1,
                                                          .src_buffer = 1, .dst_buffer = 1,
                                                          .size = 64 } });
        expect_fatal(&g, "stream does not exist");
        guest_close(&g);
    }
    if (!strchr(devices, ','))
        return;
    /* A blob that the first device knows, buffers and streams of both, in every mixture. */
    guest_open(&g);
    stream_new(&g, 1, 0);
    stream_new(&g, 2, 1);
    buffer_new_on(&g, 0, 1, 4 * SMALL);
    buffer_new_on(&g, 1, 2, 4 * SMALL);
    blob_new(&g, 2, 4 * SMALL);
    blob_new(&g, 3, 4 * SMALL);
    blob_register(&g, 2, 0);
    blob_register(&g, 3, 1);
    uint8_t value = 1;
    for (uint32_t stream = 0; stream < 3; stream++) {
        for (uint32_t buffer = 1; buffer < 3; buffer++) {
            for (uint32_t blob = 1; blob < 4; blob++, value++) {
                memset(g.blobs[blob], value, 4 * SMALL);
                put_transfer(&g, APIR_MSG_SET, stream, buffer, 0, 4 * SMALL, blob, 0);
                if (stream)
                    put_stream(&g, APIR_MSG_STREAM_SYNC, stream);
                check_bytes(&g, buffer, 0, 4 * SMALL, value);
                memset(g.blobs[blob], 0, 4 * SMALL);
                put_transfer(&g, APIR_MSG_GET, stream, buffer, 0, 4 * SMALL, blob, 0);
                expect_fine(&g);
                assert_int_equal(g.blobs[blob][0], value);
                assert_int_equal(g.blobs[blob][4 * SMALL - 1], value);
            }
        }
    }
    guest_close(&g);
}

/* ---- work without end ------------------------------------------------------------------------ */

static long resident_kib(const struct guest *g)
{
    char path[32];
    long pages = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", fixture_child(&g->f, "apir-worker", NULL));
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void put_endless(struct guest *g, int kind)
{
    switch (kind) {
    case 0:
        put_event(g, APIR_MSG_EVENT_RECORD, 0, 1);
        break;
    case 1:
        put_event(g, APIR_MSG_EVENT_RECORD, 1, 1);
        put_event(g, APIR_MSG_EVENT_WAIT, 1, 2);
        break;
    default:
        guest_put(g, &(struct apir_msg){ .code = APIR_MSG_COPY,
                                         .u.copy = { .src_stream = 1, .dst_stream = 1,
                                                     .src_buffer = 1, .dst_buffer = 2,
                                                     .size = SMALL } });
        break;
    }
}

/* Drivers keep something of each piece of work until somebody waits for it. This guest never does. */
static void work_without_end_takes_no_memory(void **state)
{
    (void)state;
    struct guest g;
    guest_open(&g);
    stream_new(&g, 1, 0);
    stream_new(&g, 2, 0);
    buffer_new(&g, 1, SMALL);
    buffer_new(&g, 2, SMALL);
    for (int kind = 0; kind < 3; kind++) {
        long before = 0;
        for (int i = 0; i < ENDLESS; i++) {
            if (i == ENDLESS / 4) {
                expect_fine(&g);
                before = resident_kib(&g);
            }
            put_endless(&g, kind);
        }
        expect_fine(&g);
        const long grown = resident_kib(&g) - before;
        if (grown > GROWTH_KIB)
            fail_msg("kind %d: the worker grew by %ld KiB", kind, grown);
    }
    guest_close(&g);
}

static int run(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(register_refuses_what_is_no_blob),
        cmocka_unit_test(register_twice_is_refused_where_it_means_something),
        cmocka_unit_test(forgotten_blob_is_gone),
        cmocka_unit_test(blob_taken_away_under_transfers),
        cmocka_unit_test(memory_punched_under_transfers),
        cmocka_unit_test(blob_ids_are_reused),
        cmocka_unit_test(all_blobs_at_once),
        cmocka_unit_test(share_refuses_politely),
        cmocka_unit_test(share_refuses_what_is_not_there),
        cmocka_unit_test(shared_buffer_lives_and_dies),
        cmocka_unit_test(share_of_a_buffer_in_use_is_refused),
        cmocka_unit_test(integers_are_out_of_reach),
        cmocka_unit_test(integers_are_taken_once),
        cmocka_unit_test(events_out_of_range),
        cmocka_unit_test(events_without_a_mark_hold_nobody_up),
        cmocka_unit_test(events_outlive_their_streams),
        cmocka_unit_test(events_freed_under_way),
        cmocka_unit_test(event_marked_again_before_its_wait),
        cmocka_unit_test(work_without_end_takes_no_memory),
        cmocka_unit_test(transfers_of_closed_streams_and_other_devices),
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    /* One device list by hand: worker_hostile_test '"Vulkan0", "CPU"'. */
    if (argc > 1) {
        devices = argv[1];
        return run("worker_hostile");
    }
    int failed = run("worker_hostile");
    if (access(LAVAPIPE, R_OK) != 0)
        return failed;
    /* A device that copies itself, in a queue, and has events; its driver is the CPU's. */
    setenv("VK_DRIVER_FILES", LAVAPIPE, 1);
    setenv("FIXTURE_VISIBLE_DEVICES", "0", 1);
    setenv("LP_NUM_THREADS", "1", 1);
    devices = "\"Vulkan0\"";
    failed += run("worker_hostile_vulkan");
    devices = "\"Vulkan0\", \"CPU\"";
    return failed + run("worker_hostile_two_devices");
}
