/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/server_context.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/server_fence.h"
#include "backend/server_peer.h"
#include "backend/server_protocol.h"
#include "backend/server_quota.h"
#include "backend/server_ring.h"
#include "backend/server_worker.h"
#include "protocol/atomic.h"
#include "protocol/cleanup.h"
#include "protocol/fdsock.h"
#include "protocol/log.h"
#include "protocol/ring.h"

#define CONTEXT_LOG_LIMIT     10u /* lines per period that a guest can cause */
#define CONTEXT_LOG_PERIOD_MS 60000
#define CONTEXT_BATCH         16 /* requests per turn, so that others get theirs */

struct context_blob {
    bool used;
    uint32_t res_id;
    uint64_t size;
};

struct server_context {
    struct server_context *next;
    struct server_contexts *contexts;
    uint32_t id;
    bool served; /* counted as such; not refused at birth */
    bool lost;   /* for good */
    char reason[APIR_REASON_MAX];
    struct server_peer peer;
    struct server_fences fences;
    struct server_timer fence_age;
    struct server_worker worker;
    struct apir_ring_header *ring; /* NULL before the ring blob exists */
    struct context_blob blobs[APIR_BLOBS_MAX];
    uint64_t shm_size;  /* of all blobs */
    uint32_t rest_size; /* what is to follow an oversized SUBMIT_CMD; 0: nothing */
    struct server_quota log_quota;
};

/* ---- telling and losing ---------------------------------------------------- */

/* A line that the guest can cause as often as it likes. */
static void __attribute__((format(printf, 2, 3)))
server_context_complain(struct server_context *context, const char *fmt, ...)
{
    if (!server_quota_take(&context->log_quota, CONTEXT_LOG_LIMIT, CONTEXT_LOG_PERIOD_MS,
                           server_now_ms()))
        return;
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    apir_log(APIR_LOG_WARN, "context %u: %s%s", context->id, text,
             context->log_quota.used == CONTEXT_LOG_LIMIT ? " (no more of these for a minute)"
                                                          : "");
}

static void server_context_fences(struct server_context *context);

static void server_context_end(struct server_context *context, enum apir_log_level level,
                               const char *reason)
{
    if (!context->lost) {
        context->lost = true;
        snprintf(context->reason, sizeof(context->reason), "%s", reason);
        apir_log(level, "context %u is lost: %s", context->id, reason);
        server_worker_kill(&context->worker);
    }
    if (context->ring)
        server_ring_lose(context->ring, context->reason);
    server_context_fences(context);
}

static void server_context_lose(struct server_context *context, const char *reason)
{
    server_context_end(context, APIR_LOG_WARN, reason);
}

/* What virglrenderer itself would never send. */
static void server_context_violated(struct server_context *context, const char *what)
{
    server_context_complain(context, "protocol violation: %s", what);
    server_context_lose(context, "protocol violation on the context's socket");
}

/* ---- fences ---------------------------------------------------------------- */

static void server_context_fence_aged(void *user)
{
    server_context_fences(user);
}

/* Completes what can be completed and sees to it that the rest will be. */
static void server_context_fences(struct server_context *context)
{
    uint64_t head = context->lost ? SERVER_FENCE_NEVER : server_worker_head(&context->worker);
    for (;;) {
        uint64_t next = server_fences_complete(&context->fences, head, server_now_ms());
        if (context->lost)
            break;
        head = server_worker_notify_at(&context->worker, next);
        if (next > head || next == SERVER_FENCE_NEVER)
            break; /* the worker sees notify_at before it gets there */
    }
    int64_t deadline = server_fences_deadline(&context->fences);
    if (deadline >= 0)
        server_timer_arm(context->contexts->loop, &context->fence_age, deadline,
                         server_context_fence_aged, context);
    else
        server_timer_disarm(context->contexts->loop, &context->fence_age);
}

/* ---- the worker ------------------------------------------------------------ */

static void server_context_worker_notified(void *user)
{
    server_context_fences(user);
}

static void server_context_worker_stalled(void *user)
{
    server_context_lose(user, "worker was stopped and not continued");
}

static void server_context_worker_gone(void *user, const char *reason)
{
    struct server_context *context = user;
    apir_log(APIR_LOG_INFO, "context %u: %s", context->id, reason);
    server_context_lose(context, reason);
}

static const struct server_worker_events server_context_worker_events = {
    .notified = server_context_worker_notified,
    .stalled = server_context_worker_stalled,
    .gone = server_context_worker_gone,
};

static void server_context_start_worker(struct server_context *context)
{
    struct server_contexts *contexts = context->contexts;
    /* Killed ones count until they are reaped: one may hang in a GPU driver. */
    if (contexts->children->alive >= 2 * contexts->config->max_contexts + 2) {
        server_context_lose(context, "too many worker processes are still ending");
        return;
    }
    struct apir_error err = {0};
    if (server_worker_start(&context->worker, contexts->children, &contexts->spin,
                            contexts->worker_path, contexts->config_path,
                            &server_context_worker_events, context, &err) < 0) {
        apir_log(APIR_LOG_ERROR, "context %u: %s", context->id, err.msg);
        server_context_lose(context, "the host cannot start a worker; its log says why");
    }
}

/* ---- blobs ----------------------------------------------------------------- */

/* ret: of a message on the worker's control socket. */
static void server_context_told_worker(struct server_context *context, int ret)
{
    if (ret == -EPIPE || ret == -ECONNRESET)
        server_worker_kill(&context->worker); /* ending already, mostly; gone() has the reason */
    else if (ret < 0)
        server_context_lose(context, "worker does not read its control socket");
    else
        apir_ring_wake_host(context->ring); /* it may sleep; an idle context gives memory back too */
}

/* NULL: may be made; else why not. */
static const char *server_context_check_blob(const struct server_context *context,
                                             const struct server_context_create_resource *req)
{
    if (req->blob_id >= APIR_BLOBS_MAX)
        return "blob id out of range";
    if (context->blobs[req->blob_id].used)
        return "blob id in use";
    for (uint32_t i = 0; i < APIR_BLOBS_MAX; i++) {
        if (context->blobs[i].used && context->blobs[i].res_id == req->res_id)
            return "resource id in use";
    }
    if (req->blob_id == APIR_RING_BLOB_ID) {
        if (!apir_ring_size_ok(req->blob_size))
            return "bad size of the ring blob";
        if (context->ring)
            return "the context has had its ring";
    } else {
        if (!context->ring)
            return "the ring must be the first blob";
        if (context->lost)
            return "the context is lost";
        if (req->blob_size == 0 || req->blob_size % APIR_SHM_ALIGN ||
            req->blob_size > APIR_ARENA_SIZE_MAX)
            return "bad size of an arena blob";
    }
    uint64_t limit = (uint64_t)context->contexts->config->context_shm_mib << 20;
    if (req->blob_size > limit - context->shm_size)
        return "the context's shared memory is used up (context_shm_mib)";
    return NULL;
}

/* Returns the memfd or -errno; the blob is the context's from then on. */
static int server_context_make_blob(struct server_context *context,
                                    const struct server_context_create_resource *req)
{
    const uint32_t blob_id = (uint32_t)req->blob_id;
    const bool is_ring = blob_id == APIR_RING_BLOB_ID;
    cleanup_fd int fd = server_memfd_create(is_ring ? "apir-ring" : "apir-arena", req->blob_size);
    if (fd < 0)
        return fd;
    if (is_ring) {
        int ret = server_ring_map(fd, req->blob_size, &context->ring);
        if (ret < 0)
            return ret;
        if (context->lost)
            server_ring_lose(context->ring, context->reason);
        else
            server_context_start_worker(context);
    }
    if (!context->lost)
        server_context_told_worker(
            context, server_worker_add_blob(&context->worker, blob_id, req->blob_size, fd));

    context->blobs[blob_id] =
        (struct context_blob){.used = true, .res_id = req->res_id, .size = req->blob_size};
    context->shm_size += req->blob_size;
    return steal_fd(&fd);
}

static void server_context_free_blob(struct server_context *context, uint32_t blob_id)
{
    struct context_blob *blob = &context->blobs[blob_id];
    context->shm_size -= blob->size;
    *blob = (struct context_blob){0};
    if (context->lost)
        return;
    if (blob_id == APIR_RING_BLOB_ID)
        /* The normal end of a guest process: its resources go before its context. */
        server_context_end(context, APIR_LOG_INFO, "the guest destroyed its ring");
    else
        server_context_told_worker(context, server_worker_del_blob(&context->worker, blob_id));
}

static void server_context_refuse_blob(struct server_context *context)
{
    const struct server_context_create_resource_reply reply = {.fd_type = SERVER_FD_INVALID};
    (void)server_peer_reply(&context->peer, &reply, sizeof(reply), -1);
}

/* ---- requests -------------------------------------------------------------- */

/* Fds left in fds[] are closed by the caller; a handler steals what it keeps. */
typedef void (*context_handler)(struct server_context *context,
                                const union server_context_request *req, int *fds, size_t n_fds);

static void server_context_on_nop(struct server_context *context,
                                  const union server_context_request *req, int *fds, size_t n_fds)
{
    (void)context;
    (void)req;
    (void)fds;
    (void)n_fds;
}

static void server_context_on_init(struct server_context *context,
                                   const union server_context_request *req, int *fds, size_t n_fds)
{
    int none = -1;
    int ret = server_fences_attach(&context->fences, fds[0], req->init.shmem_size,
                                   n_fds > 1 ? &fds[1] : &none);
    if (ret < 0)
        server_context_violated(context,
                                ret == -EEXIST ? "INIT twice" : "INIT with a bad timeline");
}

static void server_context_on_create_resource(struct server_context *context,
                                              const union server_context_request *req, int *fds,
                                              size_t n_fds)
{
    (void)fds;
    (void)n_fds;
    const struct server_context_create_resource *create = &req->create_resource;
    const char *refusal = server_context_check_blob(context, create);
    int fd = refusal ? -1 : server_context_make_blob(context, create);
    if (fd < 0) {
        server_context_complain(
            context, "blob %llu of %llu bytes refused: %s", (unsigned long long)create->blob_id,
            (unsigned long long)create->blob_size, refusal ? refusal : strerror(-fd));
        server_context_refuse_blob(context);
        return;
    }
    const struct server_context_create_resource_reply reply = {
        .fd_type = SERVER_FD_SHM,
        .map_info = SERVER_MAP_CACHED,
    };
    if (server_peer_reply(&context->peer, &reply, sizeof(reply), fd) < 0) {
        /* Too many fds in flight, say: the VMM still waits for some answer. */
        server_context_free_blob(context, (uint32_t)create->blob_id);
        server_context_refuse_blob(context);
    }
}

static void server_context_on_import_resource(struct server_context *context,
                                              const union server_context_request *req, int *fds,
                                              size_t n_fds)
{
    (void)fds;
    (void)n_fds;
    /* Resources of other contexts mean nothing to us. */
    apir_log(APIR_LOG_DEBUG, "context %u: resource %u imported; ignored", context->id,
             req->import_resource.res_id);
}

static void server_context_on_destroy_resource(struct server_context *context,
                                               const union server_context_request *req, int *fds,
                                               size_t n_fds)
{
    (void)fds;
    (void)n_fds;
    for (uint32_t i = 0; i < APIR_BLOBS_MAX; i++) {
        if (context->blobs[i].used && context->blobs[i].res_id == req->destroy_resource.res_id) {
            server_context_free_blob(context, i);
            return;
        }
    }
}

static void server_context_on_submit_cmd(struct server_context *context,
                                         const union server_context_request *req, int *fds,
                                         size_t n_fds)
{
    (void)fds;
    (void)n_fds;
    const struct server_context_submit_cmd *cmd = &req->submit_cmd;
    if (cmd->size > SERVER_INLINE_CMD_SIZE)
        context->rest_size = cmd->size - SERVER_INLINE_CMD_SIZE;
    struct apir_doorbell bell;
    memcpy(&bell, cmd->cmd, sizeof(bell));
    if (cmd->size != sizeof(bell) || bell.magic != APIR_DOORBELL_MAGIC || bell.zero != 0) {
        server_context_complain(context, "a command that is no doorbell (%u bytes); ignored",
                                cmd->size);
        return;
    }
    switch (bell.op) {
    case APIR_DOORBELL_KICK:
        if (context->ring && !context->lost)
            apir_ring_wake_host(context->ring);
        break;
    case APIR_DOORBELL_PING:
        if (context->ring && !context->lost && server_worker_alive(&context->worker))
            apir_store_release32(&context->ring->pong, (uint32_t)bell.value);
        break;
    case APIR_DOORBELL_FENCE:
        if (server_fences_expect(&context->fences, bell.ring, bell.value) < 0)
            server_context_complain(context, "doorbell for ring %u; ignored", bell.ring);
        break;
    default:
        server_context_complain(context, "unknown doorbell %u; ignored", bell.op);
        break;
    }
}

static void server_context_on_submit_fence(struct server_context *context,
                                           const union server_context_request *req, int *fds,
                                           size_t n_fds)
{
    (void)fds;
    (void)n_fds;
    const struct server_context_submit_fence *fence = &req->submit_fence;
    if (server_fences_submit(&context->fences, fence->ring_index, fence->seqno, server_now_ms()) <
        0) {
        server_context_violated(context, "fence on a ring without a timeline");
        return;
    }
    server_context_fences(context);
}

static const struct context_op {
    size_t size;
    size_t min_fds;
    size_t max_fds;
    context_handler handle;
} context_ops[SERVER_CONTEXT_OP_COUNT] = {
    [SERVER_CONTEXT_NOP] = {4, 0, 0, server_context_on_nop},
    [SERVER_CONTEXT_INIT] = {sizeof(struct server_context_init), 1, 2, server_context_on_init},
    [SERVER_CONTEXT_CREATE_RESOURCE] = {sizeof(struct server_context_create_resource), 0, 0,
                                        server_context_on_create_resource},
    [SERVER_CONTEXT_IMPORT_RESOURCE] = {sizeof(struct server_context_import_resource), 0, 1,
                                        server_context_on_import_resource},
    [SERVER_CONTEXT_DESTROY_RESOURCE] = {sizeof(struct server_context_destroy_resource), 0, 0,
                                         server_context_on_destroy_resource},
    [SERVER_CONTEXT_SUBMIT_CMD] = {sizeof(struct server_context_submit_cmd), 0, 0,
                                   server_context_on_submit_cmd},
    [SERVER_CONTEXT_SUBMIT_FENCE] = {sizeof(struct server_context_submit_fence), 0, 0,
                                     server_context_on_submit_fence},
};

static void server_context_dispatch(struct server_context *context,
                                    const union server_context_request *req, size_t size, int *fds,
                                    size_t n_fds)
{
    const struct context_op *op = NULL;
    if (size >= sizeof(req->op) && req->op < SERVER_CONTEXT_OP_COUNT)
        op = &context_ops[req->op];
    if (op && size == op->size && n_fds >= op->min_fds && n_fds <= op->max_fds) {
        op->handle(context, req, fds, n_fds);
        return;
    }
    server_context_violated(context, op ? "wrong size or number of descriptors" : "unknown op");
    /* Whoever sent this waits for an answer all the same. */
    if (size >= sizeof(req->op) && req->op == SERVER_CONTEXT_CREATE_RESOURCE)
        server_context_refuse_blob(context);
}

/*
 * The rest of an oversized SUBMIT_CMD, which may be missing: a rest too large
 * for the socket fails on virglrenderer's side after the first part has gone,
 * and the next message is then a request whose answer the VMM may wait for. Only
 * a message of exactly the announced size is the rest; a request is smaller than
 * any rest that can fail.
 */
static bool server_context_skip_rest(struct server_context *context)
{
    uint8_t byte;
    ssize_t size = recv(context->peer.fd, &byte, sizeof(byte), MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (size < 0)
        return false;
    uint32_t rest = context->rest_size;
    context->rest_size = 0;
    if ((size_t)size != rest)
        return false;
    size_t got;
    /* -EBADMSG for what did not fit into `byte`: the message is gone either way. */
    (void)apir_fdsock_recv(context->peer.fd, &byte, sizeof(byte), &got, NULL, 0, NULL,
                           MSG_DONTWAIT);
    return true;
}

/* One request. Returns false where there is none, or the context is destroyed. */
static bool server_context_receive(struct server_context *context)
{
    if (!server_peer_can_read(&context->peer))
        return false;
    if (context->rest_size && server_context_skip_rest(context))
        return true;

    union server_context_request req = {0};
    int fds[APIR_FDSOCK_FDS_MAX];
    size_t size = 0;
    size_t n_fds = 0;
    int ret = apir_fdsock_recv(context->peer.fd, &req, sizeof(req), &size, fds, APIR_FDSOCK_FDS_MAX,
                               &n_fds, MSG_DONTWAIT);
    if (ret == -EAGAIN)
        return false;
    if (ret == -EBADMSG) {
        server_context_violated(context, "truncated message");
        if (req.op == SERVER_CONTEXT_CREATE_RESOURCE)
            server_context_refuse_blob(context);
        return true;
    }
    if (ret < 0 || size == 0) {
        server_context_destroy(context);
        return false;
    }
    server_context_dispatch(context, &req, size, fds, n_fds);
    for (size_t i = 0; i < n_fds; i++)
        apir_close_fd(&fds[i]);
    return true;
}

static void server_context_ready(void *user, uint32_t events)
{
    struct server_context *context = user;
    if (server_peer_flush(&context->peer, events))
        return;
    /* Hung up while a reply waits for it: nobody will take that one. */
    if ((events & (EPOLLHUP | EPOLLERR)) && !server_peer_can_read(&context->peer)) {
        server_context_destroy(context);
        return;
    }
    for (int i = 0; i < CONTEXT_BATCH; i++) {
        if (!server_context_receive(context))
            return; /* perhaps freed: do not look at it again */
    }
}

/* ---- life ------------------------------------------------------------------ */

struct server_context *server_contexts_find(struct server_contexts *contexts, uint32_t id)
{
    for (struct server_context *c = contexts->first; c; c = c->next) {
        if (c->id == id)
            return c;
    }
    return NULL;
}

void server_contexts_clear(struct server_contexts *contexts)
{
    while (contexts->first)
        server_context_destroy(contexts->first);
}

int server_context_create(struct server_contexts *contexts, uint32_t id, const char *refusal,
                          int *ret_fd)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return -errno;
    cleanup_fd int theirs = sockets[1];
    cleanup_fd int ours = sockets[0];
    struct server_context *context = calloc(1, sizeof(*context));
    if (!context)
        return -ENOMEM;
    int ret = server_peer_init(&context->peer, contexts->loop, steal_fd(&ours),
                               server_context_ready, context);
    if (ret < 0) {
        free(context);
        return ret;
    }
    context->contexts = contexts;
    context->id = id;
    context->served = refusal == NULL;
    server_fences_init(&context->fences);
    if (refusal) {
        context->lost = true;
        snprintf(context->reason, sizeof(context->reason), "%s", refusal);
        contexts->n_refused++;
    } else {
        contexts->n_served++;
    }
    context->next = contexts->first;
    contexts->first = context;
    *ret_fd = steal_fd(&theirs);
    return 0;
}

void server_context_destroy(struct server_context *context)
{
    struct server_contexts *contexts = context->contexts;
    for (struct server_context **c = &contexts->first; *c; c = &(*c)->next) {
        if (*c == context) {
            *c = context->next;
            break;
        }
    }
    if (context->served)
        contexts->n_served--;
    else
        contexts->n_refused--;
    server_worker_fini(&context->worker);
    server_timer_disarm(contexts->loop, &context->fence_age);
    server_fences_fini(&context->fences);
    server_ring_unmap(context->ring);
    server_peer_fini(&context->peer);
    apir_log(APIR_LOG_INFO, "context %u destroyed", context->id);
    free(context);
}
