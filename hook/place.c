/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include <unistd.h>

#include "hook/rootfs.h"
#include "protocol/cleanup.h"
#include "protocol/error.h"

int hook_place_open_source(const char *path, struct apir_error *err)
{
    struct stat st;

    if (path[0] != '/')
        return apir_error_set(err, EINVAL, "the plug-in's path %s is not absolute", path);
    /* The host's own path, by the administrator: its links may be followed. */
    cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return apir_error_sys(err, errno, "plug-in %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return apir_error_set(err, EINVAL, "plug-in %s is no library", path);
    if ((st.st_mode & 0002) != 0)
        return apir_error_set(err, EPERM, "plug-in %s can be written by everybody", path);
    return steal_fd(&fd);
}

static void close_file(FILE **file)
{
    if (*file != NULL)
        fclose(*file);
}
#define cleanup_file __attribute__((cleanup(close_file)))

static FILE *open_proc(const char *path)
{
    struct statfs fs;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return NULL;
    /* Anything but the kernel's own answer is none. */
    if (fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC) {
        errno = ENOTSUP;
        return NULL;
    }
    FILE *file = fdopen(fd, "re");
    if (file != NULL)
        steal_fd(&fd);
    return file;
}

static int mount_id(int fd)
{
    char path[64];
    cleanup_free char *line = NULL;
    size_t size = 0;
    int id = -ENODATA;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    cleanup_file FILE *file = open_proc(path);
    if (file == NULL)
        return -errno;
    while (getline(&line, &size, file) > 0)
        if (sscanf(line, "mnt_id: %d", &id) == 1)
            return id;
    return id;
}

int hook_place_is_shared(int fd)
{
    cleanup_free char *line = NULL;
    size_t size = 0;
    int id = mount_id(fd);

    if (id < 0)
        return id;
    cleanup_file FILE *file = open_proc("/proc/self/mountinfo");
    if (file == NULL)
        return -errno;
    while (getline(&line, &size, file) > 0) {
        if (atoi(line) != id)
            continue;
        /* "36 35 98:0 /root /point options [optional fields] - …": names have no spaces in it. */
        char *end = strstr(line, " - ");
        if (end != NULL)
            *end = '\0';
        return strstr(line, " shared:") != NULL;
    }
    return -ENODATA;
}

static int clone_tree(int source)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };
    cleanup_fd int tree =
        open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0)
        return -errno;
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return -errno;
    return steal_fd(&tree);
}

/* An O_PATH descriptor of the file to be covered. */
static int open_target(int dir, const char *name, bool over_existing)
{
    struct stat st;
    cleanup_fd int made = hook_rootfs_open_child(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644);

    if (made >= 0)
        return steal_fd(&made);
    if (made == -EXDEV)
        return -EALREADY;
    if (made != -EEXIST)
        return made;
    cleanup_fd int there = hook_rootfs_open_child(dir, name, O_PATH, 0);
    if (there == -EXDEV)
        return -EALREADY;
    if (there < 0)
        return there;
    if (fstat(there, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || (st.st_size != 0 && !over_existing))
        return -EEXIST;
    return steal_fd(&there);
}

int hook_place_file(int dir, const char *name, int source, bool over_existing,
                    struct apir_error *err)
{
    cleanup_fd int target = open_target(dir, name, over_existing);

    if (target == -EEXIST)
        return apir_error_set(err, EEXIST, "the image has a file %s of its own", name);
    if (target == -EALREADY)
        return apir_error_set(err, EALREADY, "something is mounted over %s already", name);
    if (target < 0)
        return apir_error_sys(err, -target, "make %s", name);
    cleanup_fd int tree = clone_tree(source);
    if (tree < 0)
        return apir_error_sys(err, -tree, "clone the plug-in's mount");
    if (move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return apir_error_sys(err, errno, "mount over %s", name);
    return 0;
}
