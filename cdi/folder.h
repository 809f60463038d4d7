/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders on the way to a file: who could change where the way leads. Root works in folders of
 * users, and whoever owns a folder, or a link, can put another one in its place.
 */
#pragma once

#include <sys/types.h>

struct apir_error;

/*
 * Opens the folder that the file of this path is in, so that all that is done there is done in one
 * folder, whatever becomes of its name meanwhile. A link that is neither root's nor ours leads to a
 * folder of its owner's, or is not followed (-EPERM). Makes what is missing where mode is not 0:
 * the last one with it, those above it 0755, whatever the umask. *ret_name: the last part of path.
 * Returns a descriptor (O_PATH) or -errno.
 */
int cdi_folder_open(const char *path, mode_t mode, const char **ret_name, struct apir_error *err);

/*
 * Whether nobody but root and this user can change what the path leads to: no part of it, and none
 * of what its links say, one after the other. Who has these bits of a part's mode (group, others)
 * may write there; where it is sticky, nobody takes away what is another's. Returns 0 or -errno
 * (-EPERM).
 */
int cdi_folder_check(const char *path, mode_t writers, struct apir_error *err);
