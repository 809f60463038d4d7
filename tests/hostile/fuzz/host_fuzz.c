/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host without manners and its guest: the plug-in's session with it, over unix sockets and
 * vtest, the order of nodes that it prefers, and what `apir doctor` asks. The server's answers on
 * the socket, descriptors included, and all of the shared memory are the input's; time passes when
 * somebody looks at the clock, and that is when the host does something. Whatever it does, every
 * call returns.
 *
 * Input: a byte for each message that the server has ready at connect (as it should be, or
 * changed), then steps of the guest and of the host.
 */
#define _GNU_SOURCE
#include "tests/hostile/fuzz/fuzz.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ggml.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cdi/host/session.h"
#include "frontend/graph/orders.h"
#include "frontend/graph/slots.h"
#include "frontend/link/shared.h"
#include "frontend/plugin/stream.h"
#include "common/fdsock.h"
#include "protocol/ggml_probe.h"
#include "common/log.h"
#include "common/text.h"
#include "protocol/unix.h"

const char fuzz_corpus[] = "host";

#define BLOB_SIZE ((size_t)CLIENT_ARENA_SIZE) /* of each memfd: no less than is asked for */
#define BLOBS     5u                          /* that the server has ready */
#define STEPS     64
#define LEAVES    1u /* of the graph: first in its encoding */
#define NODES     6u
#define LOOKS_MAX 2000000 /* at the clock: a call that takes more does not return */

static struct fuzz_input in;
static uint8_t *ring; /* the host's view of the ring blob; NULL: not made yet */
static uint8_t *arena;
static uint64_t now_ns;
static unsigned long looks;
static bool silent; /* the host does nothing any more */

static uint64_t take(size_t bytes)
{
    return fuzz_take(&in, bytes);
}

/* ---- memory, so that nothing of a session stays ---------------------------------- */

static struct {
    void *map;
    size_t size;
} maps[64];

void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *map, size_t size);

FUZZ_DEFINE(void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset))
{
    void *map = __real_mmap(at, size, prot, flags, fd, offset);
    for (size_t i = 0; map != MAP_FAILED && i < sizeof(maps) / sizeof(maps[0]); i++) {
        if (maps[i].map)
            continue;
        maps[i].map = map;
        maps[i].size = size;
        return map;
    }
    FUZZ_CHECK(map == MAP_FAILED);
    return map;
}

FUZZ_DEFINE(int __wrap_munmap(void *map, size_t size))
{
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        if (maps[i].map == map) {
            FUZZ_CHECK(maps[i].size == size);
            maps[i].map = NULL;
        }
    }
    return __real_munmap(map, size);
}

static void unmap_all(void)
{
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        if (maps[i].map)
            munmap(maps[i].map, maps[i].size);
    }
}

/* ---- what the server has to say at once ------------------------------------------ */

static uint8_t *blob_maps[BLOBS];
static int blob_fds[BLOBS];
static int short_fd; /* of one page */

static void blobs_make(void)
{
    short_fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FUZZ_CHECK(short_fd >= 0 && ftruncate(short_fd, 4096) == 0 &&
               fcntl(short_fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    for (unsigned i = 0; i < BLOBS; i++) {
        blob_fds[i] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        FUZZ_CHECK(blob_fds[i] >= 0 && ftruncate(blob_fds[i], (off_t)BLOB_SIZE) == 0 &&
                   fcntl(blob_fds[i], F_ADD_SEALS, F_SEAL_SHRINK) == 0);
        blob_maps[i] =
            __real_mmap(NULL, BLOB_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, blob_fds[i], 0);
        FUZZ_CHECK(blob_maps[i] != MAP_FAILED);
    }
    ring = blob_maps[0];
    arena = blob_maps[1];
}

/* As the server makes it, but for what the input says. */
static void ring_make(void)
{
    memset(ring, 0,
           APIR_RING_HEADER_SIZE + (CLIENT_CALLS_MAX + APIR_STREAMS_MAX) * APIR_REPLY_SIZE);
    struct apir_ring_header *h = (struct apir_ring_header *)(void *)ring;
    *h = (struct apir_ring_header){
        .magic = APIR_RING_MAGIC,
        .blob_size = APIR_RING_SIZE,
        .reply_offset = APIR_RING_HEADER_SIZE,
        .reply_size = apir_ring_reply_size(APIR_RING_SIZE),
        .cmd_offset = apir_ring_cmd_offset(APIR_RING_SIZE),
        .cmd_size = APIR_RING_SIZE / 2,
        .state = take(1) % 4 ? APIR_STATE_READY : (uint32_t)take(1) % 6,
    };
    if (take(1) % 16 == 15)
        ring[take(1) % 64] = (uint8_t)take(1);
}

/* fd -1: none goes along. */
static void answer(int to, const void *data, size_t size, int fd)
{
    uint8_t bytes[sizeof(struct apir_unix_welcome)];
    int fds[2] = {fd, 2};
    size_t n_fds = fd >= 0;
    uint8_t flags = (uint8_t)take(1);
    memcpy(bytes, data, size);
    if (flags >= 0xf8)
        return;
    if ((flags & 0x07) == 0x07)
        bytes[take(2) % size] = (uint8_t)take(1);
    if (fd >= 0 && (flags & 0x07) == 0x06)
        fds[0] = short_fd;
    if ((flags & 0x38) == 0x38) {
        n_fds = take(1) % 3;
        fds[0] = fds[0] < 0 ? 2 : fds[0];
    }
    if ((flags & 0xc0) == 0xc0)
        size = 1 + take(1) % size;
    (void)apir_fdsock_send(to, bytes, size, fds, n_fds);
}

static void unix_answers(int to)
{
    const struct apir_unix_welcome welcome = {
        .magic = APIR_UNIX_MAGIC, .major = APIR_PROTOCOL_MAJOR, .text = "no"};
    answer(to, &welcome, sizeof(welcome), -1);
    for (uint32_t i = 0; i < BLOBS; i++) {
        const struct apir_unix_answer a = {.op = APIR_UNIX_BLOB_CREATE, .blob_id = i};
        answer(to, &a, sizeof(a), blob_fds[i]);
    }
}

static void vtest_answers(int to)
{
    static const uint32_t ping[] = {0, 10}, busy[] = {1, 7, 0}, version[] = {1, 11, 4};
    answer(to, ping, sizeof(ping), -1);
    answer(to, busy, sizeof(busy), -1);
    answer(to, version, sizeof(version), -1);
    for (uint32_t i = 0; i < BLOBS; i++) {
        const uint32_t created[] = {1, 18, i + 1};
        answer(to, created, sizeof(created), -1);
        answer(to, "", 1, blob_fds[i]);
    }
}

static int server_end = -1;

/* A server that has said all it will ever say: nobody waits for more. */
FUZZ_DEFINE(int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t size))
{
    int type = 0, pair[2];
    socklen_t n = sizeof(type);
    FUZZ_CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0);
    FUZZ_CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) == 0);
    server_end = pair[0];
    FUZZ_CHECK(dup3(pair[1], fd, O_CLOEXEC) == fd);
    close(pair[1]);
    if (type == SOCK_SEQPACKET)
        unix_answers(server_end);
    else
        vtest_answers(server_end);
    FUZZ_CHECK(shutdown(server_end, SHUT_WR) == 0);
    return 0;
}

/* ---- what the host does meanwhile ------------------------------------------------------ */

static struct apir_ring_host host;

static void reply_put(uint32_t offset, const void *data, size_t size)
{
    if (offset <= APIR_REPLY_SIZE * (CLIENT_CALLS_MAX + APIR_STREAMS_MAX - 1))
        memcpy(ring + APIR_RING_HEADER_SIZE + offset, data, size);
}

/* The order that there is, and two dependencies; but for what the input says. */
static void order_put(const struct apir_msg_graph_optimize *m)
{
    struct apir_reply_optimize r = {.n_nodes = NODES, .n_deps = 2};
    uint32_t out[NODES + 4];
    FUZZ_CHECK(m->out_offset <= BLOB_SIZE && sizeof(out) <= BLOB_SIZE - m->out_offset);
    for (uint32_t i = 0; i < NODES + 4; i++)
        out[i] = i < NODES ? LEAVES + i : i % 2 ? LEAVES + 1 : 0;
    for (uint32_t n = (uint32_t)take(1) % 4; n; n--)
        out[take(1) % (NODES + 4)] = (uint32_t)(take(1) % 16 ? take(1) % (2 * NODES) : take(4));
    if (take(1) % 4 == 3)
        memset((uint8_t *)&r + take(1) % sizeof(r), (int)take(1), 1);
    memcpy(arena + m->out_offset, out, sizeof(out));
    reply_put(m->reply, &r, sizeof(r));
}

/* One message, as a good host would; then a byte of the answer is the input's. */
static void host_answers(void)
{
    static uint8_t buf[APIR_MESSAGE_MAX];
    struct apir_msg msg;
    const char *why;
    size_t size;
    if (apir_ring_host_take(&host, buf, sizeof(buf), &size) < 0)
        return;
    FUZZ_CHECK(apir_msg_decode(buf, size, APIR_ST_NEW, &msg, &why) == 0 ||
               apir_msg_decode(buf, size, APIR_ST_READY, &msg, &why) == 0);
    if (msg.code == APIR_MSG_HELLO) {
        struct apir_reply_hello r = {.major = APIR_PROTOCOL_MAJOR,
                                     .minor = APIR_PROTOCOL_MINOR,
                                     .n_devices = 1 + (uint32_t)take(1) % 3,
                                     .shm_limit = UINT64_C(64) << 20};
        if (take(1) % 8 == 7)
            ((uint8_t *)&r)[take(1) % 24] = (uint8_t)take(1);
        reply_put(msg.u.hello.reply, &r, sizeof(r));
    } else if (msg.code == APIR_MSG_DEVICE_INFO) {
        struct apir_reply_device_info r = {.alignment = 64, .name = "Vulkan0", .id = "0000:01:00"};
        r.id[take(1) % 8] = (char)('a' + msg.u.device_info.device);
        if (take(1) % 8 == 7)
            memset((uint8_t *)&r + take(2) % sizeof(r), (int)take(1), 1);
        reply_put(msg.u.device_info.reply, &r, sizeof(r));
    }
    if (msg.code == APIR_MSG_GRAPH_OPTIMIZE)
        order_put(&msg.u.graph_optimize);
    /* Some of it is there; the rest with the next step. */
    if (msg.code == APIR_MSG_GET && take(1) % 2) {
        apir_ring_host_progress(&host, 1 + take(1) % (size - 1));
        return;
    }
    apir_ring_host_done(&host);
    apir_ring_host_show(&host);
}

static void host_step(void)
{
    struct apir_ring_header *h = (struct apir_ring_header *)(void *)ring;
    uint8_t kind = (uint8_t)take(1);
    if (silent)
        return;
    if (kind < 0xc0) {
        host_answers();
        return;
    }
    switch (kind % 16) {
    case 0:
        h->head = take(8);
        break;
    case 1:
        h->head = h->tail + (uint64_t)(int64_t)(int8_t)take(1);
        break;
    case 2:
        h->state = (uint32_t)take(1) % 7;
        break;
    case 3:
    case 4:
        h->pong = plugin.client.ping;
        break;
    case 5:
        h->pong = (uint32_t)take(4);
        break;
    case 6:
        memset(h->reason + take(1), (int)take(1), 1);
        break;
    case 7:
        h->idle = (uint32_t)take(1);
        break;
    case 8:
        ring[take(2) % (APIR_RING_HEADER_SIZE + 8 * APIR_REPLY_SIZE)] = (uint8_t)take(1);
        break;
    case 9:
        arena[take(3) % BLOB_SIZE] = (uint8_t)take(1);
        break;
    case 10:
        h->wake++;
        break;
    case 11:
        silent = true; /* for good */
        break;
    default:
        break;
    }
}

/* ---- time ------------------------------------------------------------------------------ */

static void pass(uint64_t ns)
{
    now_ns += ns;
    FUZZ_CHECK(++looks < LOOKS_MAX);
    host_step();
}

FUZZ_DEFINE(int __wrap_clock_gettime(clockid_t clock, struct timespec *ts))
{
    pass(20000);
    *ts = (struct timespec){(time_t)(now_ns / 1000000000u), (long)(now_ns % 1000000000u)};
    return 0;
}

FUZZ_DEFINE(int __wrap_nanosleep(const struct timespec *ts, struct timespec *left))
{
    pass((uint64_t)ts->tv_sec * 1000000000u + (uint64_t)ts->tv_nsec);
    return 0;
}

FUZZ_DEFINE(int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *ts,
                                       struct timespec *left))
{
    return __wrap_nanosleep(ts, left);
}

/* What the server has sent is there; the rest will never come. */
int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
FUZZ_DEFINE(int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout))
{
    const int ready = __real_poll(fds, n, 0);
    if (ready == 0 && timeout > 0)
        pass((uint64_t)timeout * 1000000u);
    return ready;
}

/* Futexes. A lock that is waited for would never come: there is but one thread. */
FUZZ_DEFINE(long __wrap_syscall(long number, ...))
{
    va_list ap;
    if (number == SYS_sched_yield)
        return 0;
    FUZZ_CHECK(number == SYS_futex);
    va_start(ap, number);
    (void)va_arg(ap, uint32_t *);
    int op = va_arg(ap, int);
    (void)va_arg(ap, uint32_t);
    const struct timespec *ts = va_arg(ap, const struct timespec *);
    va_end(ap);
    FUZZ_CHECK(op != FUTEX_WAIT_PRIVATE);
    if (op == FUTEX_WAIT)
        __wrap_nanosleep(ts, NULL);
    return 0;
}

FUZZ_DEFINE(void __wrap_apir_log(enum apir_log_level level, const char *fmt, ...))
{
    FUZZ_CHECK(fmt[0] != '\0');
}

/* ---- the guest ------------------------------------------------------------------------- */

static void call_step(void)
{
    struct apir_reply_device_info info;
    struct apir_msg msg = {.code = APIR_MSG_DEVICE_INFO,
                           .u.device_info = {.device = (uint32_t)take(1) % 3}};
    int rc = client_call(&plugin.client, &msg, &msg.u.device_info.reply, &info, sizeof(info));
    FUZZ_CHECK(rc == 0 || rc == -ENODEV || rc == -EBUSY);
    FUZZ_CHECK(rc != -ENODEV || !client_usable(&plugin.client));
}

static void shared_step(void)
{
    uint64_t size = 1 + take(1) * 4096;
    struct client_shared *s = client_shared_new(&plugin.client, size, 1 + (uint32_t)take(1) % 4);
    if (!s)
        return;
    FUZZ_CHECK(s->blob.map && s->blob.size >= size);
    memset(s->blob.map, 1, size);
    client_shared_register(&plugin.client, s, 0);
    if (take(1) % 2) {
        take(1); /* kept inputs have a byte here */
        client_shared_free(&plugin.client, s);
    }
}

/* A read by way of the arena. */
static void read_step(void)
{
    static uint8_t dst[3 * 4096];
    struct apir_msg msg = {.code = APIR_MSG_GET, .u.get = {.buffer = 1, .blob = 1}};
    uint64_t size = 1 + take(2) % sizeof(dst);
    client_lock(&plugin.client);
    uint64_t room = take(1) % 4 ? size : take(3);
    struct client_block *b = client_block_locked(&plugin.client, room);
    if (b) {
        FUZZ_CHECK(b->offset <= plugin.client.arena_size &&
                   b->size <= plugin.client.arena_size - b->offset);
        FUZZ_CHECK(b->size >= room);
        uint8_t *data = client_block_data(&plugin.client, b);
        if (b->size)
            data[0] = data[b->size - 1] = 2;
        size = size < b->size ? size : b->size;
        b->held = 1;
        msg.u.get.size = size;
        msg.u.get.blob_offset = b->offset;
        uint64_t pos = client_put_locked(&plugin.client, &msg);
        b->until = pos;
        const struct client_read r = {
            .dst = dst, .size = size, .until = pos, .block = b, .stream = (uint32_t)take(1) % 2};
        if (pos)
            client_read_defer_locked(&plugin.client, &r);
        else
            client_block_release(b);
        if (take(1) % 2)
            client_reads_finish_locked(&plugin.client, 0, UINT64_MAX);
    }
    client_unlock(&plugin.client);
}

/* More than the ring has room for. */
static void many_step(void)
{
    static const uint8_t tail[APIR_INLINE_MAX];
    struct apir_msg msg = {.code = APIR_MSG_SET_INLINE,
                           .tail = tail,
                           .u.set_inline = {.buffer = 1, .size = sizeof(tail)}};
    client_lock(&plugin.client);
    for (uint32_t n = (uint32_t)take(1) % 128; n && client_put_locked(&plugin.client, &msg); n--) {
    }
    client_flush_locked(&plugin.client);
    client_unlock(&plugin.client);
    (void)client_wait(&plugin.client, plugin.client.ring.tail, take(2) * 1000);
}

static struct gg_cgraph_head *graph;

/* What the plug-in asks the program's ggml for. */
static void graph_make(void)
{
    static uint8_t memory[1 << 20] __attribute__((aligned(64)));
    const struct ggml_init_params params = {
        .mem_size = sizeof(memory), .mem_buffer = memory, .no_alloc = true};
    char why[256];
    FUZZ_CHECK(ggml_probe_layout(dlsym, RTLD_DEFAULT, &plugin.layout, why, sizeof(why)) == 0);
    const char *(*op_name)(enum ggml_op) = ggml_op_name;
    memcpy(&plugin.op_name, &op_name, sizeof(op_name));
    int64_t (*blck_size)(enum ggml_type) = ggml_blck_size;
    memcpy(&plugin.blck_size, &blck_size, sizeof(blck_size));
    static struct ggml_context *ctx;
    ctx = ggml_init(params);
    struct ggml_cgraph *g = ggml_new_graph(ctx);
    struct ggml_tensor *leaf = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 32), *t = NULL;
    for (uint32_t i = 0; i < NODES; i++) {
        t = ggml_sqr(ctx, i % 2 ? t : leaf);
        ggml_build_forward_expand(g, t);
    }
    graph = (struct gg_cgraph_head *)(void *)g;
    FUZZ_CHECK(graph->n_nodes == NODES);
}

/* Whatever the host prefers: it is an order of our own nodes, each behind its source. */
static void order_step(void)
{
    static struct plugin_device device;
    struct plugin_stream stream = {.id = 1, .device = &device};
    const struct order *o = orders_get(&plugin_orders, &stream, graph);
    if (!o)
        return;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        FUZZ_CHECK(o->order[i] >= LEAVES && o->order[i] < LEAVES + NODES);
        seen |= 1u << o->order[i];
        const uint32_t node = o->order[i] - LEAVES;
        FUZZ_CHECK(node % 2 == 0 || (seen & (1u << (o->order[i] - 1))));
    }
    FUZZ_CHECK(o->n_nodes == NODES && __builtin_popcount(seen) == NODES);
    FUZZ_CHECK(o->n_deps <= LEAVES + NODES);
    for (uint32_t i = 0; i < 2 * o->n_deps; i++)
        FUZZ_CHECK(o->deps[i] < LEAVES + NODES);
}

static void orders_forget(void)
{
    for (uint32_t i = 0; i < ORDERS_KEPT; i++) {
        struct order *o = &plugin_orders.kept[i];
        free(o->key);
        free(o->order);
        *o = (struct order){0};
    }
}

/* As `apir doctor` and `apir cdi generate` ask. */
static void doctor_step(void)
{
    static struct cdi_session session;
    session = (struct cdi_session){0};
    cdi_session_ask(&plugin.client, &session);
    FUZZ_CHECK((session.passed == CDI_SESSION_DEVICES) == (session.text[0] == '\0'));
    FUZZ_CHECK(session.n_devices <= APIR_DEVICES_MAX);
    for (uint32_t i = 0; i < session.n_devices; i++) {
        const struct cdi_session_device *d = &session.devices[i];
        char clean[sizeof(d->name)];
        FUZZ_CHECK(memchr(d->id, 0, sizeof(d->id)) && memchr(d->name, 0, sizeof(d->name)));
        memcpy(clean, d->name, sizeof(clean));
        apir_text_clean(clean);
        FUZZ_CHECK(strcmp(clean, d->name) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const choices[] = {"unix:/x", "vtest:/x"};
    struct apir_error err = {0};
    in = (struct fuzz_input){data, size};
    if (!ring) {
        signal(SIGPIPE, SIG_IGN);
        blobs_make();
        graph_make();
    }
    looks = 0;
    silent = false;
    now_ns = 1000000000;
    const char *choice = choices[take(1) % 2];
    ring_make();
    apir_ring_host_init(&host, ring, APIR_RING_SIZE);
    int rc = client_open(&plugin.client, choice, &err);
    FUZZ_CHECK((rc < 0) == (err.msg[0] != '\0'));
    for (unsigned i = 0; rc == 0 && in.left && i < STEPS; i++) {
        static void (*const steps[])(void) = {call_step, shared_step, read_step,
                                              many_step, order_step,  doctor_step};
        uint8_t kind = (uint8_t)take(1);
        steps[kind >= 0xf8 ? 5 : kind % 5]();
        FUZZ_CHECK(client_usable(&plugin.client) || plugin.client.transport.fd < 0);
    }
    client_lose(&plugin.client, "over");
    FUZZ_CHECK(plugin.client.transport.fd < 0);
    if (server_end >= 0)
        close(server_end);
    server_end = -1;
    orders_forget();
    unmap_all();
    return 0;
}
