/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/vmm/framing.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"

#define STREAM_READS 16   /* in one call, so that others get their turn */
#define STREAM_SKIP  4096 /* bytes that nobody takes, in one read */

int server_framing_init(struct server_framing *f, int sock)
{
    struct sockaddr_storage address;
    socklen_t address_size = sizeof(address);
    int type = 0;
    socklen_t size = sizeof(type);
    *f = (struct server_framing){0};
    if (getsockname(sock, (struct sockaddr *)&address, &address_size) < 0 ||
        address.ss_family != AF_UNIX || getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
        (type != SOCK_SEQPACKET && type != SOCK_STREAM))
        return -EPROTOTYPE;
    f->stream = type == SOCK_STREAM;
    return 0;
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int fd = fds[i];
        apir_close_fd(&fd);
    }
}

/* Before the next message. */
static void server_framing_clear(struct server_framing *f)
{
    close_all(f->fds, f->n_fds);
    f->n_fds = 0;
    f->got = 0;
    f->size = 0;
    f->bad = false;
}

void server_framing_fini(struct server_framing *f)
{
    server_framing_clear(f);
}

/* ---- SOCK_SEQPACKET -------------------------------------------------------- */

static int packet_recv(int sock, void *data, size_t cap, size_t *ret_size, int *fds, size_t max_fds,
                       size_t *ret_n_fds)
{
    int all[APIR_FDSOCK_FDS_ALL];
    size_t n = 0;
    /* MSG_TRUNC: the true size of one that is too long. */
    int rc = apir_fdsock_recv_strange(sock, data, cap, ret_size, all, &n, MSG_DONTWAIT | MSG_TRUNC);
    if (rc == 0 && n > max_fds)
        rc = -EBADMSG;
    if (rc < 0) {
        close_all(all, n);
        return rc;
    }
    if (n)
        memcpy(fds, all, n * sizeof(*fds));
    *ret_n_fds = n;
    return 0;
}

/* ---- SOCK_STREAM ----------------------------------------------------------- */

/* Never more than is left of the length, or of the message: a read ends where the message does. */
static size_t stream_wanted(struct server_framing *f, uint8_t *skipped, uint8_t **ret_to)
{
    if (f->got < SERVER_LENGTH_SIZE) {
        *ret_to = f->length + f->got;
        return SERVER_LENGTH_SIZE - (size_t)f->got;
    }
    const uint64_t at = f->got - SERVER_LENGTH_SIZE, left = f->size - at;
    size_t room = STREAM_SKIP;
    *ret_to = skipped;
    if (at < sizeof(f->data)) {
        *ret_to = f->data + at;
        room = sizeof(f->data) - (size_t)at;
    }
    return left < room ? (size_t)left : room;
}

/* Returns 1 where something came, 0 at the stream's end, or -errno. */
static int stream_read(struct server_framing *f, int sock, uint8_t *to, size_t wanted)
{
    int fds[APIR_FDSOCK_FDS_ALL];
    size_t size = 0, n = 0;
    int rc = apir_fdsock_recv_strange(sock, to, wanted, &size, fds, &n, MSG_DONTWAIT);
    if (rc < 0 && rc != -EBADMSG)
        return rc;
    /* They come with what a message begins with, or not at all. */
    if (rc == 0 && n <= APIR_FDSOCK_FDS_MAX && (n == 0 || f->got == 0)) {
        if (n)
            memcpy(f->fds, fds, n * sizeof(*fds));
        f->n_fds += n;
    } else {
        close_all(fds, n);
        f->bad = true;
    }
    f->got += size;
    return size > 0;
}

/* Returns 0 once the message is whole, or the stream at its end: f->got is 0 then. */
static int stream_fill(struct server_framing *f, int sock)
{
    uint8_t skipped[STREAM_SKIP];
    for (int i = 0; i < STREAM_READS; i++) {
        uint8_t *to;
        const size_t wanted = stream_wanted(f, skipped, &to);
        const int rc = stream_read(f, sock, to, wanted);
        if (rc < 0)
            return rc;
        if (rc == 0) {
            server_framing_clear(f);
            return 0;
        }
        if (f->got == SERVER_LENGTH_SIZE) {
            uint32_t size;
            memcpy(&size, f->length, sizeof(size));
            f->size = ntohl(size);
        }
        if (f->got >= SERVER_LENGTH_SIZE && f->got - SERVER_LENGTH_SIZE == f->size)
            return 0;
    }
    return -EAGAIN; /* the socket is ready still, or again once there is more */
}

static int stream_recv(struct server_framing *f, int sock, void *data, size_t cap, size_t *ret_size,
                       int *fds, size_t max_fds, size_t *ret_n_fds)
{
    assert(cap <= sizeof(f->data));
    int rc = stream_fill(f, sock);
    if (rc < 0)
        return rc;
    const bool ended = f->got == 0;
    const size_t size = f->size;
    *ret_size = size;
    memcpy(data, f->data, size < cap ? size : cap);
    if (!ended && (f->bad || size == 0 || size > cap || f->n_fds > max_fds)) {
        rc = -EBADMSG;
    } else {
        if (f->n_fds)
            memcpy(fds, f->fds, f->n_fds * sizeof(*fds));
        *ret_n_fds = f->n_fds;
        f->n_fds = 0; /* they are the caller's */
    }
    server_framing_clear(f);
    return rc;
}

/* ---- either ---------------------------------------------------------------- */

int server_framing_recv(struct server_framing *f, int sock, void *data, size_t cap,
                        size_t *ret_size, int *fds, size_t max_fds, size_t *ret_n_fds)
{
    *ret_size = 0;
    *ret_n_fds = 0;
    return f->stream ? stream_recv(f, sock, data, cap, ret_size, fds, max_fds, ret_n_fds)
                     : packet_recv(sock, data, cap, ret_size, fds, max_fds, ret_n_fds);
}

int server_framing_reply(const struct server_framing *f, struct server_peer *peer, const void *data,
                         size_t size, int fd)
{
    if (!f->stream)
        return server_peer_reply(peer, data, size, fd);
    uint8_t framed[SERVER_REPLY_MAX];
    const uint32_t length = htonl((uint32_t)size);
    assert(size <= sizeof(framed) - sizeof(length));
    memcpy(framed, &length, sizeof(length));
    memcpy(framed + sizeof(length), data, size);
    return server_peer_reply(peer, framed, sizeof(length) + size, fd);
}
