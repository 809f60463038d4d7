/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context behind a connection of the `unix` transport (protocol/unix.h). The
 * peer is a process that we know nothing of but its credentials: whatever breaks
 * the rules ends the connection, and with it the context and nothing else. It may
 * be silent, flood us, or never read: one reply is kept for it, then no request
 * of its is read any more.
 */
#pragma once

#include <sys/types.h>

#include "backend/server/context.h"

/* A connection that has not said hello by then is closed. */
#define SERVER_UNIX_HELLO_MS 2000

/* Makes the context of a connection of `user`, process `pid` (0: it cannot be told), whose fd
 * is taken over in any case. Returns 0 or -errno. */
int server_unix_create(struct server_contexts *contexts, uint32_t id, struct server_user *user,
                       pid_t pid, int fd);

/* Tells the peer of a connection that becomes no context why; fd stays the caller's. */
void server_unix_refuse(int fd, const char *text);
