/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/doctor/access.h"

#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534u /* whom a user namespace shows for those that it does not know */

enum doctor_access doctor_access_of(const struct stat *st, unsigned uid, const unsigned *groups,
                                    size_t n_groups)
{
    if (uid == 0)
        return DOCTOR_ACCESS_ROOT;
    /* As the kernel does it: the first class that fits decides, also against the user. */
    if (uid == st->st_uid)
        return (st->st_mode & 0600) == 0600 ? DOCTOR_ACCESS_OWNER : DOCTOR_ACCESS_NONE;
    for (size_t i = 0; i < n_groups; i++)
        if (groups[i] == st->st_gid)
            return (st->st_mode & 0060) == 0060 ? DOCTOR_ACCESS_GROUP : DOCTOR_ACCESS_NONE;
    return (st->st_mode & 0006) == 0006 ? DOCTOR_ACCESS_WORLD : DOCTOR_ACCESS_NONE;
}

enum doctor_access doctor_access_mine(const struct stat *st)
{
    gid_t groups[1024];
    int n = getgroups(1023, groups);

    if (n < 0)
        n = 0;
    groups[n++] = getegid();
    return doctor_access_of(st, geteuid(), groups, (size_t)n);
}

const char *doctor_group_name(unsigned gid, char *text, size_t size)
{
    const struct group *g = getgrgid(gid);

    if (g)
        snprintf(text, size, "%s", g->gr_name);
    else
        snprintf(text, size, "%u", gid);
    return text;
}

const char *doctor_access_advice(const struct stat *st, const char *user, char *text, size_t size)
{
    char group[64];

    /* Nobody in this user namespace is in a group that it does not know. */
    if (st->st_uid == NOBODY && st->st_gid == NOBODY)
        snprintf(text, size,
                 "Users are mapped here, and its owner and group are none of them: on the host "
                 "give it mode 0666 (systemd-nspawn), or in here a group (rootless podman: "
                 "--group-add keep-groups, with crun; Incus: gid= of the device).");
    else
        snprintf(text, size,
                 "usermod -aG %s %s, then log in again. In a rootless container: "
                 "--group-add keep-groups (crun).",
                 doctor_group_name(st->st_gid, group, sizeof(group)), user);
    return text;
}
