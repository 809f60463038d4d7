/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole messages of a VMM's socket, of either kind:
 *   - SOCK_SEQPACKET (Linux): the kernel keeps messages apart;
 *   - SOCK_STREAM (virglrenderer's macOS port): each message has its length before
 *     it, 4 bytes with the highest first, and its descriptors come with the length.
 * Which one it is the socket says. On a stream a message may come in any pieces:
 * what has come is kept here, and nobody waits for the rest. Whatever is wrong with
 * a message ends with that message; the next one begins where its length said.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/server/peer.h"
#include "backend/server/vmm/render_protocol.h"
#include "common/fdsock.h"

#define SERVER_LENGTH_SIZE 4u

struct server_framing {
    bool stream;
    /* Of a stream's message that has come in part: */
    bool bad;      /* descriptors in the wrong place, or too many */
    uint64_t got;  /* bytes, with those of the length */
    uint32_t size; /* as its length says; known once that is whole */
    size_t n_fds;
    int fds[APIR_FDSOCK_FDS_MAX]; /* owned */
    uint8_t length[SERVER_LENGTH_SIZE];
    uint8_t data[sizeof(union render_context_request)]; /* the largest message that anybody takes */
};

/* Returns 0, or -EPROTOTYPE where sock is neither kind of a Unix socket. */
int server_framing_init(struct server_framing *f, int sock);
/* Lets go of a message that has come in part. */
void server_framing_fini(struct server_framing *f);

/*
 * The next message, without waiting. Returns
 *   0         *ret_size bytes are in data, and *ret_n_fds descriptors, the caller's, in fds;
 *             size 0: the peer has closed
 *   -EAGAIN   no whole one is there yet
 *   -EBADMSG  one that is empty or longer than cap, or whose descriptors are more than max_fds or
 *             not where they belong; they are closed. The first of its *ret_size bytes, which may
 *             be more than cap, are in data.
 *   -errno    the socket is of no use any more
 */
int server_framing_recv(struct server_framing *f, int sock, void *data, size_t cap,
                        size_t *ret_size, int *fds, size_t max_fds, size_t *ret_n_fds);

/* server_peer_reply() of a whole message, which leaves room for the length. */
int server_framing_reply(const struct server_framing *f, struct server_peer *peer, const void *data,
                         size_t size, int fd);
