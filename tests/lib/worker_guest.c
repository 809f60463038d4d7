/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/worker_guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/atomic.h"
#include "tests/lib/graph_write.h"

#define LAVAPIPE "/usr/share/vulkan/icd.d/lvp_icd.json"
#define WAIT_MS  15000

static const char *devices = "\"CPU\"";

bool guest_is_cpu(void)
{
    return strcmp(devices, "\"CPU\"") == 0;
}

bool guest_has_two_devices(void)
{
    return strchr(devices, ',') != NULL;
}

int guest_main(int argc, char **argv, const char *name, int (*run)(const char *group))
{
    char group[64];
    if (argc > 1) {
        devices = argv[1];
        return run(name);
    }
    int failed = run(name);
    if (access(LAVAPIPE, R_OK) != 0)
        return failed;
    /* A device that copies itself, in a queue, and has events; its driver is the CPU's. */
    setenv("VK_DRIVER_FILES", LAVAPIPE, 1);
    setenv("FIXTURE_VISIBLE_DEVICES", "0", 1);
    setenv("LP_NUM_THREADS", "1", 1);
    devices = "\"Vulkan0\"";
    snprintf(group, sizeof(group), "%s_vulkan", name);
    failed += run(group);
    devices = "\"Vulkan0\", \"CPU\"";
    snprintf(group, sizeof(group), "%s_two_devices", name);
    return failed + run(group);
}

int64_t guest_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- the guest ---------------------------------------------------------------------- */

uint32_t guest_state(const struct guest *g)
{
    return apir_load_acquire32(&g->ring.header->state);
}

void guest_flush(struct guest *g)
{
    if (apir_ring_guest_publish(&g->ring))
        fixture_doorbell(&g->c, APIR_DOORBELL_KICK, 0, 0);
}

bool guest_run(struct guest *g)
{
    guest_flush(g);
    int64_t end = guest_now_ms() + WAIT_MS;
    while (apir_load_acquire64(&g->ring.header->head) != g->ring.tail) {
        uint32_t state = guest_state(g);
        if (state == APIR_STATE_FATAL || state == APIR_STATE_LOST)
            return false;
        if (guest_now_ms() > end)
            fail_msg("the worker hangs");
        usleep(100);
    }
    return true;
}

void guest_put(struct guest *g, const struct apir_msg *msg)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    int64_t size = apir_msg_encode(msg, buf, sizeof(buf));
    assert_true(size > 0);
    while (!apir_ring_guest_has_room(&g->ring, (size_t)size))
        assert_true(guest_run(g));
    apir_ring_guest_put(&g->ring, buf, (size_t)size);
}

void guest_put_raw(struct guest *g, const struct apir_msg *msg, size_t field, uint32_t value)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    int64_t size = apir_msg_encode(msg, buf, sizeof(buf));
    assert_true(size > 0);
    memcpy(buf + sizeof(struct apir_msg_header) + field, &value, sizeof(value));
    apir_ring_guest_put(&g->ring, buf, (size_t)size);
}

const void *guest_reply_at(const struct guest *g, uint32_t offset)
{
    return g->ring_map + APIR_RING_HEADER_SIZE + offset;
}

uint32_t guest_reply(struct guest *g)
{
    uint32_t at = 4096 + (g->next_reply++ % 64) * APIR_REPLY_SIZE;
    memset(g->ring_map + APIR_RING_HEADER_SIZE + at, 0xff, APIR_REPLY_SIZE);
    return at;
}

void blob_new(struct guest *g, uint32_t id, uint64_t size)
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

void blob_destroy(struct guest *g, uint32_t id)
{
    munmap(g->blobs[id], g->sizes[id]);
    g->blobs[id] = NULL;
    fixture_destroy_resource(&g->c, g->resources[id]);
}

void guest_open(struct guest *g)
{
    char config[512];
    *g = (struct guest){.next_resource = 10};
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
    struct apir_msg hello = {.code = APIR_MSG_HELLO,
                             .u.hello = {.magic = APIR_HELLO_MAGIC,
                                         .major = APIR_PROTOCOL_MAJOR,
                                         .reply = guest_reply(g)}};
    guest_put(g, &hello);
    if (!guest_run(g))
        fail_msg("no worker: %s", g->ring.header->reason);
    const struct apir_reply_hello *r = guest_reply_at(g, hello.u.hello.reply);
    assert_int_equal(r->status, APIR_OK);
    assert_true(r->n_devices >= 1);
}

void guest_close(struct guest *g)
{
    for (uint32_t i = 0; i < APIR_BLOBS_MAX; i++) {
        if (g->blobs[i])
            munmap(g->blobs[i], g->sizes[i]);
    }
    munmap(g->ring_map, APIR_RING_SIZE);
    fixture_close(&g->c);
    fixture_stop(&g->f);
}

void expect_fine(struct guest *g)
{
    struct apir_msg m = {.code = APIR_MSG_DEVICE_MEMORY,
                         .u.device_memory = {.reply = guest_reply(g)}};
    guest_put(g, &m);
    if (!guest_run(g))
        fail_msg("the context ended (state %u): %s", guest_state(g), g->ring.header->reason);
    const struct apir_reply_device_memory *r = guest_reply_at(g, m.u.device_memory.reply);
    assert_int_equal(r->status, APIR_OK);
}

void expect_fatal(struct guest *g, const char *reason)
{
    bool alive = guest_run(g);
    if (alive || guest_state(g) != APIR_STATE_FATAL)
        fail_msg("not FATAL (state %u): %s", guest_state(g), g->ring.header->reason);
    if (!strstr(g->ring.header->reason, reason))
        fail_msg("the reason is: %s, not: %s", g->ring.header->reason, reason);
}

void expect_bytes(struct guest *g, uint32_t buffer, uint64_t offset, uint64_t size, uint8_t value)
{
    assert_true(guest_run(g)); /* what is under way may read from there */
    memset(g->blobs[1], (uint8_t)~value, size);
    put_transfer(g, APIR_MSG_GET, 0, buffer, offset, size, 1, 0);
    if (!guest_run(g))
        fail_msg("get: %s", g->ring.header->reason);
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(g->blobs[1][i], value);
}

/* ---- messages ----------------------------------------------------------------------- */

/* The answer to what was put last. */
static const void *answer(struct guest *g, const char *what, uint32_t reply)
{
    if (!guest_run(g))
        fail_msg("%s: %s", what, g->ring.header->reason);
    return guest_reply_at(g, reply);
}

uint32_t put_register(struct guest *g, uint32_t blob, uint32_t device)
{
    struct apir_msg m = {.code = APIR_MSG_BLOB_REGISTER,
                         .u.blob_register = {blob, device, guest_reply(g)}};
    guest_put(g, &m);
    return m.u.blob_register.reply;
}

bool blob_register(struct guest *g, uint32_t blob, uint32_t device)
{
    const struct apir_reply_blob *r = answer(g, "register", put_register(g, blob, device));
    assert_int_equal(r->status, APIR_OK);
    return r->flags & APIR_BLOB_DIRECT;
}

void put_forget(struct guest *g, uint32_t blob)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_BLOB_FORGET, .u.blob_forget = {blob}});
}

void buffer_new_on(struct guest *g, uint32_t device, uint32_t id, uint64_t size)
{
    struct apir_msg m = {
        .code = APIR_MSG_BUFFER_ALLOC,
        .u.buffer_alloc = {.device = device, .buffer = id, .size = size, .reply = guest_reply(g)}};
    guest_put(g, &m);
    const struct apir_reply_status *r = answer(g, "no buffer", m.u.buffer_alloc.reply);
    assert_int_equal(r->status, APIR_OK);
}

void buffer_new(struct guest *g, uint32_t id, uint64_t size)
{
    buffer_new_on(g, 0, id, size);
}

uint32_t put_share(struct guest *g, uint32_t buffer, uint32_t blob)
{
    struct apir_msg m = {.code = APIR_MSG_BUFFER_SHARE,
                         .u.buffer_share = {buffer, blob, guest_reply(g)}};
    guest_put(g, &m);
    return m.u.buffer_share.reply;
}

uint32_t buffer_share(struct guest *g, uint32_t buffer, uint32_t blob)
{
    const struct apir_reply_status *r = answer(g, "share", put_share(g, buffer, blob));
    return r->status;
}

void put_buffer_free(struct guest *g, uint32_t id)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_BUFFER_FREE, .u.buffer_free = {id}});
}

void stream_new(struct guest *g, uint32_t id, uint32_t device)
{
    struct apir_msg m = {.code = APIR_MSG_STREAM_OPEN,
                         .u.stream_open = {.stream = id,
                                           .device = device,
                                           .status = (id - 1) * APIR_REPLY_ALIGN,
                                           .reply = guest_reply(g)}};
    guest_put(g, &m);
    const struct apir_reply_stream *r = answer(g, "no stream", m.u.stream_open.reply);
    assert_int_equal(r->status, APIR_OK);
}

void put_stream(struct guest *g, enum apir_msg_code code, uint32_t id)
{
    struct apir_msg m = {.code = code};
    m.u.stream_sync.stream = id; /* CLOSE has the same single field */
    guest_put(g, &m);
}

void put_event(struct guest *g, enum apir_msg_code code, uint32_t event, uint32_t stream)
{
    struct apir_msg m = {.code = code};
    m.u.event_record.event = event;
    if (code == APIR_MSG_EVENT_RECORD || code == APIR_MSG_EVENT_WAIT)
        m.u.event_record.stream = stream;
    guest_put(g, &m);
}

void put_transfer(struct guest *g, enum apir_msg_code code, uint32_t stream, uint32_t buffer,
                  uint64_t offset, uint64_t size, uint32_t blob, uint64_t blob_offset)
{
    struct apir_msg m = {.code = code};
    m.u.set = (struct apir_msg_set){.stream = stream,
                                    .buffer = buffer,
                                    .offset = offset,
                                    .size = size,
                                    .blob = blob,
                                    .blob_offset = blob_offset};
    guest_put(g, &m);
}

/* ---- graphs ------------------------------------------------------------------------- */

enum { T_TABLE, T_IDS, T_BESIDE, T_ROWS, T_SQUARE, T_COUNT };

struct apir_tensor tensor_at(uint8_t bits, uint16_t op, uint8_t type, uint64_t offset, int64_t ne0,
                             int64_t ne1, uint64_t size)
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

void put_lookup(struct guest *g, uint32_t slot, uint32_t buffer, uint32_t results, uint64_t ids_at,
                int64_t picks, uint64_t beside_at)
{
    static struct apir_name names[] = {{APIR_NAME_OP, "GET_ROWS"}, {APIR_NAME_OP, "SQR"}};
    struct apir_graph_buffer buffers[] = {{buffer, 1}, {results, 2}};
    struct apir_tensor t[T_COUNT];
    t[T_TABLE] = tensor_at(0, APIR_NO_NAME, 0, 0, LOOKUP_WIDTH, LOOKUP_ROWS, 4);
    t[T_IDS] = tensor_at(0, APIR_NO_NAME, 26, ids_at, picks, 1, 4);
    t[T_BESIDE] = tensor_at(0, APIR_NO_NAME, 0, beside_at, 4, 1, 4);
    t[T_ROWS] = tensor_at(APIR_TENSOR_NODE, 0, 0, 0, LOOKUP_WIDTH, picks, 4);
    t[T_ROWS].buffer = 1;
    t[T_ROWS].n_src = 2;
    t[T_ROWS].src[0] = T_TABLE;
    t[T_ROWS].src[1] = T_IDS;
    t[T_SQUARE] = tensor_at(APIR_TENSOR_NODE, 1, 0, 32768, 4, 1, 4);
    t[T_SQUARE].buffer = 1;
    t[T_SQUARE].n_src = 1;
    t[T_SQUARE].src[0] = T_BESIDE;
    const struct apir_graph graph = {
        .n_names = 2,
        .n_buffers = 2,
        .n_tensors = T_COUNT,
        .n_nodes = 2,
        .names = names,
        .buffers = buffers,
        .tensors = t,
    };
    size_t size = graph_write(&graph, g->blobs[1] + ARENA / 2, ARENA / 2);
    assert_true(size > 0);
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_GRAPH_DEF,
                                    .u.graph_def = {.slot = slot,
                                                    .stream = STREAM,
                                                    .blob = 1,
                                                    .blob_offset = ARENA / 2,
                                                    .size = size}});
}

void put_exec(struct guest *g, uint32_t slot)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_GRAPH_EXEC,
                                    .u.graph_exec = {.slot = slot, .stream = STREAM}});
}

void put_drop(struct guest *g, uint32_t slot)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_GRAPH_DROP, .u.graph_drop = {slot}});
}

void lookup_fill(uint8_t *memory, uint64_t ids_at, int64_t picks)
{
    for (int i = 0; i < LOOKUP_WIDTH * LOOKUP_ROWS; i++) {
        float v = (float)(i / LOOKUP_WIDTH);
        memcpy(memory + i * 4, &v, sizeof(v));
    }
    for (int64_t i = 0; i < picks; i++) {
        int32_t id = (int32_t)(LOOKUP_ROWS - 1 - i);
        memcpy(memory + ids_at + i * 4, &id, sizeof(id));
    }
}

void expect_lookup(struct guest *g, uint32_t results, int64_t picks)
{
    put_transfer(g, APIR_MSG_GET, STREAM, results, 0, (uint64_t)picks * LOOKUP_WIDTH * 4, 1, 0);
    if (!guest_run(g))
        fail_msg("after a lookup: %s", g->ring.header->reason);
    for (int64_t i = 0; i < picks * LOOKUP_WIDTH; i++) {
        float v;
        memcpy(&v, g->blobs[1] + i * 4, sizeof(v));
        if (v != (float)(LOOKUP_ROWS - 1 - i / LOOKUP_WIDTH))
            fail_msg("value %d is %f", (int)i, (double)v);
    }
}
