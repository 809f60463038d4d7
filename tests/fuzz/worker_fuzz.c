/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest without manners and its worker: messages over a real ring, the worker's own decoder,
 * validator and handlers, and the host's CPU backend (beside it a device that has what GPUs have:
 * memory and a queue of its own, events, an order of nodes). Buffers are allocated, filled, shared
 * and freed, graphs of several ops defined, patched and computed, blobs come and go, and the guest
 * writes to all memory that it has, at any point. A malformed message ends it, as it would end
 * the worker's process.
 *
 * Input: steps, each a byte that picks a kind of message (or what the guest or the server does
 * beside the ring) and bytes for its fields: ids of what there is, ranges within it; and now and
 * then any other. Where the input ends, what is left reads as zeros.
 */
#define _GNU_SOURCE
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/worker.h"
#include "protocol/fdsock.h"
#include "protocol/log.h"
#include "tests/fuzz/graph_random.h"
#include "tests/unit/graph_write.h"
#include "tests/unit/message_table.h"

const char fuzz_corpus[] = "worker";

#define PAGE       ((size_t)4096)
#define STEPS      96
#define BLOBS      5u /* ids below it are used: the ring and four more */
#define IDS        6u /* of buffers, streams and so on that the guest has at a time */
#define MEMORY     (UINT64_C(8) << 20) /* bytes that the device has */
#define ELEMENTS   (1 << 18)           /* per computation: beyond it, only time would pass */
#define GUEST_MAPS 16
#define QUEUED     1u /* the device that is no CPU: graphs for it are checked, not computed */

static struct worker w;
static struct apir_ring_guest ring;
static int server_end; /* of the control socket */
static uint64_t memory_used;
static struct {
    uint8_t *map;
    uint64_t size;
} guest[GUEST_MAPS]; /* what the guest has mapped, and keeps */
static unsigned n_guest;
static struct random_graph graphs[APIR_SLOTS_MAX]; /* as the guest has defined them */

/* ---- the input ------------------------------------------------------------------------- */

static const uint8_t *in;
static size_t in_left;

static uint64_t take(size_t bytes)
{
    uint64_t v = 0;
    size_t n = bytes < in_left ? bytes : in_left;
    memcpy(&v, in, n);
    in += n;
    in_left -= n;
    return v;
}

/* Numbers for a graph: some bytes of the input, and what follows from them. */
static struct dice take_dice(void)
{
    size_t n = take(1) % 64;
    n = n < in_left ? n : in_left;
    struct dice d = {.data = in, .left = n, .state = UINT64_C(0xcbf29ce484222325)};
    in += n;
    in_left -= n;
    return d;
}

/* ---- the device's memory: between pages without access ----------------------------------- */

int __wrap_host_buffer_alloc(struct host_ggml *hg, const struct host_device *d, uint64_t size,
                             struct host_buffer *ret_buffer);
void __wrap_host_buffer_free(struct host_ggml *hg, struct host_buffer *b);
void __real_host_buffer_free(struct host_ggml *hg, struct host_buffer *b);

static struct {
    uint8_t *map;
    uint64_t size; /* of the map, with both pages */
    uint64_t used;
    void *handle;
} rooms[64];

int __wrap_host_buffer_alloc(struct host_ggml *hg, const struct host_device *d, uint64_t size,
                             struct host_buffer *ret_buffer)
{
    size_t i = 0;
    while (i < sizeof(rooms) / sizeof(rooms[0]) && rooms[i].map)
        i++;
    if (i == sizeof(rooms) / sizeof(rooms[0]) || size > MEMORY - memory_used)
        return -ENOMEM;
    /* To the end of the last page, as closely as ggml's alignment allows. */
    uint64_t used = (size + 63) & ~UINT64_C(63);
    uint64_t room = ((used + PAGE - 1) & ~(PAGE - 1)) + 2 * PAGE;
    uint8_t *map = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_CHECK(map != MAP_FAILED);
    FUZZ_CHECK(mprotect(map + PAGE, room - 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
    if (host_buffer_wrap(hg, d, map + room - PAGE - used, size, ret_buffer) < 0) {
        munmap(map, room);
        return -ENOMEM;
    }
    if (d == &hg->devices[QUEUED])
        ret_buffer->memory = NULL;
    rooms[i].map = map;
    rooms[i].size = room;
    rooms[i].used = size;
    rooms[i].handle = ret_buffer->handle;
    memory_used += size;
    return 0;
}

void __wrap_host_buffer_free(struct host_ggml *hg, struct host_buffer *b)
{
    const void *handle = b->handle;
    __real_host_buffer_free(hg, b);
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        if (!handle || rooms[i].handle != handle)
            continue;
        munmap(rooms[i].map, rooms[i].size);
        memory_used -= rooms[i].used;
        memset(&rooms[i], 0, sizeof(rooms[i]));
    }
}

/* ---- what the CPU has not: a queue, events, an order of nodes ------------------------------ */

bool __wrap_host_stream_optimizes(struct host_ggml *hg, void *stream);
int __wrap_host_graph_optimize(struct host_ggml *hg, void *stream, struct host_graph *g,
                               const struct gg_tensor *tensors, uint32_t n_tensors,
                               uint32_t n_nodes, uint32_t *ret_order, struct host_dep *ret_deps,
                               uint32_t max_deps);
void *__wrap_host_event_new(struct host_ggml *hg, const struct host_device *d, const void *stream);
void __wrap_host_event_free(struct host_ggml *hg, void *event);
void __wrap_host_event_record(struct host_ggml *hg, void *event, void *stream);
void __wrap_host_event_wait(struct host_ggml *hg, void *event, void *stream);
void __wrap_host_event_sync(struct host_ggml *hg, void *event);
int __wrap_host_graph_compute(struct host_ggml *hg, void *stream, struct host_graph *g);
int __real_host_graph_compute(struct host_ggml *hg, void *stream, struct host_graph *g);

static uint32_t device_of(const void *stream)
{
    for (uint32_t i = 1; i <= APIR_STREAMS_MAX; i++) {
        if (w.streams[i].host == stream)
            return w.streams[i].device;
    }
    return QUEUED;
}

bool __wrap_host_stream_optimizes(struct host_ggml *hg, void *stream)
{
    (void)hg;
    /* Asked first when it is opened, before it is in the table. */
    return device_of(stream) == QUEUED;
}

/* The nodes backwards, and dependencies as many as there is room for, or one more. */
int __wrap_host_graph_optimize(struct host_ggml *hg, void *stream, struct host_graph *g,
                               const struct gg_tensor *tensors, uint32_t n_tensors,
                               uint32_t n_nodes, uint32_t *ret_order, struct host_dep *ret_deps,
                               uint32_t max_deps)
{
    (void)hg;
    (void)stream;
    (void)tensors;
    FUZZ_CHECK(g->cgraph != NULL && n_nodes <= n_tensors);
    for (uint32_t i = 0; i < n_nodes / 2; i++) {
        uint32_t other = ret_order[n_nodes - 1 - i];
        ret_order[n_nodes - 1 - i] = ret_order[i];
        ret_order[i] = other;
    }
    for (uint32_t i = 0; i < max_deps; i++)
        ret_deps[i] = (struct host_dep){i % n_tensors, i % n_tensors};
    return n_tensors % 4 ? (int)max_deps : -E2BIG;
}

/* Of its own size, so that ASan sees a use after its end. */
void *__wrap_host_event_new(struct host_ggml *hg, const struct host_device *d, const void *stream)
{
    FUZZ_CHECK(stream != NULL);
    return d == &hg->devices[QUEUED] ? calloc(1, sizeof(uint64_t)) : NULL;
}

void __wrap_host_event_free(struct host_ggml *hg, void *event)
{
    (void)hg;
    free(event);
}

static void event_use(void *event, const void *stream)
{
    FUZZ_CHECK(!stream || device_of(stream) == QUEUED);
    ++*(uint64_t *)event;
}

void __wrap_host_event_record(struct host_ggml *hg, void *event, void *stream)
{
    (void)hg;
    event_use(event, stream);
}

void __wrap_host_event_wait(struct host_ggml *hg, void *event, void *stream)
{
    (void)hg;
    event_use(event, stream);
}

void __wrap_host_event_sync(struct host_ggml *hg, void *event)
{
    (void)hg;
    event_use(event, NULL);
}

int __wrap_host_graph_compute(struct host_ggml *hg, void *stream, struct host_graph *g)
{
    return device_of(stream) == QUEUED ? 0 : __real_host_graph_compute(hg, stream, g);
}

/* ---- ggml's asserts ------------------------------------------------------------------------ */

static jmp_buf aborted;
static bool armed;

static void on_abort(const char *message)
{
    (void)message;
    FUZZ_CHECK(armed);
    armed = false;
    longjmp(aborted, 1);
}

/* Kernels that are left by an assert leave things behind. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "replace_intrin=0:detect_leaks=0:alloc_dealloc_mismatch=0";
}

/* ---- the server -------------------------------------------------------------------------- */

static void server_says(uint32_t op, uint32_t blob, uint64_t size, int fd)
{
    const struct apir_control c = {.op = op, .blob_id = blob, .size = size};
    FUZZ_CHECK(apir_fdsock_send(server_end, &c, sizeof(c), &fd, fd >= 0) == 0);
}

static void blob_add(uint32_t blob, uint64_t size)
{
    if (n_guest == GUEST_MAPS)
        return;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    FUZZ_CHECK(map != MAP_FAILED);
    guest[n_guest].map = map;
    guest[n_guest++].size = size;
    server_says(APIR_CONTROL_ADD_BLOB, blob, size, fd);
    close(fd);
}

/* Its books: what it has let the context have of each device. */
static uint64_t books[2];

static void server_answers(const struct apir_ask *ask)
{
    struct apir_control_answer a = {
        .op = APIR_CONTROL_ANSWER, .total = MEMORY, .free = UINT64_MAX, .why = "no"};
    uint32_t device = ask->flags & APIR_ASK_HOST ? 0 : QUEUED;
    FUZZ_CHECK(memchr(ask->device, 0, sizeof(ask->device)) != NULL);
    if (ask->op == APIR_ASK_RELEASE) {
        FUZZ_CHECK(ask->size > 0 && ask->size <= books[device]);
        books[device] -= ask->size;
        return;
    }
    FUZZ_CHECK(ask->op == APIR_ASK_RESERVE || ask->op == APIR_ASK_ROOM);
    a.refused = ask->op == APIR_ASK_RESERVE && (ask->size > MEMORY || take(1) % 32 == 31);
    if (ask->op == APIR_ASK_RESERVE && !a.refused)
        books[device] += ask->size;
    FUZZ_CHECK(apir_fdsock_send(server_end, &a, sizeof(a), NULL, 0) == 0);
}

static void server_serve(void)
{
    struct apir_ask ask;
    ssize_t n;
    while ((n = recv(server_end, &ask, sizeof(ask), MSG_DONTWAIT)) > 0) {
        FUZZ_CHECK(n == sizeof(ask));
        server_answers(&ask);
    }
}

/* The worker waits for an answer. */
int __wrap_poll(struct pollfd *p, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
    FUZZ_CHECK(n == 1 && p->fd == w.control_fd && timeout_ms < 0);
    server_serve();
    return 1;
}

static void check_books(void)
{
    uint64_t reserved[2] = {0}, graphs_have = 0, queued = 0;
    server_serve();
    for (uint32_t i = 0; i < APIR_BUFFERS_MAX; i++)
        reserved[w.buffers[i].device] += w.buffers[i].reserved;
    for (uint32_t i = 0; i < APIR_SLOTS_MAX; i++)
        graphs_have += w.slots[i].bytes;
    for (uint32_t i = 0; i <= APIR_STREAMS_MAX; i++)
        queued += w.streams[i].queued_bytes;
    FUZZ_CHECK(reserved[0] == books[0] && reserved[QUEUED] == books[QUEUED]);
    FUZZ_CHECK(graphs_have == w.graph_bytes && graphs_have <= w.graph_limit);
    FUZZ_CHECK(queued == w.queued_bytes && queued <= w.queue_limit);
}

/* The server adds no blob twice; when the guest may use an id again, it knows. */
static void blob_step(void)
{
    static const uint8_t sizes[] = {1, 2, 4, 33}; /* the last has room for a huge page */
    uint32_t blob = 1 + (uint32_t)take(1) % (BLOBS - 1);
    if (w.blobs[blob].map)
        server_says(APIR_CONTROL_DEL_BLOB, blob, 0, -1);
    else
        blob_add(blob, (uint64_t)APIR_SHM_ALIGN * sizes[take(1) % 4]);
    FUZZ_CHECK(worker_control_drain(&w) == 0);
}

/* ---- life of a context --------------------------------------------------------------------- */

static void load(void)
{
    static const char *const devices[] = {"CPU", NULL};
    struct host_ggml_options options = {.devices = devices, .n_threads = 1};
    struct apir_error err = {0};
    apir_log_set_level(APIR_LOG_ERROR);
    if (host_ggml_load(&w.ggml, &options, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    ggml_set_abort_callback(on_abort);
    FUZZ_CHECK(w.ggml.n_devices == 1);
    struct host_device *d = &w.ggml.devices[QUEUED];
    *d = w.ggml.devices[0];
    d->flags &= ~(uint32_t)APIR_DEVICE_SYNC;
    d->is_gpu = true;
    w.ggml.n_devices = 2;
}

static void context_open(bool narrow)
{
    int sockets[2];
    for (uint32_t i = 0; i < APIR_SLOTS_MAX; i++)
        graphs[i].g.n_tensors = 0;
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    w.control_fd = sockets[0];
    server_end = sockets[1];
    w.state = APIR_ST_NEW;
    w.shm_limit = UINT64_C(64) << 20;
    w.graph_limit = narrow ? 100000 : UINT64_C(64) << 20;
    w.queue_limit = narrow ? 100000 : UINT64_C(64) << 20;
    w.devices_used = 0;
    blob_add(APIR_RING_BLOB_ID, APIR_RING_SIZE_MIN);
    FUZZ_CHECK(worker_control_drain(&w) == 0);
    uint8_t *map = guest[0].map;
    struct apir_ring_header *h = (struct apir_ring_header *)(void *)map;
    ring = (struct apir_ring_guest){
        .header = h,
        .cmd = map + apir_ring_cmd_offset(APIR_RING_SIZE_MIN),
        .cmd_size = APIR_RING_SIZE_MIN / 2,
    };
    apir_ring_host_init(&w.ring, w.blobs[APIR_RING_BLOB_ID].map, APIR_RING_SIZE_MIN);
}

/* The end of the process, in which all of this goes. */
static void context_close(void)
{
    worker_streams_settle(&w);
    for (uint32_t i = 0; i < APIR_SLOTS_MAX; i++)
        worker_slot_clear(&w, &w.slots[i]);
    for (uint32_t i = 0; i < APIR_EVENTS_MAX; i++) {
        if (w.events[i].host)
            host_event_free(&w.ggml, w.events[i].host);
        w.events[i] = (struct worker_event){0};
    }
    for (uint32_t i = 1; i <= APIR_STREAMS_MAX; i++) {
        if (w.streams[i].host)
            host_stream_close(&w.ggml, w.streams[i].host);
        w.streams[i] = (struct worker_stream){0};
    }
    for (uint32_t i = 0; i < APIR_BUFFERS_MAX; i++) {
        if (w.buffers[i].id)
            worker_buffer_drop(&w, &w.buffers[i]);
    }
    for (uint32_t i = 0; i < APIR_BLOBS_MAX; i++) {
        if (w.blobs[i].direct.handle)
            host_buffer_free(&w.ggml, &w.blobs[i].direct);
        if (w.blobs[i].map)
            munmap(w.blobs[i].map, w.blobs[i].size);
        w.blobs[i] = (struct worker_blob){0};
    }
    for (unsigned i = 0; i < n_guest; i++)
        munmap(guest[i].map, guest[i].size);
    n_guest = 0;
    check_books();
    FUZZ_CHECK(w.graph_bytes == 0 && w.queued_bytes == 0);
    close(w.control_fd);
    close(server_end);
    FUZZ_CHECK(memory_used == 0);
}

/* ---- what a slot promises -------------------------------------------------------------------- */

static void check_slots(void)
{
    for (uint32_t i = 0; i < APIR_SLOTS_MAX; i++) {
        const struct worker_slot *s = &w.slots[i];
        if (s->state != SLOT_READY)
            continue;
        FUZZ_CHECK(s->graph.cgraph != NULL);
        for (uint32_t k = 0; k < s->wire.n_buffers; k++)
            FUZZ_CHECK(worker_buffer_find(&w, s->wire.buffers[k].id) != NULL);
        for (uint32_t k = 0; k < s->wire.n_tensors; k++) {
            const struct apir_tensor *t = &s->wire.tensors[k];
            if (!(t->bits & APIR_TENSOR_BUFFER))
                continue;
            const struct worker_buffer *b = worker_buffer_find(&w, s->wire.buffers[t->buffer].id);
            uint64_t extent = 0;
            FUZZ_CHECK(!worker_rules_extent(&w.ggml.types[t->type], t, &extent));
            FUZZ_CHECK(t->offset <= b->host.size && extent <= b->host.size - t->offset);
            FUZZ_CHECK((uint8_t *)s->tensors[k].data == b->host.base + t->offset);
        }
    }
}

static bool may_compute(const struct worker_slot *s)
{
    return s->state != SLOT_READY || s->device == QUEUED ||
           (random_graph_elements(&s->wire) <= ELEMENTS && !random_graph_unpromised(&s->wire));
}

/* ---- fields ------------------------------------------------------------------------------------
 */

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
    return w.buffers[i].id != 0;
}

static bool stream_lives(uint32_t i)
{
    return i > 0 && w.streams[i].host != NULL;
}

static bool slot_lives(uint32_t i)
{
    return w.slots[i].state != SLOT_EMPTY;
}

static bool blob_lives(uint32_t i)
{
    return i > 0 && w.blobs[i].map != NULL;
}

static uint64_t number(void)
{
    uint32_t v = (uint32_t)take(2);
    switch (v >> 13) {
    case 0:
        return v & 0xff;
    case 1:
    case 2:
        return (v & 0x1fff) * 8;
    case 3:
        return take(8);
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
        pick = (uint8_t)take(1);
    if (!size && pick >= 0xfc)
        v = take(f->size);
    else if (strstr(f->name, "buffer") && msg->code == APIR_MSG_BUFFER_ALLOC)
        v = 1 + pick % IDS + ((uint64_t)(pick / IDS) << 12);
    else if (strstr(f->name, "buffer"))
        v = w.buffers[pick_live(pick, IDS + 1, buffer_lives)].id;
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
    const struct worker_buffer *b = worker_buffer_find(&w, id);
    return b ? b->host.size : 0;
}

static uint64_t blob_size(uint32_t id)
{
    return id < APIR_BLOBS_MAX ? w.blobs[id].size : 0;
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

/* The ranges within what they are ranges of. */
static void message_fit(struct apir_msg *msg)
{
    uint64_t one;
    switch (msg->code) {
    case APIR_MSG_BUFFER_ALLOC:
        msg->u.buffer_alloc.size = 1 + (msg->u.buffer_alloc.size - 1) % (3u << 20);
        break;
    case APIR_MSG_SET: {
        struct apir_msg_set *m = &msg->u.set;
        fit(&m->offset, &m->size, buffer_size(m->buffer));
        fit(&m->blob_offset, &m->size, blob_size(m->blob));
        break;
    }
    case APIR_MSG_GET: {
        struct apir_msg_get *m = &msg->u.get;
        fit(&m->offset, &m->size, buffer_size(m->buffer));
        fit(&m->blob_offset, &m->size, blob_size(m->blob));
        break;
    }
    case APIR_MSG_SET_2D: {
        struct apir_msg_set_2d *m = &msg->u.set_2d;
        fit(&m->offset, &m->size, buffer_size(m->buffer));
        fit_rows(m->offset, &m->size, &m->count, &m->stride, buffer_size(m->buffer));
        m->blob_offset %= 4096;
        break;
    }
    case APIR_MSG_GET_2D: {
        struct apir_msg_get_2d *m = &msg->u.get_2d;
        fit(&m->offset, &m->size, buffer_size(m->buffer));
        fit_rows(m->offset, &m->size, &m->count, &m->stride, buffer_size(m->buffer));
        m->blob_offset %= 4096;
        break;
    }
    case APIR_MSG_SET_INLINE: {
        struct apir_msg_set_inline *m = &msg->u.set_inline;
        fit(&m->offset, &m->size, buffer_size(m->buffer));
        break;
    }
    case APIR_MSG_MEMSET:
        fit(&msg->u.memset.offset, &msg->u.memset.size, buffer_size(msg->u.memset.buffer));
        break;
    case APIR_MSG_COPY: {
        struct apir_msg_copy *m = &msg->u.copy;
        fit(&m->src_offset, &m->size, buffer_size(m->src_buffer));
        fit(&m->dst_offset, &m->size, buffer_size(m->dst_buffer));
        break;
    }
    case APIR_MSG_GRAPH_OPTIMIZE: {
        struct apir_msg_graph_optimize *m = &msg->u.graph_optimize;
        fit(&m->out_offset, &m->out_size, blob_size(m->blob));
        one = m->size;
        fit(&m->blob_offset, &one, blob_size(m->blob));
        break;
    }
    default:
        break;
    }
}

/* ---- graphs ------------------------------------------------------------------------------------
 */

/* Into the buffers that there are. False: there is none. */
static bool graph_place(struct random_graph *g, struct dice *d)
{
    uint64_t sizes[RANDOM_GRAPH_BUFFERS];
    uint32_t n = 0;
    for (uint32_t i = 0; i <= IDS && n < RANDOM_GRAPH_BUFFERS; i++) {
        if (!w.buffers[i].id)
            continue;
        sizes[n] = w.buffers[i].host.size;
        g->buffers[n++] = (struct apir_graph_buffer){w.buffers[i].id, dice_roll(d, 3)};
    }
    return n && random_graph_place(g, d, w.ggml.types, sizes, n);
}

/* A graph, or a patch of the slot's, at the place that the message names; its size, or 0. */
static uint64_t payload_put(const struct apir_msg *msg, uint32_t blob, uint64_t *offset,
                            uint32_t slot)
{
    static uint8_t payload[RANDOM_GRAPH_BYTES];
    struct dice d = take_dice();
    size_t size = 0;
    if (msg->code == APIR_MSG_GRAPH_PATCH) {
        size = random_graph_patch(&graphs[slot], &d, payload, sizeof(payload));
    } else {
        struct random_graph *g =
            &graphs[msg->code == APIR_MSG_GRAPH_DEF ? slot : APIR_SLOTS_MAX - 1];
        random_graph_make(g, &d, msg->code == APIR_MSG_OP_QUERY ? 1 : 1 + dice_roll(&d, 4));
        if (msg->code != APIR_MSG_GRAPH_DEF)
            random_graph_imagine(g);
        else if (!graph_place(g, &d))
            return 0;
        size = graph_write(&g->g, payload, sizeof(payload));
    }
    /* Now and then some other byte somewhere. */
    for (uint32_t n = dice_roll(&d, 16) ? 0 : 1 + dice_roll(&d, 3); size && n; n--)
        payload[dice_roll(&d, (uint32_t)size)] = (uint8_t)dice_roll(&d, 256);
    if (size == 0 || size > blob_size(blob))
        return 0;
    *offset %= blob_size(blob) - size + 1;
    memcpy(w.blobs[blob].map + *offset, payload, size);
    return size;
}

/* False: there is nothing that could be sent. */
static bool payload_fill(struct apir_msg *msg)
{
    struct apir_msg_graph_def *def = &msg->u.graph_def;
    struct apir_msg_graph_patch *patch = &msg->u.graph_patch;
    struct apir_msg_graph_optimize *optimize = &msg->u.graph_optimize;
    struct apir_msg_op_query *query = &msg->u.op_query;
    switch (msg->code) {
    case APIR_MSG_GRAPH_DEF:
        return (def->size = payload_put(msg, def->blob, &def->blob_offset, def->slot)) > 0;
    case APIR_MSG_GRAPH_PATCH:
        return (patch->size = payload_put(msg, patch->blob, &patch->blob_offset, patch->slot)) > 0;
    case APIR_MSG_GRAPH_OPTIMIZE:
        optimize->size = payload_put(msg, optimize->blob, &optimize->blob_offset, 0);
        return optimize->size > 0;
    case APIR_MSG_OP_QUERY:
        return (query->size = payload_put(msg, query->blob, &query->blob_offset, 0)) > 0;
    case APIR_MSG_GRAPH_EXEC:
        return may_compute(&w.slots[msg->u.graph_exec.slot]);
    default:
        return true;
    }
}

/* ---- steps -------------------------------------------------------------------------------------
 */

/* As the worker's main loop does it. False: the context has ended. */
static bool serve(void)
{
    size_t size = 0;
    struct apir_msg msg;
    const char *why = NULL;
    int err;
    while ((err = apir_ring_host_take(&w.ring, w.message, sizeof(w.message), &size)) == 0) {
        if (apir_msg_decode(w.message, size, w.state, &msg, &why) < 0)
            break;
        armed = true;
        why = setjmp(aborted) ? "assert" : worker_dispatch(&w, &msg);
        armed = false;
        if (why)
            break;
        apir_ring_host_complete(&w.ring, size);
    }
    FUZZ_CHECK(err || (why && *why));
    return err == -EAGAIN;
}

static bool message_step(enum apir_msg_code code)
{
    static uint8_t tail[APIR_INLINE_MAX];
    uint8_t buf[APIR_MESSAGE_MAX];
    struct apir_msg msg = {.code = code, .tail = code == APIR_MSG_SET_INLINE ? tail : NULL};
    message_walk(&msg, field_draw, &msg);
    if (take(1) < 0xfa)
        message_fit(&msg);
    if (!payload_fill(&msg))
        return true;
    if (msg.tail)
        memset(tail, (int)take(1), sizeof(tail));
    int64_t size = apir_msg_encode(&msg, buf, sizeof(buf));
    if (size < 0)
        return true; /* ranges of fields are messages_fuzz' */
    apir_ring_guest_put(&ring, buf, (size_t)size);
    apir_ring_guest_publish(&ring);
    return serve();
}

/* The guest writes to any memory that it has ever mapped, but for the ring. */
static void scribble_step(void)
{
    unsigned which = (unsigned)take(1);
    uint64_t at = take(3), value = take(4);
    size_t n = 1 + (size_t)take(1) % 64;
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
        APIR_MSG_GRAPH_DEF,  APIR_MSG_GRAPH_DEF,   APIR_MSG_GRAPH_EXEC,   APIR_MSG_GRAPH_EXEC,
        APIR_MSG_GRAPH_EXEC, APIR_MSG_GRAPH_PATCH, APIR_MSG_BUFFER_ALLOC, APIR_MSG_BUFFER_SHARE,
    };
    unsigned kind = (unsigned)take(1);
    if (kind < 0x20) {
        blob_step();
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
    if (!w.ggml.fns)
        load();
    in = data;
    in_left = size;
    /* Mostly there is what every guest has: streams, buffers, an arena. */
    uint8_t start = (uint8_t)take(1);
    bool goes_on = true;
    context_open(start & 2);
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
        blob_add(1, 4 * APIR_SHM_ALIGN);
        for (size_t i = 0; i < sizeof(first) / sizeof(first[0]) && goes_on; i++) {
            uint8_t buf[APIR_MESSAGE_MAX];
            int64_t n = apir_msg_encode(&first[i], buf, sizeof(buf));
            FUZZ_CHECK(n > 0);
            apir_ring_guest_put(&ring, buf, (size_t)n);
            apir_ring_guest_publish(&ring);
            goes_on = serve();
        }
        FUZZ_CHECK(goes_on && worker_control_drain(&w) == 0);
    }
    for (unsigned i = 0; i < STEPS && in_left && goes_on; i++) {
        goes_on = step();
        if (goes_on)
            check_slots();
        if (goes_on)
            check_books();
    }
    context_close();
    return 0;
}
