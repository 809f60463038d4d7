/* SPDX-License-Identifier: Apache-2.0 */
#include "common/root.h"

#include <stdio.h>
#include <unistd.h>

#include "common/file.h"

bool apir_is_root(void)
{
    if (geteuid() != 0)
        return false;
    char map[64];
    unsigned inside, outside, count;
    return apir_file_begin("/proc/self/uid_map", map, sizeof(map)) <= 0 ||
           sscanf(map, "%u %u %u", &inside, &outside, &count) != 3 || outside == 0;
}
