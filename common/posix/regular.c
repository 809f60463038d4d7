/* SPDX-License-Identifier: Apache-2.0 */
#include "common/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/cleanup.h"

static int kind(const struct stat *st)
{
    return S_ISREG(st->st_mode) ? 0 : S_ISLNK(st->st_mode) ? -ELOOP : -EINVAL;
}

/* Without O_PATH there is a moment between the look and the opening, in which who owns the folder
 * could put something else there: that is opened then, without waiting, and closed. */
int apir_regular_open(int dir, const char *path, int flags)
{
    struct stat st;
    if (fstatat(dir, path, &st, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) < 0)
        return -errno;
    int rc = kind(&st);
    if (rc < 0)
        return rc;
    cleanup_fd int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    rc = kind(&st);
    return rc < 0 ? rc : steal_fd(&fd);
}
