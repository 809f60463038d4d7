/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/mps.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/config/mps.h"
#include "backend/worker/ggml/buffer.h"
#include "backend/worker/worker.h"
#include "common/clock.h"
#include "common/log.h"

#define LOOK_EVERY_US 2000
/* So small that only a GPU which takes no further program has no room for it. */
#define PROBE_SIZE (64u << 10)

/* CUDA's driver interface, as far as it is needed. */
#define CUDA_LIBRARY                    "libcuda.so.1"
#define CU_DEVICE_ATTRIBUTE_MPS_ENABLED 133

/* ---- the daemon ---------------------------------------------------------------- */

/* It is written after the daemon's sockets listen, and is gone when the server has seen its end. */
static bool daemon_listens(const char *folder)
{
    char path[PATH_MAX];
    struct stat st;
    return snprintf(path, sizeof(path), "%s/" APIR_MPS_READY, folder) < (int)sizeof(path) &&
           stat(path, &st) == 0 && st.st_size > 0;
}

int worker_mps_wait(const struct apir_config *config, struct apir_error *err)
{
    if (config->mps == APIR_CONFIG_OFF)
        return 0;
    const char *folder = getenv(APIR_MPS_FOLDER_VARIABLE);
    const uint64_t until = apir_now_ns() + WORKER_MPS_WAIT_MS * UINT64_C(1000000);
    while (folder && apir_now_ns() < until) {
        if (daemon_listens(folder))
            return 0;
        usleep(LOOK_EVERY_US);
    }
    if (config->mps == APIR_CONFIG_REQUIRED)
        return apir_error_set(err, ENOENT,
                              "the host computes through MPS alone, and its daemon is not there");
    /* Else the server has said so. */
    if (folder)
        apir_log(APIR_LOG_WARN, "MPS's daemon is not there: this worker computes without");
    (void)unsetenv(APIR_MPS_FOLDER_VARIABLE);
    return 0;
}

/* ---- what became of it ------------------------------------------------------------ */

static bool is_cuda(const struct host_device *d)
{
    return strncmp(d->name, "CUDA", 4) == 0;
}

/* Of all of CUDA's devices: contexts on them are MPS'. */
static bool cuda_uses_mps(void)
{
    /* Loaded already where a device of ggml's needs it. */
    void *cuda = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    if (!cuda)
        return false;
    int (*count)(int *ret_n) = NULL;
    int (*attribute)(int *ret_value, int which, int device) = NULL;
    *(void **)(void *)&count = dlsym(cuda, "cuDeviceGetCount");
    *(void **)(void *)&attribute = dlsym(cuda, "cuDeviceGetAttribute");
    int n = 0;
    bool uses = count && attribute && count(&n) == 0 && n > 0;
    for (int i = 0; i < n && uses; i++) {
        int enabled = 0;
        uses = attribute(&enabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, i) == 0 && enabled;
    }
    (void)dlclose(cuda);
    return uses;
}

static bool takes_another(struct host_ggml *hg, const struct host_device *d)
{
    struct host_buffer probe;
    if (host_buffer_alloc(hg, d, d->buft, PROBE_SIZE, &probe) < 0)
        return false;
    host_buffer_free(hg, &probe);
    return true;
}

int worker_mps_check(const struct apir_config *config, struct host_ggml *hg, struct apir_error *err)
{
    const bool required = config->mps == APIR_CONFIG_REQUIRED;
    const char *other = NULL;
    bool any = false;
    if (config->mps == APIR_CONFIG_OFF || (!required && !getenv(APIR_MPS_FOLDER_VARIABLE)))
        return 0;
    for (uint32_t i = 0; i < hg->n_devices; i++) {
        any |= is_cuda(&hg->devices[i]);
        if (!is_cuda(&hg->devices[i]) && !host_device_is_cpu(&hg->devices[i]))
            other = hg->devices[i].name;
    }
    if (required && (other || !any))
        return apir_error_set(
            err, ENODEV, "the host computes through MPS alone, which is for devices of CUDA: %s",
            other ? other : "it offers none");
    if (!any)
        apir_log(APIR_LOG_INFO, "MPS is for devices of CUDA, of which there is none here");
    const bool uses = any && cuda_uses_mps();
    if (any && !uses && required)
        return apir_error_set(err, ENOTSUP,
                              "the host computes through MPS alone, and CUDA did not get to it");
    if (any && !uses)
        apir_log(APIR_LOG_WARN, "CUDA did not get to MPS: this worker computes without");
    for (uint32_t i = 0; i < hg->n_devices && uses; i++) {
        if (is_cuda(&hg->devices[i]) && !takes_another(hg, &hg->devices[i]))
            return apir_error_set(err, EBUSY,
                                  "%s takes no further program: MPS has room for so many at a time "
                                  "(48 on most GPUs)",
                                  hg->devices[i].name);
    }
    return 0;
}
