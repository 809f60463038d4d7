/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "common/c17.h"

#include "common/root.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"

bool apir_is_root(void)
{
    if (geteuid() != 0)
        return false;
    char map[64] = "";
    unsigned inside, outside, count;
    cleanup_fd int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, map, sizeof(map) - 1);
    return n <= 0 || sscanf(map, "%u %u %u", &inside, &outside, &count) != 3 || outside == 0;
}
