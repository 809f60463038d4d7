/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that want no descriptor left open. */
#ifndef APIR_TEST_FDS_H
#define APIR_TEST_FDS_H

#include <dirent.h>
#include <stdio.h>
#include <sys/types.h>

/* Open descriptors of the process (0: of this one, with the one that counts them), or -1. */
static inline int fds_count(pid_t pid)
{
    char path[64] = "/proc/self/fd";
    if (pid)
        snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    int n = 0;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

#endif
