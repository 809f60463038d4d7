/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To open a fifo or a device is an action already: a watchdog begins to count, a writer goes on. So
 * what a path of somebody else's leads to is known before it is opened, and the same file is opened
 * then, whatever the path leads to by now.
 */
#pragma once

/*
 * Opens a regular file to be read; flags: 0 or O_NOFOLLOW. Returns an fd or -errno: -ELOOP for a
 * link that is not followed, -EINVAL for what is no regular file.
 */
int apir_regular_open(int dir, const char *path, int flags);

/* The same for a file that is at hand as a descriptor without rights (O_PATH); flags as for open.
 */
int apir_regular_reopen(int fd, int flags);
