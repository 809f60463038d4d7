/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device is which: an id for each device of the host that is the same at
 * every boot and in every worker, whatever order drivers and ggml list them in.
 */
#ifndef APIR_WORKER_DEVICE_H
#define APIR_WORKER_DEVICE_H

#include "backend/worker/ggml/ggml.h"
#include "backend/worker/ggml/vulkan.h"

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

#endif
