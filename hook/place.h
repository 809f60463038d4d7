/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the plug-in into a folder of the container: a copy in the container's own writable
 * layer, so that whatever the image's entry point does to its folders (chown -R, rm -rf, mv)
 * it can do to that file as well, which a mount would refuse. The copy is of the host's file,
 * through a descriptor that was opened on the host. What `commit` keeps of it is recognised by
 * its name as a library (image_find_is_plugin), and replaced with the machine's at the next start.
 */
#pragma once

#include <stdbool.h>

struct apir_error;

/*
 * Opens the plug-in on the host, to be read. Refused: what is no regular file, is
 * empty, or can be written by everybody. Returns an fd, or -errno with err set.
 */
int hook_place_open_source(const char *path, struct apir_error *err);

/*
 * Whether mounts below fd's mount would show elsewhere (shared propagation).
 * Returns 0, 1, or -errno where the kernel does not say.
 */
int hook_place_is_shared(int fd);

/*
 * Makes dir/name a copy of source. Taken is a name that nothing has, an empty file, and a plug-in
 * of ours; it appears there whole or not at all. Returns 0 (also where it is the same already), or
 * -errno with err set: -EROFS, -EEXIST (the image has something else there), -EALREADY (something
 * is mounted there), …
 */
int hook_place_copy(int dir, const char *name, int source, struct apir_error *err);

/*
 * Covers the image's own regular file dir/name with a copy of source, which has no name and is the
 * container's to change; the image's file stays as it is below. Where the root is read-only, with
 * the host's own file. Returns as hook_place_copy does.
 */
int hook_place_over(int dir, const char *name, int source, struct apir_error *err);

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
