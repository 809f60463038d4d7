/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the plug-in into a folder of the container without changing the image: an
 * empty file in the container's own writable layer, and the host's file bound
 * over it, read-only. The mount travels as descriptors on both ends, so no name
 * in the hostile root is resolved a second time.
 */
#ifndef APIR_HOOK_PLACE_H
#define APIR_HOOK_PLACE_H

#include <stdbool.h>

struct apir_error;

/*
 * Opens the plug-in on the host (O_PATH). Refused: what is no regular file, is
 * empty, or can be written by everybody. Returns an fd, or -errno with err set.
 */
int hook_place_open_source(const char *path, struct apir_error *err);

/*
 * Whether mounts below fd's mount would show elsewhere (shared propagation).
 * Returns 0, 1, or -errno where the kernel does not say.
 */
int hook_place_is_shared(int fd);

enum hook_kind { HOOK_FILE, HOOK_FOLDER, HOOK_NODE };

/*
 * Takes a mount of the host's file behind source (O_PATH) along: a detached,
 * read-only, private copy, without setuid, and without devices or (a node)
 * programs. It can be mounted after the mount namespace has changed. Returns an
 * fd or -errno.
 */
int hook_place_detach(int source, enum hook_kind kind);

/*
 * Mounts tree, a detached mount, over dir/name. The file is made where it is missing,
 * and taken where it is empty or, with over_existing, any regular file. Returns 0, or -errno
 * with err set: -EROFS, -EEXIST (there is another file), -EALREADY (something is
 * mounted there already), …
 */
int hook_place_tree(int dir, const char *name, int tree, bool over_existing,
                    struct apir_error *err);

/*
 * The same with a private, read-only copy of the mount behind source, which is an
 * O_PATH descriptor of this mount namespace or, from another one, what
 * hook_place_detach gave there.
 */
int hook_place_file(int dir, const char *name, int source, bool over_existing,
                    struct apir_error *err);

#endif
