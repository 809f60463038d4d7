/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of the `unix` transport: accepts connections, decides which of them
 * become contexts, and tells the others why they do not. A refused one costs
 * nothing further: it is answered and closed at once, unread.
 */
#pragma once

#include <stddef.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "backend/server/unix/access.h"
#include "backend/server/context.h"
#include "backend/server/loop.h"
#include "backend/server/quota.h"
#include "backend/server/seen/seen.h"
#include "common/error.h"

struct server_listen {
    struct server_source source;
    struct server_timer resume; /* armed: out of descriptors, not accepting */
    struct server_contexts contexts;
    struct server_access access;
    uint32_t last_id;
    struct server_quota log_quota;
    int fd; /* owned */
    struct server_seen seen;
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1]; /* of the socket; "": none */
};

/* Takes fd, a listening SOCK_SEQPACKET socket, over (also when it fails). Returns 0 or -errno. */
int server_listen_init(struct server_listen *listen, const struct server_env *env,
                       const struct server_access *access, int fd);
/* Destroys its contexts and closes the socket. */
void server_listen_fini(struct server_listen *listen);

/*
 * Makes the listening socket at `path`, mode 0660, and of group `group` (NULL: whatever new
 * files get). A socket that nobody serves is replaced in one step, so that there is always one to
 * connect to; one that is served is an error. *ret_made is the socket file. Returns the fd or
 * -errno with *err.
 */
int server_listen_make(const char *path, const char *group, struct stat *ret_made,
                       struct apir_error *err);

/* Removes the socket file, unless another one has taken its place. */
void server_listen_remove(const char *path, const struct stat *made);

/*
 * The one socket that systemd passes (sd_listen_fds): 3, made close-on-exec, and
 * the environment's variables are gone. Returns it or -errno with *err.
 */
int server_listen_inherit(struct apir_error *err);
