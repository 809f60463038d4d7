/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/ggml/passed.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "protocol/ggml_abi.h"

#define FILES_LOOKED_AT 256u

/* Of the CPU's there are many, of which one is taken; and apir's own plug-in would look for a host.
 */
static bool is_backend(const char *name)
{
    const size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".so") == 0 && strncmp(name, "libggml-", 8) == 0 &&
           strncmp(name, "libggml-cpu", 11) != 0 && strcmp(name, "libggml-apir.so") != 0;
}

/* What is open already stays so. */
static void look(const char *folder, const char *name, int32_t api_version,
                 enum apir_log_level level)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        apir_log(level, "ggml passes over a backend: %s", dlerror());
        return;
    }
    struct gg_reg *(*init)(void);
    void *p = dlsym(library, "ggml_backend_init");
    memcpy(&init, &p, sizeof(init));
    const struct gg_reg *reg = p ? init() : NULL;
    if (reg && reg->api_version != api_version)
        apir_log(level,
                 "ggml passes over a backend: %s is made for version %d of its interface, and this "
                 "ggml has version %d",
                 path, reg->api_version, api_version);
    dlclose(library);
}

void host_passed_over(const char *folder, int32_t api_version, enum apir_log_level level)
{
    cleanup_dir DIR *dir = opendir(folder);
    struct dirent *entry;
    for (unsigned n = 0; dir && n < FILES_LOOKED_AT && (entry = readdir(dir)); n++) {
        if (is_backend(entry->d_name))
            look(folder, entry->d_name, api_version, level);
    }
}
