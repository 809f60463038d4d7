/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every look into the container's root goes through here. The root is hostile:
 * each component may be a symlink and may be swapped while we run. So there is
 * one descriptor of the root, and each path is resolved by the kernel inside it
 * (RESOLVE_IN_ROOT), without magic links and without crossing a mount: what lies
 * on another mount is the user's volume or a part of the host, and not ours to
 * change. A path is resolved once; what follows uses the descriptor.
 */
#pragma once

#include <sys/types.h>

/* Opens the root itself; path is the runtime's word. Returns an O_PATH fd or -errno. */
int image_rootfs_open(const char *path);

/*
 * Opens path inside root. flags as for open; O_CLOEXEC, O_NOCTTY and O_NONBLOCK
 * are added. What is opened to be read or written is a regular file: anything else is
 * -EINVAL, and not opened (no fifo or device notices us). Returns an fd or -errno: -EXDEV
 * where the path leaves the root's mount, -ELOOP for a loop of symlinks.
 */
int image_rootfs_openat(int root, const char *path, int flags, mode_t mode);

/* As above, but the last component is in the folder `dir`, and never followed. */
int image_rootfs_open_child(int dir, const char *name, int flags, mode_t mode);

/*
 * Calls fn for each entry of the folder behind dir until it returns non-zero, at
 * most IMAGE_ROOTFS_ENTRIES_MAX times. Returns fn's last result, or -errno (-E2BIG:
 * there were more).
 */
#define IMAGE_ROOTFS_ENTRIES_MAX 20000
int image_rootfs_each(int dir, int (*fn)(const char *name, unsigned char type, void *user),
                      void *user);
