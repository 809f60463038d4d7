/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/shaders/fill.h"

#include <errno.h>
#include <string.h>

#include "backend/worker/ggml/vulkan.h"
#include "backend/worker/shaders/model.h"
#include "common/log.h"

/* A driver that computes on the CPU compiles for minutes what it then computes for minutes. */
static bool is_software(const struct host_device *d)
{
    static struct worker_vulkan_gpu gpus[WORKER_VULKAN_MAX];
    const uint32_t n = worker_vulkan_list(gpus);
    for (uint32_t i = 0; i < n; i++) {
        if (gpus[i].is_software && strcmp(gpus[i].name, d->description) == 0)
            return true;
    }
    return false;
}

int worker_shaders_fill(struct host_ggml *hg, uint64_t most_ms, bool all, struct apir_error *err)
{
    const uint64_t began = shaders_now_ms();
    const struct shaders_ggml *gg = shaders_ggml_load(hg, err);
    if (!gg)
        return -ENOTSUP;
    for (uint32_t i = 0; i < hg->n_devices; i++) {
        const struct host_device *d = &hg->devices[i];
        unsigned n = 0;
        if (!d->is_gpu || (!all && is_software(d))) {
            apir_log(APIR_LOG_INFO, "%s (%s): left out, it is the CPU", d->name, d->description);
            continue;
        }
        const bool through = shaders_models_compute(hg, gg, d, began + most_ms, &n);
        apir_log(APIR_LOG_INFO, "%s (%s): computed %u graphs in %.1f s%s", d->name, d->description,
                 n, (double)(shaders_now_ms() - began) / 1000.0,
                 through ? "" : "; what is left, the next time");
    }
    return 0;
}
