/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/vmm/vmm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/server/vmm/render_protocol.h"
#include "backend/server/vmm/virgl.h"
#include "common/cleanup.h"
#include "common/peer.h"
#include "common/log.h"
#include "protocol/shm.h"

#define VMM_LOG_LIMIT     20u /* lines per period that a guest can cause */
#define VMM_LOG_PERIOD_MS 60000

#define CONTEXT_NAME_FAMILY "apir:"

/* Guests choose names and numbers of contexts: their lines must not fill a disk. */
static bool server_vmm_may_log(struct server_vmm *vmm)
{
    return server_quota_take(&vmm->log_quota, VMM_LOG_LIMIT, VMM_LOG_PERIOD_MS, server_now_ms());
}

/* Answers CREATE_CONTEXT; fd (-1: refused) is taken over. */
static void server_vmm_answer(struct server_vmm *vmm, int fd)
{
    const struct render_client_create_context_reply ok = {.ok = 1};
    const struct render_client_create_context_reply refused = {.ok = 0};
    if (fd >= 0 && server_framing_reply(&vmm->framing, &vmm->peer, &ok, sizeof(ok), fd) == 0)
        return;
    (void)server_framing_reply(&vmm->framing, &vmm->peer, &refused, sizeof(refused), -1);
}

static void server_vmm_stock_replied(void *user, int fd)
{
    struct server_vmm *vmm = user;
    server_vmm_answer(vmm, fd);
    server_peer_pause(&vmm->peer, false);
}

static void server_vmm_create_foreign(struct server_vmm *vmm,
                                      const struct render_client_create_context *req,
                                      const char *name)
{
    int rc = server_stock_create_context(&vmm->stock, req);
    if (rc == 0) {
        server_peer_pause(&vmm->peer, true);
        return;
    }
    const char *why = rc == -ENOSYS  ? "switched off"
                      : rc == -EBUSY ? "started too often; tried again in a minute"
                      : rc == -ELOOP ? "is configured to be this very program"
                                     : strerror(-rc);
    if (server_vmm_may_log(vmm))
        apir_log(APIR_LOG_WARN, "context %u (%s) refused: stock render server %s: %s",
                 req->context_id, name, vmm->stock.path ? vmm->stock.path : "(none)", why);
    server_vmm_answer(vmm, -1);
}

/* The text for a context that is not served; NULL: it is. buf holds it. */
static const char *server_vmm_refusal(struct server_vmm *vmm, const char *name, char *buf,
                                      size_t size)
{
    const struct server_contexts *contexts = &vmm->contexts;
    if (strcmp(name, APIR_CONTEXT_NAME) != 0)
        snprintf(buf, size, "protocol versions differ: the host speaks %s, the guest asked for %s",
                 APIR_CONTEXT_NAME, name);
    else if (vmm->contexts.env.refusal)
        snprintf(buf, size, "%s", vmm->contexts.env.refusal);
    else if (contexts->n_served >= contexts->env.config->max_contexts)
        snprintf(buf, size, "the host serves %u contexts at most (max_contexts), all in use",
                 contexts->env.config->max_contexts);
    else
        return NULL;
    return buf;
}

static void server_vmm_create_ours(struct server_vmm *vmm, uint32_t id, const char *name)
{
    char text[APIR_REASON_MAX];
    const char *refusal = server_vmm_refusal(vmm, name, text, sizeof(text));
    if (refusal && server_vmm_may_log(vmm))
        apir_log(APIR_LOG_WARN, "context %u refused: %s", id, refusal);

    int fd = -1;
    int rc = -EEXIST;
    if (vmm->contexts.n_served + vmm->contexts.n_refused >= SERVER_CONTEXTS_MAX)
        rc = -ENOSPC;
    else if (!server_contexts_find(&vmm->contexts, id))
        rc = server_virgl_create(&vmm->contexts, id, refusal, vmm->framing.stream, &fd);
    if (rc < 0 && server_vmm_may_log(vmm))
        apir_log(APIR_LOG_WARN, "context %u cannot be made: %s", id, strerror(-rc));
    if (rc == 0 && !refusal)
        apir_log(APIR_LOG_INFO, "context %u created (%u in use)", id, vmm->contexts.n_served);
    server_vmm_answer(vmm, fd);
}

/* Names of the family are ours, in whatever version: digits and nothing else follow. */
static bool server_vmm_is_ours(const char *name)
{
    const size_t prefix = sizeof(CONTEXT_NAME_FAMILY) - 1;
    if (strncmp(name, CONTEXT_NAME_FAMILY, prefix) != 0)
        return false;
    const char *version = name + prefix;
    return *version && version[strspn(version, "0123456789")] == '\0';
}

static void server_vmm_create_context(struct server_vmm *vmm,
                                      const struct render_client_create_context *req)
{
    /* A name without its NUL is a long one of somebody else's. */
    char name[RENDER_CONTEXT_NAME_SIZE + 1] = {0};
    memcpy(name, req->name, RENDER_CONTEXT_NAME_SIZE);
    if (server_vmm_is_ours(name)) {
        server_vmm_create_ours(vmm, req->context_id, name);
        return;
    }
    for (char *c = name; *c; c++) { /* for the log only: the guest wrote it */
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    }
    server_vmm_create_foreign(vmm, req, name);
}

static void server_vmm_destroy_context(struct server_vmm *vmm, uint32_t id)
{
    struct server_context *context = server_contexts_find(&vmm->contexts, id);
    if (context)
        server_context_destroy(context);
    else
        server_stock_destroy_context(&vmm->stock, id);
}

static const size_t client_op_sizes[RENDER_CLIENT_OP_COUNT] = {
    [RENDER_CLIENT_NOP] = 4,
    [RENDER_CLIENT_INIT] = sizeof(struct render_client_init),
    [RENDER_CLIENT_RESET] = 4,
    [RENDER_CLIENT_CREATE_CONTEXT] = sizeof(struct render_client_create_context),
    [RENDER_CLIENT_DESTROY_CONTEXT] = sizeof(struct render_client_destroy_context),
};

static void server_vmm_dispatch(struct server_vmm *vmm, const union render_client_request *req,
                                size_t size)
{
    if (size < sizeof(req->op) || req->op >= RENDER_CLIENT_OP_COUNT ||
        size != client_op_sizes[req->op]) {
        if (server_vmm_may_log(vmm))
            apir_log(APIR_LOG_WARN, "malformed request of %zu bytes from the VMM; ignored", size);
        if (size >= sizeof(req->op) && req->op == RENDER_CLIENT_CREATE_CONTEXT)
            server_vmm_answer(vmm, -1); /* it waits for one */
        return;
    }
    switch (req->op) {
    case RENDER_CLIENT_INIT:
        server_stock_set_flags(&vmm->stock, req->init.flags);
        break;
    case RENDER_CLIENT_RESET: /* all at once: there is nobody here but this VMM */
        server_contexts_clear(&vmm->contexts);
        server_stock_reset(&vmm->stock);
        break;
    case RENDER_CLIENT_CREATE_CONTEXT:
        server_vmm_create_context(vmm, &req->create_context);
        break;
    case RENDER_CLIENT_DESTROY_CONTEXT:
        server_vmm_destroy_context(vmm, req->destroy_context.context_id);
        break;
    default:
        break;
    }
}

static void server_vmm_ready(void *user, uint32_t events)
{
    struct server_vmm *vmm = user;
    if (server_peer_flush(&vmm->peer, events))
        return;
    if (!server_peer_can_read(&vmm->peer)) {
        if (events & (SERVER_LOOP_HUP | SERVER_LOOP_ERR))
            vmm->contexts.env.loop->stop = true;
        return;
    }
    union render_client_request req = {0};
    size_t size = 0, n_fds = 0;
    int rc =
        server_framing_recv(&vmm->framing, vmm->peer.fd, &req, sizeof(req), &size, NULL, 0, &n_fds);
    if (rc == -EAGAIN)
        return;
    if (rc == -EBADMSG) /* too long, or with fds: as malformed as a wrong size */
        server_vmm_dispatch(vmm, &req, SIZE_MAX);
    else if (rc < 0 || size == 0)
        vmm->contexts.env.loop->stop = true;
    else
        server_vmm_dispatch(vmm, &req, size);
}

int server_vmm_init(struct server_vmm *vmm, const struct server_env *env, int socket_fd)
{
    struct apir_fdsock_peer who;
    (void)apir_fdsock_peer(socket_fd, &who);
    *vmm = (struct server_vmm){
        .contexts = {.env = *env, .max_per_user = env->config->max_contexts, .vmm = who.pid},
    };
    int rc = server_framing_init(&vmm->framing, socket_fd);
    if (rc == 0)
        rc = server_contexts_init(&vmm->contexts);
    if (rc < 0) {
        close(socket_fd);
        return rc;
    }
    server_stock_init(&vmm->stock, env->loop, env->children, env->config->stock_server,
                      server_vmm_stock_replied, vmm);
    rc = server_peer_init(&vmm->peer, env->loop, socket_fd, server_vmm_ready, vmm);
    if (rc == 0)
        server_seen_init(&vmm->seen, &vmm->contexts, NULL);
    return rc;
}

void server_vmm_fini(struct server_vmm *vmm)
{
    server_seen_fini(&vmm->seen);
    server_contexts_fini(&vmm->contexts);
    server_stock_fini(&vmm->stock);
    server_framing_fini(&vmm->framing);
    server_peer_fini(&vmm->peer);
}
