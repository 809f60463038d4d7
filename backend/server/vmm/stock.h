/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virglrenderer's own render server, for every context that is not ours. It is
 * started at the first such context and again (not too often) after its loss.
 * Only the creation of contexts passes through here: their sockets then run
 * directly between the VMM and the stock server's workers, which outlive it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/server/child.h"
#include "backend/server/loop.h"
#include "backend/server/vmm/render_protocol.h"
#include "backend/server/quota.h"

#define SERVER_STOCK_REPLY_MS        10000 /* then it is killed and the context refused */
#define SERVER_STOCK_STARTS          5u    /* per minute */
#define SERVER_STOCK_START_PERIOD_MS 60000

struct server_stock {
    struct server_loop *loop;
    struct server_children *children;
    const char *path; /* NULL: foreign contexts are refused */
    void (*replied)(void *user, int fd);
    void *user;
    uint32_t init_flags;
    struct server_child child;
    struct server_source source;
    struct server_timer reply_timer;
    struct server_quota starts;
    int fd;       /* -1: not running */
    bool waiting; /* for a reply to CREATE_CONTEXT */
};

/*
 * replied() answers each create_context that returned 0, never from within that
 * call: fd is the context's socket, the callee's, or -1 for a refusal. `path`
 * stays the caller's.
 */
void server_stock_init(struct server_stock *stock, struct server_loop *loop,
                       struct server_children *children, const char *path,
                       void (*replied)(void *user, int fd), void *user);
void server_stock_fini(struct server_stock *stock);

/* INIT's flags, now or for the next start. */
void server_stock_set_flags(struct server_stock *stock, uint32_t flags);

/* One at a time. Returns 0 (replied() follows) or -errno: refused. */
int server_stock_create_context(struct server_stock *stock,
                                const struct render_client_create_context *req);

/* These two have no reply. A server that does not run has nothing to forget. */
void server_stock_destroy_context(struct server_stock *stock, uint32_t context_id);
void server_stock_reset(struct server_stock *stock);
