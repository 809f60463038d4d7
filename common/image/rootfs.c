/* SPDX-License-Identifier: Apache-2.0 */
#include "common/image/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/regular.h"

#define TRIES 16

/* By number: only the newest C libraries have a function for it. */
static int resolve(int dir, const char *path, int flags, mode_t mode, uint64_t resolve_flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .mode = (flags & O_CREAT) != 0 ? mode : 0,
        .resolve = resolve_flags,
    };

    if ((flags & O_PATH) == 0)
        how.flags |= O_NOCTTY | O_NONBLOCK;
    for (int i = 0; i < TRIES; i++) {
        long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
        if (fd >= 0)
            return (int)fd;
        /* EAGAIN: something was renamed meanwhile and ".." could not be proved safe. */
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
    return -EAGAIN;
}

static int resolve_file(int dir, const char *path, int flags, uint64_t resolve_flags)
{
    cleanup_fd int there = resolve(dir, path, O_PATH | (flags & O_NOFOLLOW), 0, resolve_flags);

    return there < 0 ? there : apir_regular_reopen(there, flags);
}

static int open_below(int dir, const char *path, int flags, mode_t mode, uint64_t resolve_flags)
{
    if ((flags & (O_PATH | O_DIRECTORY | O_CREAT)) == 0)
        return resolve_file(dir, path, flags, resolve_flags);
    return resolve(dir, path, flags, mode, resolve_flags);
}

int image_rootfs_open(const char *path)
{
    return resolve(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);
}

int image_rootfs_openat(int root, const char *path, int flags, mode_t mode)
{
    return open_below(root, path, flags, mode,
                      RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
}

int image_rootfs_open_child(int dir, const char *name, int flags, mode_t mode)
{
    if (strchr(name, '/') || strcmp(name, "..") == 0)
        return -EINVAL;
    return open_below(dir, name, flags | O_NOFOLLOW, mode,
                      RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS |
                          RESOLVE_NO_XDEV);
}

int image_rootfs_each(int dir_fd, int (*fn)(const char *name, unsigned char type, void *user),
                      void *user)
{
    cleanup_fd int fd =
        resolve(dir_fd, ".", O_RDONLY | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);

    if (fd < 0)
        return fd;
    cleanup_dir DIR *dir = fdopendir(fd);
    if (!dir)
        return -errno;
    steal_fd(&fd);
    for (int i = 0; i < IMAGE_ROOTFS_ENTRIES_MAX; i++) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry)
            return -errno;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int rc = fn(entry->d_name, entry->d_type, user);
        if (rc != 0)
            return rc;
    }
    return -E2BIG;
}
