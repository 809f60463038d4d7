/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device is which: an id for each device of the host that is the same at
 * every boot and in every worker, whatever order drivers and ggml list them in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/worker/ggml/vulkan.h"
#include "protocol/messages.h"

/* A device of the host's ggml; filled by host_ggml_load(), but for what is said below. */
struct host_device {
    void *dev;
    void *buft;
    /* The CPU's extra buffer types, n_extras of them: weights as its best kernels want them. */
    void *extras[APIR_EXTRAS_MAX];
    void *probes[APIR_EXTRAS_MAX]; /* an empty buffer of each, for questions */
    uint32_t n_extras;
    char name[64];
    char description[APIR_NAME_SIZE];
    char device_id[64];
    char id[APIR_ID_SIZE]; /* worker_devices_identify() */
    const void *reg;       /* the backend that lists it; only compared */
    bool is_gpu;
    bool twin;          /* the GPU of a device before it, through another backend */
    uint64_t alignment; /* bytes, a power of two; of the extra types, too */
    uint64_t max_size;  /* bytes of one buffer */
    uint32_t flags;     /* enum apir_device_flag */
    void (*set_n_threads)(void *backend, int n); /* CPU backends, else NULL */
    bool (*pin)(void *data, size_t size);        /* host_memory_pin(), or NULL */
    void (*unpin)(void *data);
    uint8_t *staging; /* host_device_staging(); NULL: not asked for yet. Until the process ends */
};

/*
 * Fills `id` of each device. A GPU has the deviceUUID of the Vulkan device at the
 * same PCI address, or of the only one of the same name where ggml or the driver
 * tells no address; without Vulkan its PCI address. What has neither (the CPU,
 * above all) has ggml's name for it, in lower case. A GPU that ggml lists a second
 * time, through another backend, gets `twin` set and "@" and its name behind the id.
 */
void worker_devices_identify(struct host_device *devices, uint32_t n,
                             const struct worker_vulkan_gpu *gpus, uint32_t n_gpus);

/* Takes the twins out of the list; returns how many devices are left. */
uint32_t worker_devices_drop_twins(struct host_device *devices, uint32_t n);
