/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our end of a socket whose peer sends requests and may or may not read the
 * replies. Non-blocking: a reply that does not fit waits here, and no further
 * request is read before it has gone out, so one reply per peer is all that is
 * ever kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/server/loop.h"

#define SERVER_REPLY_MAX 288u

struct server_peer {
    struct server_loop *loop;
    struct server_source source;
    int fd; /* owned; -1: no peer */
    bool paused;
    bool stranger;     /* what it has sent may be slow to close (backend/server/closer.h) */
    size_t reply_size; /* not 0: this reply waits */
    int reply_fd;
    uint8_t reply[SERVER_REPLY_MAX];
};

/*
 * Takes fd over (also when it fails) and makes it non-blocking; that flag must
 * be ours alone. ready(user, events) is called for requests and for the end of
 * the connection, never for the flushing of replies. Returns 0 or -errno.
 */
int server_peer_init(struct server_peer *peer, struct server_loop *loop, int fd,
                     void (*ready)(void *user, uint32_t events), void *user);
void server_peer_fini(struct server_peer *peer);

/*
 * Sends or keeps a reply of at most SERVER_REPLY_MAX bytes, with fd where it is
 * not -1; fd is taken over. There must be no reply waiting. Returns 0 or -errno
 * (nothing was sent).
 */
int server_peer_reply(struct server_peer *peer, const void *data, size_t size, int fd);

/* Whether the next request may be read now. */
bool server_peer_can_read(const struct server_peer *peer);

/* Stops and starts the reading of requests (the end of the peer still shows). */
void server_peer_pause(struct server_peer *peer, bool paused);

/*
 * To be called first in ready(): sends what waits. Returns 1 where that was all
 * there was to do, 0 where the handler goes on (a request, or the peer's end).
 */
int server_peer_flush(struct server_peer *peer, uint32_t events);
