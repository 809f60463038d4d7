/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/peer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "backend/server/closer.h"
#include "common/cleanup.h"
#include "common/fdsock.h"

static void server_peer_update(struct server_peer *peer)
{
    uint32_t events = peer->reply_size ? SERVER_LOOP_OUT : peer->paused ? 0u : SERVER_LOOP_IN;
    server_loop_modify(peer->loop, &peer->source, events);
}

int server_peer_init(struct server_peer *peer, struct server_loop *loop, int fd,
                     void (*ready)(void *user, uint32_t events), void *user)
{
    *peer = (struct server_peer){.loop = loop, .fd = fd, .reply_fd = -1};
    int flags = fcntl(fd, F_GETFL);
    int rc = 0;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        rc = -errno;
    if (rc == 0)
        rc = server_loop_add(loop, &peer->source, fd, SERVER_LOOP_IN, ready, user);
    if (rc < 0)
        apir_close_fd(&peer->fd);
    return rc;
}

void server_peer_fini(struct server_peer *peer)
{
    if (peer->fd < 0)
        return;
    server_loop_remove(peer->loop, &peer->source);
    apir_close_fd(&peer->reply_fd);
    if (peer->stranger)
        server_close_later(&peer->fd, 1);
    else
        close(peer->fd);
    peer->fd = -1;
    peer->reply_size = 0;
}

/* Sends what goes now. Returns 0, with *ret_sent of the bytes gone, or -errno. */
static int server_peer_send(struct server_peer *peer, const void *data, size_t size, int fd,
                            size_t *ret_sent)
{
    ssize_t n = apir_fdsock_send_some(peer->fd, data, size, &fd, fd >= 0 ? 1 : 0);
    if (n < 0 && n != -EAGAIN)
        return (int)n;
    *ret_sent = n > 0 ? (size_t)n : 0;
    return 0;
}

int server_peer_reply(struct server_peer *peer, const void *data, size_t size, int fd)
{
    cleanup_fd int owned = fd;
    assert(size <= SERVER_REPLY_MAX && peer->reply_size == 0);
    size_t sent = 0;
    int rc = server_peer_send(peer, data, size, owned, &sent);
    if (rc < 0 || sent == size)
        return rc;
    memcpy(peer->reply, (const uint8_t *)data + sent, size - sent);
    peer->reply_size = size - sent;
    peer->reply_fd = sent ? -1 : steal_fd(&owned); /* it goes with the first byte */
    server_peer_update(peer);
    return 0;
}

bool server_peer_can_read(const struct server_peer *peer)
{
    return peer->fd >= 0 && peer->reply_size == 0 && !peer->paused;
}

void server_peer_pause(struct server_peer *peer, bool paused)
{
    peer->paused = paused;
    server_peer_update(peer);
}

int server_peer_flush(struct server_peer *peer, uint32_t events)
{
    if (events & (SERVER_LOOP_HUP | SERVER_LOOP_ERR))
        return 0;
    if (peer->reply_size == 0)
        return 0;
    size_t sent = 0;
    if (server_peer_send(peer, peer->reply, peer->reply_size, peer->reply_fd, &sent) < 0)
        sent = peer->reply_size; /* the peer is gone, which its own event will tell */
    if (sent == 0)
        return 1;
    apir_close_fd(&peer->reply_fd);
    peer->reply_size -= sent;
    memmove(peer->reply, peer->reply + sent, peer->reply_size);
    if (peer->reply_size == 0)
        server_peer_update(peer);
    return 1;
}
