/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/vmm/stock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/server/machine.h"
#include "common/cleanup.h"
#include "common/fdsock.h"
#include "common/log.h"

static void server_stock_answer(struct server_stock *stock, int fd)
{
    if (!stock->waiting) {
        apir_close_fd(&fd);
        return;
    }
    stock->waiting = false;
    server_timer_disarm(stock->loop, &stock->reply_timer);
    stock->replied(stock->user, fd);
}

/* Its workers, and so the contexts that exist, live on without it. */
static void server_stock_drop(struct server_stock *stock, const char *why)
{
    if (stock->fd < 0)
        return;
    apir_log(APIR_LOG_WARN, "stock render server lost: %s", why);
    server_loop_remove(stock->loop, &stock->source);
    apir_close_fd(&stock->fd);
    server_child_kill(&stock->child);
    server_child_forget(stock->children, &stock->child);
    server_stock_answer(stock, -1);
}

static void server_stock_changed(void *user, enum server_child_change change, int status)
{
    struct server_stock *stock = user;
    char why[64];
    if (change == SERVER_CHILD_EXITED)
        snprintf(why, sizeof(why), "exited with status %d", status);
    else if (change == SERVER_CHILD_KILLED)
        snprintf(why, sizeof(why), "killed by signal %d", status);
    else
        return;
    server_stock_drop(stock, why);
}

static void server_stock_timed_out(void *user)
{
    server_stock_drop(user, "no reply in time");
}

static void server_stock_ready(void *user, uint32_t events)
{
    (void)events;
    struct server_stock *stock = user;
    struct render_client_create_context_reply reply = {0};
    size_t size = 0;
    size_t n_fds = 0;
    int got = -1;
    int rc =
        apir_fdsock_recv(stock->fd, &reply, sizeof(reply), &size, &got, 1, &n_fds, MSG_DONTWAIT);
    if (rc == -EAGAIN)
        return;
    cleanup_fd int fd = rc == 0 && n_fds ? got : -1;
    if (rc < 0 || size != sizeof(reply)) {
        server_stock_drop(stock, "its socket closed or sent nonsense");
        return;
    }
    if (!stock->waiting || (reply.ok == 1) != (fd >= 0)) {
        server_stock_drop(stock, "a reply that makes no sense");
        return;
    }
    server_stock_answer(stock, steal_fd(&fd));
}

static int server_stock_send(struct server_stock *stock, const void *data, size_t size)
{
    int rc = apir_fdsock_send(stock->fd, data, size, NULL, 0);
    if (rc < 0)
        server_stock_drop(stock, "it does not read its socket");
    return rc;
}

static int server_stock_send_init(struct server_stock *stock)
{
    const struct render_client_init init = {
        .op = RENDER_CLIENT_INIT,
        .flags = stock->init_flags,
    };
    return server_stock_send(stock, &init, sizeof(init));
}

static int server_stock_start(struct server_stock *stock)
{
    if (!stock->path)
        return -ENOSYS;
    if (!server_quota_take(&stock->starts, SERVER_STOCK_STARTS, SERVER_STOCK_START_PERIOD_MS,
                           server_now_ms()))
        return -EBUSY;
    if (access(stock->path, X_OK) < 0)
        return -errno;
    if (server_self_is(stock->path)) /* it would start itself for ever */
        return -ELOOP;

    cleanup_fd int theirs = -1;
    cleanup_fd int ours = -1;
    int rc = apir_fdsock_pair(false, &ours, &theirs);
    if (rc < 0)
        return rc;
    rc = server_loop_add(stock->loop, &stock->source, ours, SERVER_LOOP_IN, server_stock_ready,
                         stock);
    if (rc < 0)
        return rc;
    const char *argv[] = {stock->path, "--socket-fd", "3", NULL};
    const struct server_child_spec spec = {.argv = argv, .fds = &theirs, .n_fds = 1};
    rc = server_child_start(stock->children, &stock->child, &spec, server_stock_changed, stock);
    if (rc < 0) {
        server_loop_remove(stock->loop, &stock->source);
        return rc;
    }
    stock->fd = steal_fd(&ours);
    apir_log(APIR_LOG_INFO, "stock render server started: %s", stock->path);
    return server_stock_send_init(stock);
}

void server_stock_init(struct server_stock *stock, struct server_loop *loop,
                       struct server_children *children, const char *path,
                       void (*replied)(void *user, int fd), void *user)
{
    *stock = (struct server_stock){
        .loop = loop,
        .children = children,
        .path = path,
        .replied = replied,
        .user = user,
        .fd = -1,
    };
}

void server_stock_fini(struct server_stock *stock)
{
    stock->waiting = false;
    server_timer_disarm(stock->loop, &stock->reply_timer);
    if (stock->fd < 0)
        return;
    server_loop_remove(stock->loop, &stock->source);
    apir_close_fd(&stock->fd);
    server_child_forget(stock->children, &stock->child);
}

void server_stock_set_flags(struct server_stock *stock, uint32_t flags)
{
    stock->init_flags = flags;
    if (stock->fd >= 0)
        (void)server_stock_send_init(stock);
}

int server_stock_create_context(struct server_stock *stock,
                                const struct render_client_create_context *req)
{
    if (stock->waiting)
        return -EBUSY;
    int rc = -EPIPE;
    /* Twice: the one that ran may have died and not been missed yet. */
    for (int attempt = 0; attempt < 2 && rc < 0; attempt++) {
        if (stock->fd < 0) {
            rc = server_stock_start(stock);
            if (rc < 0)
                return rc;
        }
        rc = server_stock_send(stock, req, sizeof(*req));
    }
    if (rc < 0)
        return rc;
    stock->waiting = true;
    server_timer_arm(stock->loop, &stock->reply_timer, server_now_ms() + SERVER_STOCK_REPLY_MS,
                     server_stock_timed_out, stock);
    return 0;
}

void server_stock_destroy_context(struct server_stock *stock, uint32_t context_id)
{
    const struct render_client_destroy_context req = {
        .op = RENDER_CLIENT_DESTROY_CONTEXT,
        .context_id = context_id,
    };
    if (stock->fd >= 0)
        (void)server_stock_send(stock, &req, sizeof(req));
}

void server_stock_reset(struct server_stock *stock)
{
    const uint32_t op = RENDER_CLIENT_RESET;
    if (stock->fd >= 0)
        (void)server_stock_send(stock, &op, sizeof(op));
}
