/* SPDX-License-Identifier: Apache-2.0 */
#include "common/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/cleanup.h"

int apir_regular_reopen(int fd, int flags)
{
    char self[sizeof("/proc/self/fd/") + 12];
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return S_ISLNK(st.st_mode) ? -ELOOP : -EINVAL;
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    /* O_NONBLOCK: the owner of a file may hold a lease on it. */
    int again = open(self, (flags & ~O_NOFOLLOW) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return again < 0 ? -errno : again;
}

int apir_regular_open(int dir, const char *path, int flags)
{
    cleanup_fd int there = openat(dir, path, O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW));

    return there < 0 ? -errno : apir_regular_reopen(there, O_RDONLY);
}
