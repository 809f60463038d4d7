/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/ggml/device.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/log.h"

/* What may be in an id: it becomes part of file contents and of environments elsewhere. */
static void id_append(char *id, const char *text)
{
    size_t at = strlen(id);
    for (; *text && at < APIR_ID_SIZE - 1; text++) {
        char c = *text;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr(".:@-", c)))
            c = '_';
        id[at++] = c;
    }
    id[at] = '\0';
}

static void uuid_print(char *to, const uint8_t *u)
{
    snprintf(to, APIR_ID_SIZE,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
}

/* The one of Vulkan's that the device is: by its PCI address, or by a name that no other has; or
 * NULL. */
static const struct worker_vulkan_gpu *gpu_of(const struct host_device *d,
                                              const struct host_device *devices, uint32_t n,
                                              const struct worker_vulkan_gpu *gpus, uint32_t n_gpus)
{
    const struct worker_vulkan_gpu *found = NULL;
    for (uint32_t i = 0; *d->device_id && i < n_gpus; i++) {
        if (strcasecmp(gpus[i].pci, d->device_id) == 0)
            return &gpus[i];
    }
    for (uint32_t i = 0; i < n_gpus; i++) {
        if (strcmp(gpus[i].name, d->description) != 0)
            continue;
        /* Two of a name, or the same name at another address: that proves nothing. */
        if (found || (*gpus[i].pci && *d->device_id))
            return NULL;
        found = &gpus[i];
    }
    for (uint32_t i = 0; found && i < n; i++) {
        /* ggml's backends name devices alike, so only two of one backend are two GPUs. */
        if (&devices[i] != d && devices[i].reg == d->reg &&
            strcmp(devices[i].description, d->description) == 0)
            return NULL;
    }
    return found;
}

void worker_devices_identify(struct host_device *devices, uint32_t n,
                             const struct worker_vulkan_gpu *gpus, uint32_t n_gpus)
{
    for (uint32_t i = 0; i < n; i++) {
        struct host_device *d = &devices[i];
        const struct worker_vulkan_gpu *gpu =
            d->is_gpu ? gpu_of(d, devices, n, gpus, n_gpus) : NULL;
        d->id[0] = '\0';
        d->twin = false;
        if (gpu)
            uuid_print(d->id, gpu->uuid);
        else
            id_append(d->id, d->is_gpu && *d->device_id ? d->device_id : d->name);
        for (uint32_t k = 0; k < i && !d->twin; k++)
            d->twin = strcmp(devices[k].id, d->id) == 0;
        if (d->twin) {
            id_append(d->id, "@");
            id_append(d->id, d->name);
        }
    }
}

uint32_t worker_devices_drop_twins(struct host_device *devices, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (devices[i].twin)
            apir_log(APIR_LOG_INFO, "%s is left out: the same GPU is offered already (%s)",
                     devices[i].name, devices[i].id);
        else if (kept++ != i)
            devices[kept - 1] = devices[i];
    }
    return kept;
}
