/* SPDX-License-Identifier: Apache-2.0 */
/* Who may open a file. */
#pragma once

#include <stddef.h>

struct stat;

/* Which class of a file's mode (or what else) lets a user open it for reading and writing. */
enum doctor_access {
    DOCTOR_ACCESS_NONE,
    DOCTOR_ACCESS_ROOT,
    DOCTOR_ACCESS_OWNER,
    DOCTOR_ACCESS_GROUP,
    DOCTOR_ACCESS_WORLD,
};
enum doctor_access doctor_access_of(const struct stat *st, unsigned uid, const unsigned *groups,
                                    size_t n_groups);
/* The same for this process's own user and groups. */
enum doctor_access doctor_access_mine(const struct stat *st);

/* What the user of that name (as the system's command takes it) is to do where the class is none.
 */
const char *doctor_access_advice(const struct stat *st, const char *user, char *text, size_t size);

/* The name of a group, or its number; into text, which is returned. */
const char *doctor_group_name(unsigned gid, char *text, size_t size);
