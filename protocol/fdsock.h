/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message with file descriptors over a SOCK_SEQPACKET (or stream) socket.
 * Truncation of data or of descriptors is an error (-EBADMSG), never a short
 * result; received descriptors are close-on-exec and belong to the caller.
 */
#ifndef APIR_FDSOCK_H
#define APIR_FDSOCK_H

#include <stddef.h>

#define APIR_FDSOCK_FDS_MAX 8

/* Returns 0 or -errno (-EPIPE where the peer is gone). Restarts on EINTR. */
int apir_fdsock_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds);

/*
 * Receives one message of at most cap bytes. *ret_size and *ret_n_fds say what
 * came (size 0: the peer closed). flags: 0 or MSG_DONTWAIT. Returns 0 or -errno
 * (-EAGAIN; -EBADMSG: truncated, or descriptors without data; they are closed already).
 */
int apir_fdsock_recv(int sock, void *data, size_t cap, size_t *ret_size, int *fds, size_t max_fds,
                     size_t *ret_n_fds, int flags);

#endif
