/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may use the `unix` transport, by the credentials that the kernel has noted
 * for the peer at its connect(): those of this server's user namespace, so a
 * rootless container's users are the ones they are mapped to. Where the
 * configuration names nobody, the socket's permissions have decided already.
 * Whom it does not name is refused, root too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "backend/config/config.h"
#include "common/error.h"
#include "common/peer.h"

struct server_access {
    bool everyone;
    size_t n_uids;
    size_t n_gids;
    uid_t uids[APIR_CONFIG_NAMES_MAX];
    gid_t gids[APIR_CONFIG_NAMES_MAX];
};

/* Looks the names up. Returns 0 or -errno with *err naming the one that is unknown. */
int server_access_init(struct server_access *access, const struct apir_config *config,
                       struct apir_error *err);

/* Whether the peer of this connection may, and who it is. A peer that cannot be told may not. */
bool server_access_check(const struct server_access *access, int fd,
                         struct apir_fdsock_peer *ret_who);
