/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* The folder apir/NAME below the one that systemd gives a user's session, made where it is missing:
 * -ENOENT where there is no session, -EPERM where it is another user's. Returns 0 or -errno. */
int server_session_folder(const char *name, char *path, size_t size);
