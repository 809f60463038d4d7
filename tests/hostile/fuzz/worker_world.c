/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/fuzz/worker_world.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fdsock.h"
#include "tests/hostile/fuzz/cage.h"
#include "tests/hostile/fuzz/fuzz.h"

#define MEMORY (UINT64_C(8) << 20) /* bytes that the device has */

struct worker worker;
struct apir_ring_guest ring;
struct guest_map guest[GUEST_MAPS];
unsigned n_guest;
static int server_end; /* of the control socket */
static uint64_t memory_used;

/* ---- the input ------------------------------------------------------------------- */

struct fuzz_input world_in;

uint64_t world_take(size_t bytes)
{
    return fuzz_take(&world_in, bytes);
}

/* Numbers for a graph: some bytes of the input, and what follows from them. */
struct dice world_dice(void)
{
    size_t n = world_take(1) % 64;
    n = n < world_in.left ? n : world_in.left;
    struct dice d = {.data = world_in.at, .left = n, .state = UINT64_C(0xcbf29ce484222325)};
    world_in.at += n;
    world_in.left -= n;
    return d;
}

/* ---- the device's memory: between pages without access --------------------------- */

void __real_host_buffer_free(struct host_ggml *hg, struct host_buffer *b);
int __real_host_buffer_alloc(struct host_ggml *hg, const struct host_device *d, void *buft,
                             uint64_t size, struct host_buffer *ret_buffer);

FUZZ_DEFINE(int __wrap_host_buffer_alloc(struct host_ggml *hg, const struct host_device *d,
                                         void *buft, uint64_t size, struct host_buffer *ret_buffer))
{
    /* An extra type makes its own memory: the sanitizer watches that. */
    if (buft != d->buft)
        return size > MEMORY ? -ENOMEM : __real_host_buffer_alloc(hg, d, buft, size, ret_buffer);
    uint8_t *memory = size > MEMORY - memory_used ? NULL : cage_alloc(size, 64);
    if (!memory)
        return -ENOMEM;
    if (host_buffer_wrap(hg, d, memory, size, ret_buffer) < 0) {
        cage_free(memory);
        return -ENOMEM;
    }
    if (d == &hg->devices[QUEUED])
        ret_buffer->memory = NULL;
    memory_used += size;
    return 0;
}

FUZZ_DEFINE(void __wrap_host_buffer_free(struct host_ggml *hg, struct host_buffer *b))
{
    const struct host_buffer freed = *b;
    __real_host_buffer_free(hg, b);
    if (cage_free(freed.base))
        memory_used -= freed.size;
}

/* ---- what the CPU has not: a queue, events, an order of nodes -------------------- */

int __real_host_graph_compute(struct host_ggml *hg, void *stream, struct host_graph *g);

static uint32_t device_of(const void *stream)
{
    for (uint32_t i = 1; i <= APIR_STREAMS_MAX; i++) {
        if (worker.streams[i].host == stream)
            return worker.streams[i].device;
    }
    return QUEUED;
}

FUZZ_DEFINE(bool __wrap_host_stream_optimizes(struct host_ggml *hg, void *stream))
{
    /* Asked first when it is opened, before it is in the table. */
    return device_of(stream) == QUEUED;
}

/* The nodes backwards, and dependencies as many as there is room for, or one more. */
FUZZ_DEFINE(int __wrap_host_graph_optimize(struct host_ggml *hg, void *stream, struct host_graph *g,
                                           const struct gg_tensor *tensors, uint32_t n_tensors,
                                           uint32_t n_nodes, uint32_t *ret_order,
                                           struct host_dep *ret_deps, uint32_t max_deps))
{
    FUZZ_CHECK(g->cgraph && n_nodes <= n_tensors);
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
FUZZ_DEFINE(void *__wrap_host_event_new(struct host_ggml *hg, const struct host_device *d,
                                        const void *stream))
{
    FUZZ_CHECK(stream);
    return d == &hg->devices[QUEUED] ? calloc(1, sizeof(uint64_t)) : NULL;
}

FUZZ_DEFINE(void __wrap_host_event_free(struct host_ggml *hg, void *event))
{
    free(event);
}

static void event_use(void *event, const void *stream)
{
    FUZZ_CHECK(!stream || device_of(stream) == QUEUED);
    ++*(uint64_t *)event;
}

FUZZ_DEFINE(void __wrap_host_event_record(struct host_ggml *hg, void *event, void *stream))
{
    event_use(event, stream);
}

FUZZ_DEFINE(void __wrap_host_event_wait(struct host_ggml *hg, void *event, void *stream))
{
    event_use(event, stream);
}

FUZZ_DEFINE(void __wrap_host_event_sync(struct host_ggml *hg, void *event))
{
    event_use(event, NULL);
}

FUZZ_DEFINE(int __wrap_host_graph_compute(struct host_ggml *hg, void *stream, struct host_graph *g))
{
    return device_of(stream) == QUEUED ? 0 : __real_host_graph_compute(hg, stream, g);
}

/* ---- the server ------------------------------------------------------------------ */

static void server_says(uint32_t op, uint32_t blob, uint64_t size, int fd)
{
    const struct apir_control c = {.op = op, .blob_id = blob, .size = size};
    FUZZ_CHECK(apir_fdsock_send(server_end, &c, sizeof(c), &fd, fd >= 0) == 0);
}

void world_blob_add(uint32_t blob, uint64_t size)
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
static bool unanswered; /* a request, which must be the last */

static void server_answers(const struct apir_ask *ask)
{
    struct apir_control_answer a = {
        .op = APIR_CONTROL_ANSWER, .total = MEMORY, .free = UINT64_MAX, .why = "no"};
    uint32_t device = ask->flags & APIR_ASK_HOST ? 0 : QUEUED;
    FUZZ_CHECK(memchr(ask->device, 0, sizeof(ask->device)));
    if (ask->op == APIR_ASK_RELEASE) {
        FUZZ_CHECK(ask->size > 0 && ask->size <= books[device]);
        books[device] -= ask->size;
        return;
    }
    FUZZ_CHECK(ask->op == APIR_ASK_RESERVE || ask->op == APIR_ASK_ROOM);
    FUZZ_CHECK(!unanswered);
    if (ask->op == APIR_ASK_RESERVE) {
        const uint64_t luck = ask->size > MEMORY ? 31 : world_take(1);
        a.refused = luck % 32 == 31;
        if (luck % 32 == 30) {
            server_says(UINT32_MAX, 0, 0, -1);
            unanswered = true;
            return;
        }
        if (!a.refused)
            books[device] += ask->size;
    }
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
FUZZ_DEFINE(int __wrap_poll(struct pollfd *p, nfds_t n, int timeout_ms))
{
    FUZZ_CHECK(n == 1 && p->fd == worker.control_fd && timeout_ms < 0);
    server_serve();
    return 1;
}

void world_check_books(void)
{
    uint64_t reserved[2] = {0}, graphs_have = 0, queued = 0;
    server_serve();
    for (uint32_t i = 0; i < APIR_BUFFERS_MAX; i++)
        reserved[worker.buffers[i].device] += worker.buffers[i].reserved;
    for (uint32_t i = 0; i < APIR_SLOTS_MAX; i++)
        graphs_have += worker.slots[i].bytes;
    for (uint32_t i = 0; i <= APIR_STREAMS_MAX; i++)
        queued += worker.streams[i].queued_bytes;
    FUZZ_CHECK(reserved[0] == books[0] && reserved[QUEUED] == books[QUEUED]);
    FUZZ_CHECK(graphs_have == worker.graph_bytes && graphs_have <= worker.graph_limit);
    FUZZ_CHECK(queued == worker.queued_bytes && queued <= worker.queue_limit);
}

/* The server adds no blob twice; when the guest may use an id again, it knows. */
void world_blob_step(void)
{
    static const uint8_t sizes[] = {1, 2, 4, 33}; /* the last has room for a huge page */
    uint32_t blob = 1 + (uint32_t)world_take(1) % (BLOBS - 1);
    if (worker.blobs[blob].map)
        server_says(APIR_CONTROL_DEL_BLOB, blob, 0, -1);
    else
        world_blob_add(blob, (uint64_t)APIR_SHM_ALIGN * sizes[world_take(1) % 4]);
    FUZZ_CHECK(worker_control_drain(&worker) == 0);
    worker_blobs_reap(&worker); /* as the worker does between two messages */
}

/* ---- life of a context ----------------------------------------------------------- */

void world_load(void)
{
    cage_load(&worker.ggml);
    worker_meaning_init(&worker.meaning, host_ggml_has, &worker.ggml);
    struct host_device *d = &worker.ggml.devices[QUEUED];
    *d = worker.ggml.devices[0];
    d->flags &= ~(uint32_t)APIR_DEVICE_SYNC;
    d->is_gpu = true;
    worker.ggml.n_devices = 2;
}

void world_open(bool narrow)
{
    int sockets[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    worker.control_fd = sockets[0];
    server_end = sockets[1];
    worker.state = APIR_ST_NEW;
    worker.shm_limit = UINT64_C(64) << 20;
    worker.graph_limit = narrow ? 100000 : UINT64_C(64) << 20;
    worker.queue_limit = narrow ? 100000 : UINT64_C(64) << 20;
    worker.is_limited = worker.room_is_limited = narrow;
    worker.control_err = 0;
    unanswered = false;
    worker.devices_used = 0;
    world_blob_add(APIR_RING_BLOB_ID, APIR_RING_SIZE_MIN);
    FUZZ_CHECK(worker_control_drain(&worker) == 0);
    uint8_t *map = guest[0].map;
    struct apir_ring_header *h = (struct apir_ring_header *)(void *)map;
    ring = (struct apir_ring_guest){
        .header = h,
        .cmd = map + apir_ring_cmd_offset(APIR_RING_SIZE_MIN),
        .cmd_size = APIR_RING_SIZE_MIN / 2,
    };
    apir_ring_host_init(&worker.ring, worker.blobs[APIR_RING_BLOB_ID].map, APIR_RING_SIZE_MIN);
}

/* The end of the process, in which all of this goes. */
void world_close(void)
{
    worker_blobs_reap(&worker);
    worker_streams_settle(&worker);
    for (uint32_t i = 0; i < APIR_SLOTS_MAX; i++)
        worker_slot_clear(&worker, &worker.slots[i]);
    for (uint32_t i = 0; i < APIR_EVENTS_MAX; i++) {
        if (worker.events[i].host)
            host_event_free(&worker.ggml, worker.events[i].host);
        worker.events[i] = (struct worker_event){0};
    }
    for (uint32_t i = 1; i <= APIR_STREAMS_MAX; i++) {
        if (worker.streams[i].host)
            host_stream_close(&worker.ggml, worker.streams[i].host);
        worker.streams[i] = (struct worker_stream){0};
    }
    for (uint32_t i = 0; i < APIR_BUFFERS_MAX; i++) {
        struct worker_buffer *b = &worker.buffers[i];
        if (!b->id)
            continue;
        worker_extra_free(&worker, b);
        host_buffer_free(&worker.ggml, &b->host);
        worker_release(&worker, b->device, b->reserved);
        *b = (struct worker_buffer){0};
    }
    for (uint32_t i = 0; i < APIR_BLOBS_MAX; i++) {
        if (worker.blobs[i].direct.handle)
            host_buffer_free(&worker.ggml, &worker.blobs[i].direct);
        if (worker.blobs[i].map)
            munmap(worker.blobs[i].map, worker.blobs[i].size);
        worker.blobs[i] = (struct worker_blob){0};
    }
    for (unsigned i = 0; i < n_guest; i++)
        munmap(guest[i].map, guest[i].size);
    n_guest = 0;
    world_check_books();
    FUZZ_CHECK(worker.graph_bytes == 0 && worker.queued_bytes == 0);
    close(worker.control_fd);
    close(server_end);
    FUZZ_CHECK(memory_used == 0);
}

/* ---- what a slot promises -------------------------------------------------------- */

void world_check_slots(void)
{
    for (uint32_t i = 0; i < APIR_SLOTS_MAX; i++) {
        const struct worker_slot *s = &worker.slots[i];
        if (s->state != SLOT_READY)
            continue;
        FUZZ_CHECK(s->graph.cgraph);
        for (uint32_t k = 0; k < s->wire.n_buffers; k++)
            FUZZ_CHECK(worker_buffer_find(&worker, s->wire.buffers[k].id));
        for (uint32_t k = 0; k < s->wire.n_tensors; k++) {
            const struct apir_tensor *t = &s->wire.tensors[k];
            if (!(t->bits & APIR_TENSOR_BUFFER))
                continue;
            const struct worker_buffer *b =
                worker_buffer_find(&worker, s->wire.buffers[t->buffer].id);
            uint64_t extent = 0;
            FUZZ_CHECK(!worker_rules_extent(&worker.ggml.types[t->type], t, &extent));
            FUZZ_CHECK(t->offset <= b->host.size && extent <= b->host.size - t->offset);
            FUZZ_CHECK((uint8_t *)s->tensors[k].data == b->host.base + t->offset);
        }
    }
}
