/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/doctor/access.h"

#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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
