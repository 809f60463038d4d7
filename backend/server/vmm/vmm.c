/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/server/vmm/vmm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "backend/server/vmm/render_protocol.h"
#include "backend/server/vmm/virgl.h"
#include "common/cleanup.h"
#include "common/fdsock.h"
#include "common/log.h"
#include "protocol/shm.h"

#define CLIENT_LOG_LIMIT     20u /* lines per period that a guest can cause */
#define CLIENT_LOG_PERIOD_MS 60000

#define CONTEXT_NAME_FAMILY "apir:"

/* Guests choose names and numbers of contexts: their lines must not fill a disk. */
static bool server_client_may_log(struct server_client *client)
{
    return server_quota_take(&client->log_quota, CLIENT_LOG_LIMIT, CLIENT_LOG_PERIOD_MS,
                             server_now_ms());
}

/* Answers CREATE_CONTEXT; fd (-1: refused) is taken over. */
static void server_client_answer(struct server_client *client, int fd)
{
    const struct server_client_create_context_reply ok = {.ok = 1};
    const struct server_client_create_context_reply refused = {.ok = 0};
    if (fd >= 0 && server_peer_reply(&client->peer, &ok, sizeof(ok), fd) == 0)
        return;
    (void)server_peer_reply(&client->peer, &refused, sizeof(refused), -1);
}

static void server_client_stock_replied(void *user, int fd)
{
    struct server_client *client = user;
    server_client_answer(client, fd);
    server_peer_pause(&client->peer, false);
}

static void server_client_create_foreign(struct server_client *client,
                                         const struct server_client_create_context *req,
                                         const char *name)
{
    int rc = server_stock_create_context(&client->stock, req);
    if (rc == 0) {
        server_peer_pause(&client->peer, true);
        return;
    }
    const char *why = rc == -ENOSYS  ? "switched off"
                      : rc == -EBUSY ? "started too often; tried again in a minute"
                      : rc == -ELOOP ? "is configured to be this very program"
                                     : strerror(-rc);
    if (server_client_may_log(client))
        apir_log(APIR_LOG_WARN, "context %u (%s) refused: stock render server %s: %s",
                 req->context_id, name, client->stock.path ? client->stock.path : "(none)", why);
    server_client_answer(client, -1);
}

/* The text for a context that is not served; NULL: it is. buf holds it. */
static const char *server_client_refusal(struct server_client *client, const char *name, char *buf,
                                         size_t size)
{
    const struct server_contexts *contexts = &client->contexts;
    if (strcmp(name, APIR_CONTEXT_NAME) != 0)
        snprintf(buf, size, "protocol versions differ: the host speaks %s, the guest asked for %s",
                 APIR_CONTEXT_NAME, name);
    else if (client->refusal)
        snprintf(buf, size, "%s", client->refusal);
    else if (contexts->n_served >= contexts->config->max_contexts)
        snprintf(buf, size, "the host serves %u contexts at most (max_contexts), all in use",
                 contexts->config->max_contexts);
    else
        return NULL;
    return buf;
}

static void server_client_create_ours(struct server_client *client, uint32_t id, const char *name)
{
    char text[APIR_REASON_MAX];
    const char *refusal = server_client_refusal(client, name, text, sizeof(text));
    if (refusal && server_client_may_log(client))
        apir_log(APIR_LOG_WARN, "context %u refused: %s", id, refusal);

    int fd = -1;
    int rc = -EEXIST;
    if (client->contexts.n_served + client->contexts.n_refused >= SERVER_CONTEXTS_MAX)
        rc = -ENOSPC;
    else if (!server_contexts_find(&client->contexts, id))
        rc = server_virgl_create(&client->contexts, id, refusal, &fd);
    if (rc < 0 && server_client_may_log(client))
        apir_log(APIR_LOG_WARN, "context %u cannot be made: %s", id, strerror(-rc));
    if (rc == 0 && !refusal)
        apir_log(APIR_LOG_INFO, "context %u created (%u in use)", id, client->contexts.n_served);
    server_client_answer(client, fd);
}

/* Names of the family are ours, in whatever version: digits and nothing else follow. */
static bool server_client_is_ours(const char *name)
{
    const size_t prefix = sizeof(CONTEXT_NAME_FAMILY) - 1;
    if (strncmp(name, CONTEXT_NAME_FAMILY, prefix) != 0)
        return false;
    const char *version = name + prefix;
    return *version && version[strspn(version, "0123456789")] == '\0';
}

static void server_client_create_context(struct server_client *client,
                                         const struct server_client_create_context *req)
{
    /* A name without its NUL is a long one of somebody else's. */
    char name[SERVER_CONTEXT_NAME_SIZE + 1] = {0};
    memcpy(name, req->name, SERVER_CONTEXT_NAME_SIZE);
    if (server_client_is_ours(name)) {
        server_client_create_ours(client, req->context_id, name);
        return;
    }
    for (char *c = name; *c; c++) { /* for the log only: the guest wrote it */
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    }
    server_client_create_foreign(client, req, name);
}

static void server_client_destroy_context(struct server_client *client, uint32_t id)
{
    struct server_context *context = server_contexts_find(&client->contexts, id);
    if (context)
        server_context_destroy(context);
    else
        server_stock_destroy_context(&client->stock, id);
}

static const size_t client_op_sizes[SERVER_CLIENT_OP_COUNT] = {
    [SERVER_CLIENT_NOP] = 4,
    [SERVER_CLIENT_INIT] = sizeof(struct server_client_init),
    [SERVER_CLIENT_RESET] = 4,
    [SERVER_CLIENT_CREATE_CONTEXT] = sizeof(struct server_client_create_context),
    [SERVER_CLIENT_DESTROY_CONTEXT] = sizeof(struct server_client_destroy_context),
};

static void server_client_dispatch(struct server_client *client,
                                   const union server_client_request *req, size_t size)
{
    if (size < sizeof(req->op) || req->op >= SERVER_CLIENT_OP_COUNT ||
        size != client_op_sizes[req->op]) {
        if (server_client_may_log(client))
            apir_log(APIR_LOG_WARN, "malformed request of %zu bytes from the VMM; ignored", size);
        if (size >= sizeof(req->op) && req->op == SERVER_CLIENT_CREATE_CONTEXT)
            server_client_answer(client, -1); /* it waits for one */
        return;
    }
    switch (req->op) {
    case SERVER_CLIENT_INIT:
        server_stock_set_flags(&client->stock, req->init.flags);
        break;
    case SERVER_CLIENT_RESET:
        server_contexts_clear(&client->contexts);
        server_stock_reset(&client->stock);
        break;
    case SERVER_CLIENT_CREATE_CONTEXT:
        server_client_create_context(client, &req->create_context);
        break;
    case SERVER_CLIENT_DESTROY_CONTEXT:
        server_client_destroy_context(client, req->destroy_context.context_id);
        break;
    default:
        break;
    }
}

static void server_client_ready(void *user, uint32_t events)
{
    struct server_client *client = user;
    if (server_peer_flush(&client->peer, events))
        return;
    if (!server_peer_can_read(&client->peer)) {
        if (events & (EPOLLHUP | EPOLLERR))
            client->loop->stop = true;
        return;
    }
    union server_client_request req = {0};
    size_t size = 0;
    int rc =
        apir_fdsock_recv(client->peer.fd, &req, sizeof(req), &size, NULL, 0, NULL, MSG_DONTWAIT);
    if (rc == -EAGAIN)
        return;
    if (rc == -EBADMSG) /* too long, or with fds: as malformed as a wrong size */
        server_client_dispatch(client, &req, SIZE_MAX);
    else if (rc < 0 || size == 0)
        client->loop->stop = true;
    else
        server_client_dispatch(client, &req, size);
}

int server_client_init(struct server_client *client, const struct server_client_setup *setup,
                       int socket_fd)
{
    *client = (struct server_client){
        .loop = setup->loop,
        .refusal = setup->refusal,
        .contexts =
            {
                .loop = setup->loop,
                .children = setup->children,
                .config = setup->config,
                .config_path = setup->config_path,
                .worker_path = setup->worker_path,
                .max_per_user = setup->config->max_contexts,
            },
    };
    int rc = server_contexts_init(&client->contexts);
    if (rc < 0)
        return rc;
    server_stock_init(&client->stock, setup->loop, setup->children, setup->config->stock_server,
                      server_client_stock_replied, client);
    return server_peer_init(&client->peer, setup->loop, socket_fd, server_client_ready, client);
}

void server_client_fini(struct server_client *client)
{
    server_contexts_fini(&client->contexts);
    server_stock_fini(&client->stock);
    server_peer_fini(&client->peer);
}
