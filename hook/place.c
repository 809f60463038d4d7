/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/place.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/mounts.h"
#include "common/image/rootfs.h"
#include "common/cleanup.h"
#include "common/error.h"

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

int hook_place_is_shared(int fd)
{
    struct hook_mount mount;
    int rc = hook_mount_of(fd, &mount);

    return rc < 0 ? rc : mount.shared;
}

int hook_place_detach(int source, enum hook_kind kind)
{
    /*
     * Read-only for a node too: it is the host's inode, whose mode and owner the
     * container's root could change otherwise. Reading and writing the device
     * itself is no write to the file system.
     */
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                    (kind == HOOK_NODE ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV),
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
    cleanup_fd int made = image_rootfs_open_child(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644);

    if (made >= 0)
        return steal_fd(&made);
    if (made == -EXDEV)
        return -EALREADY;
    if (made != -EEXIST)
        return made;
    cleanup_fd int there = image_rootfs_open_child(dir, name, O_PATH, 0);
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

int hook_place_tree(int dir, const char *name, int tree, bool over_existing, struct apir_error *err)
{
    cleanup_fd int target = open_target(dir, name, over_existing);

    if (target == -EEXIST)
        return apir_error_set(err, EEXIST, "the image has a file %s of its own", name);
    if (target == -EALREADY)
        return apir_error_set(err, EALREADY, "something is mounted over %s already", name);
    if (target < 0)
        return apir_error_sys(err, -target, "make %s", name);
    if (move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return apir_error_sys(err, errno, "mount over %s", name);
    return 0;
}

int hook_place_file(int dir, const char *name, int source, bool over_existing,
                    struct apir_error *err)
{
    cleanup_fd int tree = hook_place_detach(source, HOOK_FILE);

    /*
     * A detached mount of another mount namespace cannot be copied here; it is
     * mounted itself, and what comes after is a copy of that.
     */
    if (tree == -EINVAL)
        return hook_place_tree(dir, name, source, over_existing, err);
    if (tree < 0)
        return apir_error_sys(err, -tree, "clone the plug-in's mount");
    return hook_place_tree(dir, name, tree, over_existing, err);
}
