/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* POSIX shared memory that has lost its name, of no bytes yet; close-on-exec. Returns the
 * descriptor or -errno. */
int server_unnamed_create(void);
