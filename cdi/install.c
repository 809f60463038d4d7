/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/install.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* mode: what this user must be able to do with it (R_OK, X_OK). */
static int find(const char *subpath, const char *build_subpath, int mode, char *path, size_t size)
{
    char self[PATH_MAX], candidate[PATH_MAX + 64], found[PATH_MAX];
    const char *subpaths[] = {subpath, build_subpath};
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    for (size_t i = 0; n > 0 && i < 2 && subpaths[i]; i++) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        if (!slash)
            break;
        /* PREFIX/bin/apir, or cdi/apir in a build tree: one folder up in both. */
        snprintf(candidate, sizeof(candidate), "%.*s/../%s", (int)(slash - self), self,
                 subpaths[i]);
        if (realpath(candidate, found) && access(found, mode) == 0)
            return (size_t)snprintf(path, size, "%s", found) < size ? 0 : -ENAMETOOLONG;
    }
    snprintf(candidate, sizeof(candidate), "%s/%s", APIR_PREFIX, subpath);
    if (access(candidate, mode) == 0)
        return (size_t)snprintf(path, size, "%s", candidate) < size ? 0 : -ENAMETOOLONG;
    return -ENOENT;
}

int cdi_install_find_plugin(char *path, size_t size)
{
    return find(CDI_PLUGIN_SUBPATH, "frontend/libggml-apir.so", R_OK, path, size);
}

int cdi_install_find_hook(char *path, size_t size)
{
    return find(CDI_HOOK_SUBPATH, "hook/apir-hook", X_OK, path, size);
}

int cdi_install_find_render_server(char *path, size_t size)
{
    return find(CDI_SERVER_SUBPATH, "backend/apir-render-server", X_OK, path, size);
}

int cdi_install_find_hooks_dir(char *path, size_t size)
{
    int rc = find(CDI_HOOKS_SUBDIR "/" CDI_HOOKS_FILE, NULL, R_OK, path, size);

    if (rc == 0)
        *strrchr(path, '/') = '\0';
    return rc;
}

const char *cdi_install_config_home(char *path, size_t size)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n;

    if (xdg && xdg[0] == '/')
        n = snprintf(path, size, "%s", xdg);
    else if (home && home[0] == '/')
        n = snprintf(path, size, "%s/.config", home);
    else
        return NULL;
    return n < 0 || (size_t)n >= size ? NULL : path;
}
