/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing what a stranger has sent. Whoever closes the last descriptor of a file may wait for it as
 * long as the stranger likes: a socket that lingers, a file system in user space. A connection is
 * such a file as well, for what lies in it unread.
 *
 * Only for kernels that let clients send descriptors (before Linux 6.16,
 * backend/server/unix/listen.c). Threads of their own close them, and do nothing else: a child that
 * is forked meanwhile needs none of their locks. Where all of them wait, the rest waits with them,
 * open: that costs descriptors, and nobody's time.
 */
#ifndef APIR_SERVER_CLOSER_H
#define APIR_SERVER_CLOSER_H

#include <stddef.h>

#define SERVER_CLOSERS_MAX 64u

/* Takes the descriptors over, and does not wait. */
void server_close_later(const int *fds, size_t n);

#endif
