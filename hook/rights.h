/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities of a step: fewer with each step, never more. */
#pragma once

enum hook_rights {
    HOOK_RIGHTS_NONE,  /* what only reads and writes what it was given */
    HOOK_RIGHTS_MOUNT, /* to mount, to pass by file modes, as the folders are the image's, and to
                          give a file away that was made there */
    HOOK_RIGHTS_ENTER, /* that, and to look up and enter a container's mount namespace */
};

/*
 * Keeps of the capabilities that there are those of this step, permitted and
 * effective; nothing stays inheritable or ambient. Returns 0 or -errno.
 */
int hook_rights_keep(enum hook_rights rights);
