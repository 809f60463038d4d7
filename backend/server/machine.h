/* SPDX-License-Identifier: Apache-2.0 */
/* What a system tells of this program and of its machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The path of this very program, with its NUL. Returns 0 or -errno. */
int server_self_path(char *path, size_t size);
/* Whether a path leads to this very program. */
bool server_self_is(const char *path);

/* Less than a quarter of this machine's memory is available. False where it cannot be told. */
bool server_memory_is_scarce(void);
/* The same of a text as that of /proc/meminfo. */
bool server_meminfo_is_scarce(const char *text);

/* Whether a service manager has marked this control group as handed over, to be divided: else the
 * groups are its own to make. */
bool server_folder_is_delegated(const char *folder);

/* In a child: where memory runs out the kernel is to end it before others. */
void server_self_goes_first(void);
