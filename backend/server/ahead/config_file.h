/* SPDX-License-Identifier: Apache-2.0 */
/* Which configuration a worker has read: whether the file is still the same. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* All zero: there was no file. */
struct server_config_file {
    uint64_t device, inode, size;
    struct timespec modified, changed;
};

/* As it is now; path NULL: the file that workers look for by themselves. */
struct server_config_file server_config_file_now(const char *path);
bool server_config_file_same(const struct server_config_file *a,
                             const struct server_config_file *b);
