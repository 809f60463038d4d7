/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/config/mps.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define MPS_PROGRAM "nvidia-cuda-mps-control"

/* Not PATH, which may be anybody's. */
static const char *const mps_folders[] = {
    "/usr/bin",
    "/usr/local/bin",
    "/usr/local/nvidia/bin",
    "/opt/nvidia/bin",
    "/run/current-system/sw/bin",
};

int apir_config_mps_find(const struct apir_config *config, char *ret, size_t size,
                         struct apir_error *err)
{
    const char *path = config->mps_control;
    if (path) {
        if (access(path, X_OK) < 0)
            return apir_error_sys(err, errno, "mps_control: %s", path);
        return snprintf(ret, size, "%s", path) >= (int)size
                   ? apir_error_sys(err, ENAMETOOLONG, "mps_control")
                   : 0;
    }
    for (size_t i = 0; i < sizeof(mps_folders) / sizeof(mps_folders[0]); i++) {
        if (snprintf(ret, size, "%s/" MPS_PROGRAM, mps_folders[i]) < (int)size &&
            access(ret, X_OK) == 0)
            return 0;
    }
    return apir_error_set(err, ENOENT,
                          "there is no " MPS_PROGRAM
                          " in the usual folders; install it, or name it "
                          "(mps_control)");
}
