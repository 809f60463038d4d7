/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message with file descriptors over a SOCK_SEQPACKET (or stream) socket.
 * Truncation of data or of descriptors is an error (-EBADMSG), never a short
 * result; received descriptors are close-on-exec and belong to the caller.
 * Where a system has no SOCK_SEQPACKET, send() and recv() put a length before each
 * message, as server_framing does (backend/server/vmm/framing.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define APIR_FDSOCK_FDS_MAX 8
#define APIR_FDSOCK_FDS_ALL 253 /* what Linux lets one message have */

/* Returns 0 or -errno (-EPIPE where the peer is gone). Restarts on EINTR. */
int apir_fdsock_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds);
/* How many of the bytes went, which on a stream may be fewer; the descriptors go with the first. */
ssize_t apir_fdsock_send_some(int sock, const void *data, size_t size, const int *fds,
                              size_t n_fds);

/*
 * Receives one message of at most cap bytes. *ret_size and *ret_n_fds say what
 * came (size 0: the peer closed). flags: 0 or MSG_DONTWAIT. Returns 0 or -errno
 * (-EAGAIN; -EBADMSG: truncated, or descriptors without data; they are closed already).
 */
int apir_fdsock_recv(int sock, void *data, size_t cap, size_t *ret_size, int *fds, size_t max_fds,
                     size_t *ret_n_fds, int flags);

/*
 * The same from a stranger, whose descriptors are of no use and are not closed here, for that may
 * take as long as the stranger likes: all of them are the caller's, of a message that is too long
 * (-EBADMSG) too. fds has room for APIR_FDSOCK_FDS_ALL.
 */
int apir_fdsock_recv_strange(int sock, void *data, size_t cap, size_t *ret_size, int *fds,
                             size_t *ret_n_fds, int flags);

/*
 * Lets nobody send descriptors to this socket; of a listening one, to the connections that come.
 * The sender gets EPERM. False: the kernel cannot (before Linux 6.16).
 */
bool apir_fdsock_refuse(int sock);

/* A Unix socket of that type, or the connection that is next, close-on-exec; neither blocks.
 * Returns the descriptor, or -1 with errno as socket() and accept() do. */
int apir_fdsock_open(int type);
int apir_fdsock_accept(int sock);

/*
 * Two connected sockets, close-on-exec: *ret_ours never blocks, *ret_theirs is for another process
 * and blocks. stream: SOCK_STREAM, else SOCK_SEQPACKET where there is one. Returns 0 or -errno.
 */
int apir_fdsock_pair(bool stream, int *ret_ours, int *ret_theirs);
