/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hook/mounts.h"
#include "hook/place.h"
#include "common/cleanup.h"
#include "common/error.h"

#define NAME_SIZE 256

/* One component, never followed. Mounts may be crossed: /dev mostly is one. */
static int open_one(int dir, const char *name, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(O_PATH | O_NOFOLLOW | O_CLOEXEC | flags),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
    };
    int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));

    return fd < 0 ? -errno : fd;
}

/*
 * Whether a file made in this folder is the container's alone: on the root's own
 * mount, or on a file system that is mounted nowhere in the host's namespace.
 * Returns 0, -EXDEV, or -errno where the kernel does not say.
 */
static int check_own(const struct hook_site *site, int dir)
{
    struct hook_mount root, here;
    int rc = hook_mount_of(site->root, &root);

    if (rc == 0)
        rc = hook_mount_of(dir, &here);
    if (rc < 0)
        return rc;
    if (here.shared || (here.id != root.id && hook_devices_have(site->host, here.device)))
        return -EXDEV;
    return 0;
}

static int step(const struct hook_site *site, int dir, const char *name)
{
    int fd = open_one(dir, name, O_DIRECTORY);

    if (fd != -ENOENT)
        return fd;
    int rc = check_own(site, dir);
    if (rc < 0)
        return rc;
    if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    return open_one(dir, name, O_DIRECTORY);
}

/* Copies the next component of *path and moves on. False at the end; *ret_r where it is odd. */
static bool next(const char **path, char name[NAME_SIZE], int *ret_r)
{
    *path += strspn(*path, "/");
    size_t n = strcspn(*path, "/");

    if (n == 0)
        return false;
    if (n >= NAME_SIZE || (n <= 2 && strncmp(*path, "..", n) == 0)) {
        *ret_r = -EINVAL;
        return false;
    }
    memcpy(name, *path, n);
    name[n] = '\0';
    *path += n;
    return true;
}

static bool is_last(const char *path)
{
    return path[strspn(path, "/")] == '\0';
}

/* Opens (and makes) the folders of path but for its last component, which goes to name. */
static int walk(const struct hook_site *site, const char *path, char name[NAME_SIZE], int *ret_dir)
{
    cleanup_fd int dir = open_one(site->root, ".", O_DIRECTORY);
    int rc = dir < 0 ? dir : -EINVAL;

    while (dir >= 0 && next(&path, name, &rc)) {
        if (is_last(path)) {
            *ret_dir = steal_fd(&dir);
            return 0;
        }
        int deeper = step(site, dir, name);
        apir_close_fd(&dir);
        dir = deeper;
        rc = deeper < 0 ? deeper : -EINVAL;
    }
    return rc;
}

static int explain(struct apir_error *err, int code, const char *path)
{
    switch (code) {
    case ENOTDIR:
        return apir_error_set(err, code, "%s: a link or a file of the image is in its way", path);
    case EXDEV:
        return apir_error_set(
            err, code, "%s: a part of the host, or what is shared with it, is mounted there", path);
    case EALREADY:
        return apir_error_set(err, code, "%s is there already", path);
    default:
        return apir_error_sys(err, code, "%s", path);
    }
}

static int mount_folder(int folder, int tree)
{
    if (move_mount(tree, "", folder, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

int hook_inject_mount(const struct hook_site *site, const char *path, int tree, enum hook_kind kind,
                      dev_t node_device, struct apir_error *err)
{
    cleanup_fd int dir = -1;
    char name[NAME_SIZE];
    struct stat st;

    int rc = walk(site, path, name, &dir);
    if (rc < 0)
        return explain(err, -rc, path);
    if (kind == HOOK_FOLDER) {
        cleanup_fd int folder = step(site, dir, name);
        rc = folder < 0 ? folder : check_own(site, folder);
        if (rc == 0)
            rc = mount_folder(folder, tree);
        return rc == 0 ? 0 : explain(err, -rc, path);
    }
    if (kind == HOOK_NODE) {
        cleanup_fd int there = open_one(dir, name, 0);
        if (there >= 0 && fstat(there, &st) == 0 && S_ISCHR(st.st_mode) &&
            st.st_rdev == node_device)
            return explain(err, EALREADY, path);
    }
    rc = check_own(site, dir);
    return rc < 0 ? explain(err, -rc, path) : hook_place_tree(dir, name, tree, false, err);
}
