/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/unix/access.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

/* The configuration has only decimal numbers below 2^32 - 1, and names. */
static bool server_access_number(const char *text, unsigned *ret_number)
{
    if (text[strspn(text, "0123456789")] != '\0')
        return false;
    *ret_number = (unsigned)strtoul(text, NULL, 10);
    return true;
}

int server_access_init(struct server_access *access, const struct apir_config *config,
                       struct apir_error *err)
{
    const struct apir_config_names *users = &config->allow_users;
    const struct apir_config_names *groups = &config->allow_groups;
    *access = (struct server_access){.everyone = users->n == 0 && groups->n == 0};
    for (size_t i = 0; i < users->n; i++) {
        unsigned id;
        if (!server_access_number(users->names[i], &id)) {
            const struct passwd *user = getpwnam(users->names[i]);
            if (!user)
                return apir_error_set(err, ENOENT, "\"allow_users\": there is no user %s",
                                      users->names[i]);
            id = user->pw_uid;
        }
        access->uids[access->n_uids++] = id;
    }
    for (size_t i = 0; i < groups->n; i++) {
        unsigned id;
        if (!server_access_number(groups->names[i], &id)) {
            const struct group *group = getgrnam(groups->names[i]);
            if (!group)
                return apir_error_set(err, ENOENT, "\"allow_groups\": there is no group %s",
                                      groups->names[i]);
            id = group->gr_gid;
        }
        access->gids[access->n_gids++] = id;
    }
    return 0;
}

static bool server_access_has_group(const struct server_access *access, gid_t gid)
{
    for (size_t i = 0; i < access->n_gids; i++) {
        if (access->gids[i] == gid)
            return true;
    }
    return false;
}

/* The peer's further groups, which the kernel tells from 4.13 on. */
static bool server_access_further_groups(const struct server_access *access, int fd)
{
    socklen_t size = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0 || errno != ERANGE)
        return false;
    cleanup_free gid_t *groups = malloc(size);
    if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
        return false;
    for (size_t i = 0; i < size / sizeof(*groups); i++) {
        if (server_access_has_group(access, groups[i]))
            return true;
    }
    return false;
}

bool server_access_check(const struct server_access *access, int fd,
                         struct apir_fdsock_peer *ret_who)
{
    if (!apir_fdsock_peer(fd, ret_who))
        return false;
    if (access->everyone)
        return true;
    for (size_t i = 0; i < access->n_uids; i++) {
        if (access->uids[i] == ret_who->uid)
            return true;
    }
    return server_access_has_group(access, ret_who->gid) ||
           (access->n_gids > 0 && server_access_further_groups(access, fd));
}
