/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/vmm/virgl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/server/vmm/fence.h"
#include "backend/server/vmm/framing.h"
#include "backend/server/peer.h"
#include "backend/server/vmm/render_protocol.h"
#include "common/cleanup.h"
#include "common/fdsock.h"

#define VIRGL_BATCH 4 /* requests per turn, so that others get theirs */

struct server_virgl {
    struct server_context context; /* first: the ops get this one */
    struct server_peer peer;
    struct server_framing framing;
    struct server_fences fences;
    uint32_t res_ids[APIR_BLOBS_MAX]; /* of the blobs that are in use */
    uint32_t rest_size;               /* what is to follow an oversized SUBMIT_CMD; 0: nothing */
};

/* What virglrenderer itself would never send. */
static void server_virgl_violated(struct server_virgl *virgl, const char *what)
{
    server_context_complain(&virgl->context, "protocol violation: %s", what);
    server_context_lose(&virgl->context, APIR_LOG_WARN,
                        "protocol violation on the context's socket");
}

/* ---- requests -------------------------------------------------------------- */

static void server_virgl_refuse_blob(struct server_virgl *virgl)
{
    const struct render_context_create_resource_reply reply = {.fd_type = RENDER_FD_INVALID};
    (void)server_framing_reply(&virgl->framing, &virgl->peer, &reply, sizeof(reply), -1);
}

/* The blob with this resource id; APIR_BLOBS_MAX: there is none. */
static uint32_t server_virgl_blob_of(const struct server_virgl *virgl, uint32_t res_id)
{
    uint32_t i = 0;
    while (i < APIR_BLOBS_MAX && !(virgl->context.blobs[i].used && virgl->res_ids[i] == res_id))
        i++;
    return i;
}

/* fds: those that came, then -1; what a handler does not steal the caller closes. */
typedef void virgl_handler(struct server_virgl *virgl, const union render_context_request *req,
                           int *fds);

static void server_virgl_on_init(struct server_virgl *virgl,
                                 const union render_context_request *req, int *fds)
{
    int rc = server_fences_attach(&virgl->fences, fds[0], req->init.shmem_size, &fds[1]);
    if (rc < 0)
        server_virgl_violated(virgl, rc == -EEXIST ? "INIT twice" : "INIT with a bad timeline");
}

static void server_virgl_on_create_resource(struct server_virgl *virgl,
                                            const union render_context_request *req, int *fds)
{
    (void)fds;
    const struct render_context_create_resource *create = &req->create_resource;
    const char *why = "resource id in use";
    int fd =
        server_virgl_blob_of(virgl, create->res_id) < APIR_BLOBS_MAX
            ? -EEXIST
            : server_context_blob_create(&virgl->context, create->blob_id, create->blob_size, &why);
    if (fd < 0) {
        server_context_complain(&virgl->context, "blob %llu of %llu bytes refused: %s",
                                (unsigned long long)create->blob_id,
                                (unsigned long long)create->blob_size, why);
        server_virgl_refuse_blob(virgl);
        return;
    }
    virgl->res_ids[create->blob_id] = create->res_id;
    const struct render_context_create_resource_reply reply = {
        .fd_type = RENDER_FD_SHM,
        .map_info = RENDER_MAP_CACHED,
    };
    if (server_framing_reply(&virgl->framing, &virgl->peer, &reply, sizeof(reply), fd) < 0) {
        /* Too many fds in flight, say: the VMM still waits for some answer. */
        server_context_blob_destroy(&virgl->context, (uint32_t)create->blob_id);
        server_virgl_refuse_blob(virgl);
    }
}

static void server_virgl_on_destroy_resource(struct server_virgl *virgl,
                                             const union render_context_request *req, int *fds)
{
    (void)fds;
    server_context_blob_destroy(&virgl->context,
                                server_virgl_blob_of(virgl, req->destroy_resource.res_id));
}

static void server_virgl_on_submit_cmd(struct server_virgl *virgl,
                                       const union render_context_request *req, int *fds)
{
    (void)fds;
    const struct render_context_submit_cmd *cmd = &req->submit_cmd;
    if (cmd->size > RENDER_INLINE_CMD_SIZE)
        virgl->rest_size = cmd->size - RENDER_INLINE_CMD_SIZE;
    struct apir_doorbell bell;
    memcpy(&bell, cmd->cmd, sizeof(bell));
    if (cmd->size != sizeof(bell) || bell.magic != APIR_DOORBELL_MAGIC || bell.zero != 0) {
        server_context_complain(&virgl->context,
                                "a command that is no doorbell (%u bytes); ignored", cmd->size);
        return;
    }
    switch (bell.op) {
    case APIR_DOORBELL_KICK:
        server_context_kick(&virgl->context);
        break;
    case APIR_DOORBELL_PING:
        server_context_ping(&virgl->context, (uint32_t)bell.value);
        break;
    default:
        server_context_complain(&virgl->context, "unknown doorbell %u; ignored", bell.op);
        break;
    }
}

static void server_virgl_on_submit_fence(struct server_virgl *virgl,
                                         const union render_context_request *req, int *fds)
{
    (void)fds;
    const struct render_context_submit_fence *fence = &req->submit_fence;
    if (server_fences_complete(&virgl->fences, fence->ring_index, fence->seqno) < 0)
        server_virgl_violated(virgl, "fence on a ring without a timeline");
}

static const struct virgl_op {
    size_t size;
    size_t min_fds;
    size_t max_fds;
    virgl_handler *handle; /* NULL: it means nothing to us */
} virgl_ops[RENDER_CONTEXT_OP_COUNT] = {
    [RENDER_CONTEXT_NOP] = {4, 0, 0, NULL},
    [RENDER_CONTEXT_INIT] = {sizeof(struct render_context_init), 1, 2, server_virgl_on_init},
    [RENDER_CONTEXT_CREATE_RESOURCE] = {sizeof(struct render_context_create_resource), 0, 0,
                                        server_virgl_on_create_resource},
    [RENDER_CONTEXT_IMPORT_RESOURCE] = {sizeof(struct render_context_import_resource), 0, 1, NULL},
    [RENDER_CONTEXT_DESTROY_RESOURCE] = {sizeof(struct render_context_destroy_resource), 0, 0,
                                         server_virgl_on_destroy_resource},
    [RENDER_CONTEXT_SUBMIT_CMD] = {sizeof(struct render_context_submit_cmd), 0, 0,
                                   server_virgl_on_submit_cmd},
    [RENDER_CONTEXT_SUBMIT_FENCE] = {sizeof(struct render_context_submit_fence), 0, 0,
                                     server_virgl_on_submit_fence},
};

static void server_virgl_dispatch(struct server_virgl *virgl,
                                  const union render_context_request *req, size_t size, int *fds,
                                  size_t n_fds)
{
    const struct virgl_op *op = NULL;
    if (size >= sizeof(req->op) && req->op < RENDER_CONTEXT_OP_COUNT)
        op = &virgl_ops[req->op];
    if (op && size == op->size && n_fds >= op->min_fds && n_fds <= op->max_fds) {
        if (op->handle)
            op->handle(virgl, req, fds);
        return;
    }
    server_virgl_violated(virgl, op ? "wrong size or number of descriptors" : "unknown op");
    /* Whoever sent this waits for an answer all the same. */
    if (size >= sizeof(req->op) && req->op == RENDER_CONTEXT_CREATE_RESOURCE)
        server_virgl_refuse_blob(virgl);
}

/*
 * Whether this is the rest of an oversized SUBMIT_CMD, which may be missing: a rest too large
 * for the socket fails on virglrenderer's side after the first part has gone,
 * and the next message is then a request whose answer the VMM may wait for. Only
 * a message of exactly the announced size is the rest; a request is smaller than
 * any rest that can fail.
 */
static bool server_virgl_is_rest(struct server_virgl *virgl, size_t size)
{
    uint32_t rest = virgl->rest_size;
    virgl->rest_size = 0;
    return rest && size == rest;
}

/* One request. Returns false where there is none, or the context is destroyed. */
static bool server_virgl_receive(struct server_virgl *virgl)
{
    if (!server_peer_can_read(&virgl->peer))
        return false;

    union render_context_request req = {0};
    int fds[APIR_FDSOCK_FDS_MAX];
    memset(fds, -1, sizeof(fds));
    size_t size = 0;
    size_t n_fds = 0;
    int rc = server_framing_recv(&virgl->framing, virgl->peer.fd, &req, sizeof(req), &size, fds,
                                 APIR_FDSOCK_FDS_MAX, &n_fds);
    if (rc == -EAGAIN)
        return false;
    if ((rc < 0 && rc != -EBADMSG) || (rc == 0 && size == 0)) {
        server_context_destroy(&virgl->context);
        return false;
    }
    if (server_virgl_is_rest(virgl, size)) {
        /* Its first part has been looked at, and is all that anybody wants. */
    } else if (rc == 0) {
        server_virgl_dispatch(virgl, &req, size, fds, n_fds);
    } else {
        server_virgl_violated(virgl, "truncated message");
        if (req.op == RENDER_CONTEXT_CREATE_RESOURCE)
            server_virgl_refuse_blob(virgl);
    }
    for (size_t i = 0; i < n_fds; i++)
        apir_close_fd(&fds[i]);
    return true;
}

static void server_virgl_ready(void *user, uint32_t events)
{
    struct server_virgl *virgl = user;
    if (server_peer_flush(&virgl->peer, events))
        return;
    /* Hung up while a reply waits for it: nobody will take that one. */
    if ((events & (SERVER_LOOP_HUP | SERVER_LOOP_ERR)) && !server_peer_can_read(&virgl->peer)) {
        server_context_destroy(&virgl->context);
        return;
    }
    for (int i = 0; i < VIRGL_BATCH; i++) {
        if (!server_virgl_receive(virgl))
            return; /* perhaps freed: do not look at it again */
    }
}

/* ---- life ------------------------------------------------------------------ */

static void server_virgl_destroy(struct server_context *context)
{
    struct server_virgl *virgl = (struct server_virgl *)(void *)context;
    server_context_fini(context);
    server_fences_fini(&virgl->fences);
    server_framing_fini(&virgl->framing);
    server_peer_fini(&virgl->peer);
    free(virgl);
}

static const struct server_context_ops virgl_context_ops = {
    .destroy = server_virgl_destroy,
};

int server_virgl_create(struct server_contexts *contexts, uint32_t id, const char *refusal,
                        bool stream, int *ret_fd)
{
    cleanup_fd int theirs = -1;
    cleanup_fd int ours = -1;
    int rc = apir_fdsock_pair(stream, &ours, &theirs);
    if (rc < 0)
        return rc;
    struct server_user *user = server_users_get(&contexts->users, 0);
    struct server_virgl *virgl = user ? calloc(1, sizeof(*virgl)) : NULL;
    if (!virgl)
        return -ENOMEM;
    rc = server_framing_init(&virgl->framing, ours);
    if (rc == 0)
        rc = server_peer_init(&virgl->peer, contexts->env.loop, steal_fd(&ours), server_virgl_ready,
                              virgl);
    if (rc < 0) {
        free(virgl);
        return rc;
    }
    server_fences_init(&virgl->fences);
    server_context_init(&virgl->context, contexts, id, user, 0, refusal, &virgl_context_ops);
    *ret_fd = steal_fd(&theirs);
    return 0;
}
