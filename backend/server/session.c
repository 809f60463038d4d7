/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int server_session_folder(const char *name, char *path, size_t size)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (!run || run[0] != '/' || stat(run, &st) < 0)
        return -ENOENT;
    if (st.st_uid != geteuid())
        return -EPERM;
    for (int whole = 0; whole < 2; whole++) {
        if (snprintf(path, size, "%s/apir%s%s", run, whole ? "/" : "", whole ? name : "") >=
            (int)size)
            return -ENAMETOOLONG;
        (void)mkdir(path, 0700); /* where it fails, its use says why */
    }
    return 0;
}
