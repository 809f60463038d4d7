/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket for who looks (`apir top`): each connection gets one line of JSON (report.h) and is
 * closed; what it sends is not read. It is for this server's own user and for root: by its mode and
 * by the credentials of the peer.
 *
 * Looking is to cost a server's contexts nothing: a few connections at a time, the others wait in
 * the kernel's queue; nothing is waited for, and who has not read all of it after some seconds is
 * cut off.
 *
 * The folder is /run/apir/top where that can be written in, else $XDG_RUNTIME_DIR/apir/top. With
 * neither there is no socket, and nothing else changes.
 */
#pragma once

#include <stddef.h>
#include <sys/un.h>

#include "backend/server/context.h"
#include "backend/server/loop.h"

#define SERVER_SEEN_FOLDER  "/run/apir/top"
#define SERVER_SEEN_READERS 4u
/* From a connection to its end, and from one for which there was no descriptor to the next. */
#define SERVER_SEEN_READ_MS  5000
#define SERVER_SEEN_AGAIN_MS 100

struct server_seen;

struct server_seen_reader {
    struct server_seen *seen;
    struct server_source source; /* added: it is in use, and so is all below */
    struct server_timer late;
    int fd;
    char *text;
    size_t size, sent;
};

/* {0} is a valid one that looks at nothing. */
struct server_seen {
    struct server_loop *loop; /* NULL: there is no socket */
    struct server_contexts *contexts;
    const char *served; /* the socket that it serves; NULL: a VMM */
    int fd;
    struct server_source source;
    struct server_timer again;
    struct sockaddr_un address; /* with our own file */
    struct server_seen_reader readers[SERVER_SEEN_READERS];
};

/* What cannot be had is said in the log, and that is all. `served` and contexts outlive it. */
void server_seen_init(struct server_seen *seen, struct server_contexts *contexts,
                      const char *served);
void server_seen_fini(struct server_seen *seen);
