/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VMM's virglrenderer that has been taken over, at the render server: any messages on its
 * socket and on those of its contexts, with and without descriptors, closed at any point; workers
 * that say what they like of their progress; a stock server that answers anything. The server's
 * own code behind a socket pair; only no process is started.
 *
 * Input: u8 whether there is a context with a ring, a timeline and a worker (bit 0), and whether
 * the VMM's sockets are streams (bit 4), then steps. u8 which (low 3 bits: who speaks; bits 3 to 5:
 * how many descriptors; bit 6: in the form of a request; bit 7: all answers are read before), u8
 * size, then the bytes. What has not the form of a request is sent over a stream as it is: lengths
 * are its own.
 */
#define _GNU_SOURCE
#include "tests/hostile/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "backend/server/child.h"
#include "backend/server/vmm/vmm.h"
#include "backend/server/vmm/render_protocol.h"
#include "protocol/atomic.h"
#include "common/fdsock.h"
#include "common/log.h"
#include "protocol/shm.h"
#include "tests/lib/fds.h"

const char fuzz_corpus[] = "virgl";

#define CONTEXTS 4
#define CHILDREN 16

/* ---- time, which only passes when the input says so ------------------------------ */

static int64_t now_ms = 1000000;

FUZZ_DEFINE(int __wrap_clock_gettime(clockid_t clock, struct timespec *ts))
{
    *ts = (struct timespec){.tv_sec = now_ms / 1000, .tv_nsec = now_ms % 1000 * 1000000};
    return 0;
}

/* ---- processes that are not started ---------------------------------------------- */

static struct {
    struct server_child *child;
    bool is_worker;
    int socket_fd;
    struct apir_worker_status *status;
} started[CHILDREN];
static unsigned n_started;

static int keep(int fd)
{
    int copy = dup(fd);
    FUZZ_CHECK(copy >= 0);
    return copy;
}

FUZZ_DEFINE(int __wrap_server_child_start(
    struct server_children *children, struct server_child *child,
    const struct server_child_spec *spec,
    void (*changed)(void *user, enum server_child_change change, int status), void *user))
{
    if (n_started == CHILDREN)
        return -EAGAIN;
    *child = (struct server_child){.pid = 1 << 30, .changed = changed, .user = user};
    unsigned i = n_started++;
    started[i].child = child;
    started[i].is_worker = spec->is_worker;
    started[i].socket_fd = keep(spec->fds[0]);
    started[i].status = NULL;
    if (spec->is_worker) {
        started[i].status = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, spec->fds[1], 0);
        FUZZ_CHECK(started[i].status != MAP_FAILED);
    }
    return 0;
}

static void child_drop(unsigned i)
{
    if (started[i].status)
        munmap(started[i].status, 4096);
    close(started[i].socket_fd);
    started[i] = started[--n_started];
}

/* Its end is the input's to tell. */
FUZZ_DEFINE(void __wrap_server_child_kill(struct server_child *child))
{
}

/* Nobody is told of its end any more. */
FUZZ_DEFINE(void __wrap_server_child_forget(struct server_children *children,
                                            struct server_child *child))
{
    for (unsigned i = 0; i < n_started; i++) {
        if (started[i].child == child) {
            child_drop(i);
            break;
        }
    }
    *child = (struct server_child){0};
}

FUZZ_DEFINE(void __wrap_server_child_move(
    struct server_children *children, struct server_child *from, struct server_child *to,
    void (*changed)(void *user, enum server_child_change change, int status), void *user))
{
    if (from->pid <= 0)
        return;
    *to = (struct server_child){.pid = from->pid, .changed = changed, .user = user};
    *from = (struct server_child){0};
    for (unsigned i = 0; i < n_started; i++) {
        if (started[i].child == from)
            started[i].child = to;
    }
}

/* ---- the VMM --------------------------------------------------------------------- */

/* At once: what is left behind is counted. */
FUZZ_DEFINE(bool __wrap_server_free_later(int fd, uint64_t size, uint32_t *done))
{
    (void)size;
    close(fd);
    if (done)
        *done = 1;
    return true;
}

static struct server_loop loop;
static struct server_children children;
static char limits_dir[64];
static struct apir_config config = {
    .max_contexts = 3,
    .context_shm_mib = 4,
    .stock_server = (char *)"/bin/true",
    .device_memory_mib = 64,
    .max_contexts_per_device = 2,
    .context_device_memory_mib = 40,
    .context_host_memory_mib = 24,
    .seconds_per_graph = 5,
    .limits_dir = limits_dir,
};
static struct server_vmm client;
static bool streams;          /* the VMM's socket and those of its contexts */
static int vmm;               /* its end of the client socket */
static int sockets[CONTEXTS]; /* of its contexts, as far as it has got them; -1 */

static void run(void)
{
    int rc;
    while (!loop.stop && (rc = server_loop_turn(&loop, 0)) == 1) {
    }
    FUZZ_CHECK(loop.stop || rc == 0);
}

/* A context's socket takes the first free place, or that of context 0. */
static void context_keep(int fd)
{
    unsigned i = 0;
    while (i < CONTEXTS - 1 && sockets[i] >= 0)
        i++;
    if (sockets[i] >= 0)
        close(sockets[i]);
    sockets[i] = fd;
}

/* False: there is none. Of a stream the length first, which is the message's. */
static bool reply_take(int fd, void *data, size_t size, int *fds, size_t *ret_n_fds)
{
    uint32_t length = 0;
    size_t got = 0, none;
    if (fd < 0)
        return false;
    if (!streams)
        return apir_fdsock_recv(fd, data, size, &got, fds, 1, ret_n_fds, MSG_DONTWAIT) == 0 && got;
    if (apir_fdsock_recv(fd, &length, sizeof(length), &got, fds, 1, ret_n_fds, MSG_DONTWAIT) != 0 ||
        got == 0)
        return false;
    FUZZ_CHECK(got == sizeof(length) && ntohl(length) == size);
    FUZZ_CHECK(apir_fdsock_recv(fd, data, size, &got, NULL, 0, &none, MSG_DONTWAIT) == 0);
    return got == size;
}

static void drain(int fd, bool is_client)
{
    struct render_context_create_resource_reply any;
    int fds[APIR_FDSOCK_FDS_MAX];
    size_t n_fds = 0;
    const size_t size = is_client ? sizeof(struct render_client_create_context_reply) : sizeof(any);
    while (reply_take(fd, &any, size, fds, &n_fds)) {
        FUZZ_CHECK(n_fds <= 1);
        if (n_fds && is_client)
            context_keep(fds[0]);
        else if (n_fds)
            close(fds[0]);
    }
}

static void drain_all(void)
{
    drain(vmm, true);
    for (unsigned i = 0; i < CONTEXTS; i++)
        drain(sockets[i], false);
}

static void check_invariants(void)
{
    unsigned served = 0, refused = 0;
    for (const struct server_context *c = client.contexts.first; c; c = c->next) {
        uint64_t total = 0;
        for (uint32_t i = 0; i < APIR_BLOBS_MAX; i++)
            total += c->blobs[i].size;
        FUZZ_CHECK(total == c->shm_size && total <= (uint64_t)config.context_shm_mib << 20);
        if (c->served)
            served++;
        else
            refused++;
        FUZZ_CHECK(!c->ring || c->blobs[APIR_RING_BLOB_ID].used || c->lost);
    }
    FUZZ_CHECK(served == client.contexts.n_served && served <= config.max_contexts);
    FUZZ_CHECK(refused == client.contexts.n_refused);
}

/* ---- requests: the fields that must fit each other do, mostly -------------------- */

static size_t client_form(union render_client_request *r)
{
    static const char *const names[] = {"apir:1", "apir:2", "apir:", "venus", "apir:1x"};
    r->op %= RENDER_CLIENT_OP_COUNT;
    switch (r->op) {
    case RENDER_CLIENT_CREATE_CONTEXT:
        memset(r->create_context.name + 1, 0, sizeof(r->create_context.name) - 1);
        snprintf(r->create_context.name, sizeof(r->create_context.name), "%s",
                 names[(uint8_t)r->create_context.name[0] % 5]);
        r->create_context.context_id %= 5;
        return sizeof(r->create_context);
    case RENDER_CLIENT_INIT:
        return sizeof(r->init);
    case RENDER_CLIENT_DESTROY_CONTEXT:
        r->destroy_context.context_id %= 5;
        return sizeof(r->destroy_context);
    default:
        return sizeof(r->op);
    }
}

static size_t submit_form(struct render_context_submit_cmd *r)
{
    struct apir_doorbell bell;
    memcpy(&bell, r->cmd, sizeof(bell));
    if (r->size & 1) {
        bell.magic = APIR_DOORBELL_MAGIC;
        bell.zero = 0;
        bell.op %= 5;
        r->size = sizeof(bell);
    } else {
        r->size %= 600;
    }
    memcpy(r->cmd, &bell, sizeof(bell));
    return sizeof(*r);
}

static size_t context_form(union render_context_request *r)
{
    r->op %= RENDER_CONTEXT_OP_COUNT;
    switch (r->op) {
    case RENDER_CONTEXT_INIT:
        r->init.shmem_size = r->init.shmem_size % 4 ? 256 : r->init.shmem_size % 70000;
        return sizeof(r->init);
    case RENDER_CONTEXT_CREATE_RESOURCE:
        r->create_resource.res_id %= 8;
        r->create_resource.blob_id %= 4;
        r->create_resource.blob_size =
            r->create_resource.blob_id == 0 && r->create_resource.blob_size % 4
                ? APIR_RING_SIZE
                : r->create_resource.blob_size % 40 * APIR_SHM_ALIGN;
        return sizeof(r->create_resource);
    case RENDER_CONTEXT_IMPORT_RESOURCE:
        return sizeof(r->import_resource);
    case RENDER_CONTEXT_DESTROY_RESOURCE:
        r->destroy_resource.res_id %= 8;
        return sizeof(r->destroy_resource);
    case RENDER_CONTEXT_SUBMIT_CMD:
        return submit_form(&r->submit_cmd);
    case RENDER_CONTEXT_SUBMIT_FENCE:
        r->submit_fence.ring_index %= 66;
        return sizeof(r->submit_fence);
    default:
        return sizeof(r->op);
    }
}

/* A socket that is full takes no more: nobody waits for the server here. */
static void put(int fd, const void *data, size_t size, bool framed, const int *fds, size_t n_fds)
{
    const uint32_t length = htonl((uint32_t)size);
    if (streams && framed) {
        if (apir_fdsock_send(fd, &length, sizeof(length), fds, n_fds) < 0)
            return;
        n_fds = 0;
    }
    (void)apir_fdsock_send(fd, data, size, fds, n_fds);
}

/* What a VMM sends along: a timeline, an eventfd; or anything else. */
static void send_with_fds(int fd, const void *data, size_t size, bool framed, unsigned n_fds)
{
    int timeline = memfd_create("timeline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    FUZZ_CHECK(timeline >= 0 && event >= 0 && ftruncate(timeline, 256) == 0);
    const int fds[] = {timeline, event, 2, vmm, 2, 2, 2};
    if (n_fds && fd >= 0)
        put(fd, data, size, framed, fds, n_fds);
    close(timeline);
    close(event);
}

static void message_step(unsigned who, unsigned n_fds, bool form, const uint8_t *data, size_t size)
{
    union {
        union render_client_request client;
        union render_context_request context;
        uint8_t bytes[768];
    } m = {0};
    int fd = who == 0 ? vmm : sockets[who - 1];
    memcpy(m.bytes, data, size);
    if (form)
        size = who == 0 ? client_form(&m.client) : context_form(&m.context);
    if (fd < 0 || size == 0)
        return;
    if (n_fds)
        send_with_fds(fd, &m, size, form, n_fds);
    else
        put(fd, &m, size, form, NULL, 0);
}

/* ---- the others ------------------------------------------------------------------ */

/* For memory of a device, in the form that is due or another. */
static void ask(int fd, const uint8_t bytes[16])
{
    static const char *const devices[] = {"cpu", "0000:01:00.0", "a", "B", ""};
    struct apir_ask ask = {.op = bytes[2] % 5, .flags = bytes[3] % 4 ? bytes[3] & 1 : bytes[3]};
    memcpy(&ask.size, bytes + 5, bytes[4] & 0x80 ? 8 : 4);
    if (bytes[4] & 0x40)
        ask.size <<= 20;
    snprintf(ask.device, sizeof(ask.device), "%s", devices[bytes[4] % 5]);
    if (bytes[13] == 0xff)
        ask.device[bytes[14] % sizeof(ask.device)] = (char)bytes[15];
    (void)apir_fdsock_send(fd, &ask, bytes[13] == 0xfe ? bytes[14] % sizeof(ask) + 1 : sizeof(ask),
                           NULL, 0);
}

/* A worker that has been taken over, or has ended; the stock server, the same. */
static void child_step(const uint8_t *data, size_t size)
{
    uint8_t bytes[16] = {0};
    memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    if (!n_started)
        return;
    unsigned i = bytes[0] % n_started;
    struct server_child *child = started[i].child;
    switch (bytes[1] % 6) {
    case 0:
        if (started[i].status)
            memcpy(&started[i].status->head, bytes + 2, sizeof(started[i].status->head));
        break;
    case 2: {
        const int fd = 2;
        bytes[2] %= 3; /* struct render_client_create_context_reply */
        if (!started[i].is_worker)
            (void)apir_fdsock_send(started[i].socket_fd, &bytes[2], 1 + bytes[3] / 128, &fd,
                                   bytes[3] % 2);
        break;
    }
    case 3: {
        enum server_child_change change = (enum server_child_change)(bytes[2] % 4);
        if (change == SERVER_CHILD_EXITED || change == SERVER_CHILD_KILLED) {
            child->pid = 0;
            child_drop(i);
        }
        child->changed(child->user, change, bytes[3]);
        break;
    }
    case 4:
        if (started[i].is_worker)
            ask(started[i].socket_fd, bytes);
        break;
    default: /* it reads what it is sent, or is not sent any more */
        while (recv(started[i].socket_fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
        }
        break;
    }
}

static void close_step(unsigned which)
{
    int *fd = &sockets[which % CONTEXTS];
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void remove_limits_dir(void)
{
    (void)rmdir(limits_dir);
}

static void set_up(void)
{
    fuzz_folder(limits_dir);
    atexit(remove_limits_dir);
    apir_log_set_level(APIR_LOG_ERROR);
    signal(SIGPIPE, SIG_IGN);
    FUZZ_CHECK(server_loop_init(&loop) == 0);
    children.loop = &loop;
}

static void start(void)
{
    const struct server_env env = {
        .loop = &loop, .children = &children, .config = &config, .worker_path = "/bin/true"};
    int pair[2];
    const int type = streams ? SOCK_STREAM : SOCK_SEQPACKET;
    FUZZ_CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) == 0);
    FUZZ_CHECK(server_vmm_init(&client, &env, pair[1]) == 0);
    vmm = pair[0];
    for (unsigned i = 0; i < CONTEXTS; i++)
        sockets[i] = -1;
}

static void stop(void)
{
    server_vmm_fini(&client);
    while (n_started)
        child_drop(0);
    for (unsigned i = 0; i < CONTEXTS; i++)
        close_step(i);
    close(vmm);
    loop.stop = false;
    FUZZ_CHECK(!loop.timers);
}

/* What every VMM begins with. */
static void begin(void)
{
    const struct render_client_create_context context = {
        .op = RENDER_CLIENT_CREATE_CONTEXT, .context_id = 1, .name = APIR_CONTEXT_NAME};
    const struct render_context_init init = {.op = RENDER_CONTEXT_INIT, .shmem_size = 256};
    const struct render_context_create_resource blob = {
        .op = RENDER_CONTEXT_CREATE_RESOURCE, .res_id = 1, .blob_size = APIR_RING_SIZE};
    put(vmm, &context, sizeof(context), true, NULL, 0);
    run();
    drain_all();
    FUZZ_CHECK(sockets[0] >= 0);
    send_with_fds(sockets[0], &init, sizeof(init), true, 2);
    put(sockets[0], &blob, sizeof(blob), true, NULL, 0);
    run();
    drain_all();
    FUZZ_CHECK(n_started == 1 && client.contexts.first && client.contexts.first->ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_set_up;
    if (!is_set_up)
        set_up();
    is_set_up = true;
    const int before = fds_count(0); /* the fuzzer itself opens some between inputs */
    streams = size > 0 && data[0] & 0x10;
    start();
    /* Else the devices are tried first, by whatever process starts. */
    if (!(size > 0 && data[0] & 0x20))
        client.contexts.trial.state = SERVER_TRIAL_PASSED;
    if (size > 0 && data[0] & 1)
        begin();
    data += size > 0;
    size -= size > 0;
    while (size >= 2 && !loop.stop) {
        const unsigned flags = data[0], who = flags & 7;
        size_t n = data[1];
        data += 2;
        size -= 2;
        if (n > size)
            n = size;
        if (flags & 0x80)
            drain_all();
        if (who <= CONTEXTS)
            message_step(who, flags >> 3 & 7, flags & 0x40, data, n);
        else if (who == 5)
            child_step(data, n);
        else if (who == 6)
            now_ms += (int64_t)n * 200;
        else
            close_step((unsigned)n);
        data += n;
        size -= n;
        run();
        check_invariants();
    }
    stop();
    FUZZ_CHECK(before > 0 && fds_count(0) == before);
    return 0;
}
