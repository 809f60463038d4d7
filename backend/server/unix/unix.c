/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/unix/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/server/closer.h"
#include "backend/server/memory.h"
#include "backend/server/peer.h"
#include "common/cleanup.h"
#include "common/fdsock.h"
#include "protocol/unix.h"

#define UNIX_BATCH 4 /* requests per turn, so that others get theirs */

struct server_unix {
    struct server_context context; /* first: the ops get this one */
    struct server_peer peer;
    struct server_timer hello_due;
    bool greeted;
};

union unix_message {
    struct apir_unix_hello hello;
    struct apir_unix_request request;
};

_Static_assert(sizeof(struct apir_unix_welcome) <= SERVER_REPLY_MAX, "a reply that can be kept");

/* ---- the end --------------------------------------------------------------- */

static void server_unix_destroy(struct server_context *context)
{
    struct server_unix *conn = (struct server_unix *)(void *)context;
    server_timer_disarm(context->contexts->env.loop, &conn->hello_due);
    /* A guest that still looks at its ring, by whatever map of it, sees that this was the end. */
    if (!context->lost)
        server_context_lose(context, APIR_LOG_DEBUG, "the connection to the server has ended");
    server_context_fini(context);
    server_peer_fini(&conn->peer);
    free(conn);
}

static const struct server_context_ops unix_context_ops = {
    .destroy = server_unix_destroy,
};

/* Ends the connection; the ring keeps the reason. */
static void server_unix_violated(struct server_unix *conn, const char *what)
{
    server_context_complain(&conn->context, "user %u: protocol violation: %s",
                            conn->context.user->uid, what);
    server_context_lose(&conn->context, APIR_LOG_INFO, "protocol violation on the socket");
    server_context_destroy(&conn->context);
}

static void server_unix_hello_late(void *user)
{
    server_unix_violated(user, "no hello");
}

/* ---- greeting -------------------------------------------------------------- */

static struct apir_unix_welcome server_unix_welcome(const char *refusal)
{
    struct apir_unix_welcome welcome = {
        .magic = APIR_UNIX_MAGIC,
        .major = APIR_PROTOCOL_MAJOR,
        .minor = APIR_PROTOCOL_MINOR,
        .status = refusal ? APIR_UNIX_REFUSED : APIR_UNIX_WELCOME,
    };
    if (refusal)
        memcpy(welcome.text, refusal, strnlen(refusal, sizeof(welcome.text) - 1));
    return welcome;
}

void server_unix_refuse(int fd, const char *text)
{
    /* Into the empty buffer of a fresh connection: nothing waits here. */
    const struct apir_unix_welcome welcome = server_unix_welcome(text);
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0)
        (void)apir_fdsock_send(fd, &welcome, sizeof(welcome), NULL, 0);
}

/* Returns false where the connection is destroyed. */
static bool server_unix_on_hello(struct server_unix *conn, const struct apir_unix_hello *hello,
                                 size_t size)
{
    int rc = apir_unix_hello_check(hello, size);
    if (rc == -EPROTONOSUPPORT) {
        char text[APIR_REASON_MAX];
        snprintf(text, sizeof(text),
                 "protocol versions differ: the host speaks %u, the plug-in %u; bring both to the "
                 "same release",
                 APIR_PROTOCOL_MAJOR, hello->major);
        server_unix_refuse(conn->peer.fd, text);
        server_context_destroy(&conn->context);
        return false;
    }
    if (rc < 0) {
        server_unix_violated(conn, "bad hello");
        return false;
    }
    conn->greeted = true;
    server_timer_disarm(conn->context.contexts->env.loop, &conn->hello_due);
    const struct apir_unix_welcome welcome = server_unix_welcome(NULL);
    if (server_peer_reply(&conn->peer, &welcome, sizeof(welcome), -1) < 0) {
        server_context_destroy(&conn->context);
        return false;
    }
    return true;
}

/* ---- requests -------------------------------------------------------------- */

/* Returns 0, or -errno where the peer cannot be answered. */
static int server_unix_blob_create(struct server_unix *conn, const struct apir_unix_request *req)
{
    struct server_context *context = &conn->context;
    struct apir_unix_answer answer = {.op = req->op, .blob_id = req->blob_id};
    const char *why = NULL;
    int fd = server_context_blob_create(context, req->blob_id, req->value, &why);
    int rc = fd < 0 ? fd : server_memory_seal(fd);
    if (fd >= 0) {
        if (rc < 0)
            close(fd);
        else
            rc = server_peer_reply(&conn->peer, &answer, sizeof(answer), fd);
        if (rc == 0)
            return 0;
        why = strerror(-rc); /* too many descriptors in flight, say */
        server_context_blob_destroy(context, req->blob_id);
    }
    server_context_complain(context, "blob %u of %llu bytes refused: %s", req->blob_id,
                            (unsigned long long)req->value, why);
    answer.status = (uint32_t)-rc;
    return server_peer_reply(&conn->peer, &answer, sizeof(answer), -1);
}

/* Returns false where the connection is destroyed. */
static bool server_unix_on_request(struct server_unix *conn, const struct apir_unix_request *req,
                                   size_t size)
{
    if (apir_unix_request_check(req, size) < 0) {
        server_unix_violated(conn, "bad request");
        return false;
    }
    switch (req->op) {
    case APIR_UNIX_BLOB_CREATE:
        if (server_unix_blob_create(conn, req) < 0) {
            server_context_destroy(&conn->context);
            return false;
        }
        break;
    case APIR_UNIX_BLOB_DESTROY:
        server_context_blob_destroy(&conn->context, req->blob_id);
        break;
    case APIR_UNIX_KICK:
        server_context_kick(&conn->context);
        break;
    case APIR_UNIX_PING:
        server_context_ping(&conn->context, (uint32_t)req->value);
        break;
    default:
        break;
    }
    return true;
}

/* One message. Returns false where there is none, or the connection is destroyed. */
static bool server_unix_receive(struct server_unix *conn)
{
    if (!server_peer_can_read(&conn->peer))
        return false;
    union unix_message msg = {0};
    size_t size = 0;
    int fds[APIR_FDSOCK_FDS_ALL];
    size_t n_fds = 0;
    int rc = apir_fdsock_recv_strange(conn->peer.fd, &msg, sizeof(msg), &size, fds, &n_fds,
                                      MSG_DONTWAIT);
    server_close_later(fds, n_fds);
    if (rc == -EAGAIN)
        return false;
    if (rc == -EBADMSG || n_fds) {
        server_unix_violated(conn, "a message too long, or with descriptors");
        return false;
    }
    if (rc < 0 || size == 0) {
        server_context_destroy(&conn->context);
        return false;
    }
    return conn->greeted ? server_unix_on_request(conn, &msg.request, size)
                         : server_unix_on_hello(conn, &msg.hello, size);
}

static void server_unix_ready(void *user, uint32_t events)
{
    struct server_unix *conn = user;
    if (server_peer_flush(&conn->peer, events))
        return;
    /* Hung up: nobody takes an answer any more, so what was asked is of no interest. */
    if (events & (SERVER_LOOP_HUP | SERVER_LOOP_ERR)) {
        server_context_destroy(&conn->context);
        return;
    }
    for (int i = 0; i < UNIX_BATCH; i++) {
        if (!server_unix_receive(conn))
            return; /* perhaps freed: do not look at it again */
    }
}

/* ---- life ------------------------------------------------------------------ */

int server_unix_create(struct server_contexts *contexts, uint32_t id, struct server_user *user,
                       pid_t pid, int fd)
{
    cleanup_fd int owned = fd;
    struct server_unix *conn = calloc(1, sizeof(*conn));
    if (!conn)
        return -ENOMEM;
    int rc = server_peer_init(&conn->peer, contexts->env.loop, steal_fd(&owned), server_unix_ready,
                              conn);
    if (rc < 0) {
        free(conn);
        return rc;
    }
    conn->peer.stranger = contexts->strangers_send;
    server_context_init(&conn->context, contexts, id, user, pid, NULL, &unix_context_ops);
    server_timer_arm(contexts->env.loop, &conn->hello_due, server_now_ms() + SERVER_UNIX_HELLO_MS,
                     server_unix_hello_late, conn);
    return 0;
}
