/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/mounts.h"
#include "common/image/find.h"
#include "common/image/rootfs.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/regular.h"

int hook_place_open_source(const char *path, struct apir_error *err)
{
    struct stat st;

    if (path[0] != '/')
        return apir_error_set(err, EINVAL, "the plug-in's path %s is not absolute", path);
    /* The host's own path, by the administrator: its links may be followed. */
    cleanup_fd int there = open(path, O_PATH | O_CLOEXEC);
    if (there < 0 || fstat(there, &st) < 0)
        return apir_error_sys(err, errno, "plug-in %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return apir_error_set(err, EINVAL, "plug-in %s is no library", path);
    if ((st.st_mode & 0002) != 0)
        return apir_error_set(err, EPERM, "plug-in %s can be written by everybody", path);
    int fd = apir_regular_reopen(there, O_RDONLY);
    return fd < 0 ? apir_error_sys(err, -fd, "plug-in %s", path) : fd;
}

int hook_place_is_shared(int fd)
{
    struct hook_mount mount;
    int rc = hook_mount_of(fd, &mount);

    return rc < 0 ? rc : mount.shared;
}

static int take(int source, uint64_t attributes)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | attributes,
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

int hook_place_detach(int source, enum hook_kind kind)
{
    /*
     * Read-only for a node too: it is the host's inode, whose mode and owner the
     * container's root could change otherwise. Reading and writing the device
     * itself is no write to the file system.
     */
    return take(source,
                MOUNT_ATTR_RDONLY | (kind == HOOK_NODE ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV));
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

static int explain(struct apir_error *err, int code, const char *name)
{
    if (code == EEXIST)
        return apir_error_set(err, EEXIST, "the image has a file %s of its own", name);
    if (code == EALREADY)
        return apir_error_set(err, EALREADY, "something is mounted over %s already", name);
    return apir_error_sys(err, code, "make %s", name);
}

int hook_place_tree(int dir, const char *name, int tree, bool over_existing, struct apir_error *err)
{
    cleanup_fd int target = open_target(dir, name, over_existing);

    if (target < 0)
        return explain(err, -target, name);
    if (move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return apir_error_sys(err, errno, "mount over %s", name);
    return 0;
}

/* ---- a copy ----------------------------------------------------------------------- */

#define NEW_NAME ".libggml-apir.new" /* never seen by a program: gone before the container runs */

/* Whether there is nothing to be done. */
static bool is_same(int there, int source)
{
    char a[16384], b[16384];
    off_t at = 0;

    for (;;) {
        ssize_t n = pread(there, a, sizeof(a), at), m = pread(source, b, sizeof(b), at);

        if (n != m || n < 0 || memcmp(a, b, (size_t)n) != 0)
            return false;
        if (n == 0)
            return true;
        at += n;
    }
}

struct neighbour {
    int dir;
    struct stat st;
};

static int on_neighbour(const char *name, unsigned char type, void *user)
{
    struct neighbour *n = user;
    struct stat st;

    (void)type;
    if (strcmp(name, NEW_NAME) == 0 || fstatat(n->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode))
        return 0;
    n->st = st;
    return 1;
}

/*
 * The copy belongs to whom the other files there belong to, or else the folder: an entry point that
 * changes its own files as their owner may change all of them. Where that cannot be had, as in a
 * user namespace without that owner, the copy stays the container's root's.
 */
static void give_away(int fd, int dir)
{
    struct neighbour n = {.dir = dir};

    if (fstat(dir, &n.st) == 0) {
        (void)image_rootfs_each(dir, on_neighbour, &n);
        (void)!fchown(fd, n.st.st_uid, n.st.st_gid);
    }
}

/*
 * Copies source into a file of this folder that is new: no file of the image is opened to be
 * written, so none that has another name elsewhere changes. Returns an fd or -errno.
 */
static int make_copy(int dir, int source)
{
    off_t at = 0;
    ssize_t n;

    /* Of a hook that was ended in the middle. */
    (void)unlinkat(dir, NEW_NAME, 0);
    cleanup_fd int fd = image_rootfs_open_child(dir, NEW_NAME, O_RDWR | O_CREAT | O_EXCL, 0644);
    if (fd < 0)
        return fd;
    do {
        n = sendfile(fd, source, &at, 1 << 20);
    } while (n > 0 || (n < 0 && errno == EINTR));
    if (n < 0) {
        n = -errno;
        (void)unlinkat(dir, NEW_NAME, 0);
        return (int)n;
    }
    give_away(fd, dir);
    return steal_fd(&fd);
}

/* 1: a copy takes the place of what is there, 0: nothing to be done, or -errno. */
static int may_copy(int dir, const char *name, int source)
{
    struct stat st;
    cleanup_fd int there = image_rootfs_open_child(dir, name, O_RDONLY, 0);

    if (there == -ENOENT)
        return 1;
    if (there == -EXDEV)
        return -EALREADY;
    if (there < 0)
        return -EEXIST;
    if (fstat(there, &st) < 0)
        return -errno;
    if (st.st_size != 0 && !image_find_is_plugin(there))
        return -EEXIST;
    return is_same(there, source) ? 0 : 1;
}

int hook_place_copy(int dir, const char *name, int source, struct apir_error *err)
{
    int rc = may_copy(dir, name, source);

    if (rc <= 0)
        return rc == 0 ? 0 : explain(err, -rc, name);
    cleanup_fd int fd = make_copy(dir, source);
    if (fd < 0)
        return explain(err, -fd, name);
    if (renameat(dir, NEW_NAME, dir, name) < 0) {
        rc = errno;
        (void)unlinkat(dir, NEW_NAME, 0);
        return explain(err, rc, name);
    }
    return 0;
}

int hook_place_over(int dir, const char *name, int source, struct apir_error *err)
{
    cleanup_fd int fd = make_copy(dir, source);
    cleanup_fd int tree = fd == -EROFS ? hook_place_detach(source, HOOK_FILE)
                          : fd < 0     ? fd
                                       : take(fd, MOUNT_ATTR_NODEV);
    int rc = tree < 0 ? apir_error_sys(err, -tree, "a mount of the plug-in")
                      : hook_place_tree(dir, name, tree, true, err);

    if (fd >= 0)
        (void)unlinkat(dir, NEW_NAME, 0);
    return rc;
}
