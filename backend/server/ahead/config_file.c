/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/ahead/config_file.h"

#include <string.h>
#include <sys/stat.h>

#include "backend/config/config.h"

struct server_config_file server_config_file_now(const char *path)
{
    struct server_config_file now;
    struct stat st;
    memset(&now, 0, sizeof(now)); /* with what lies between members: it is compared as bytes */
    if (!path)
        path = apir_config_find();
    if (!path || stat(path, &st) < 0)
        return now;
    now.device = (uint64_t)st.st_dev;
    now.inode = st.st_ino;
    now.size = (uint64_t)st.st_size;
    now.modified = st.st_mtim;
    now.changed = st.st_ctim;
    return now;
}

bool server_config_file_same(const struct server_config_file *a, const struct server_config_file *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}
