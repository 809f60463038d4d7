/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Vulkan's loader knows of this machine's GPUs, asked once and without ggml:
 * ggml tells no UUID. No Vulkan here is nothing wrong.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WORKER_VULKAN_MAX 64u

struct worker_vulkan_gpu {
    uint8_t uuid[16]; /* deviceUUID: the same at every boot, with every driver version */
    char pci[16];     /* "0000:01:00.0"; empty: its driver does not tell */
    char name[256];
    bool is_software; /* its driver computes on the CPU */
};

/* Fills gpus (room for WORKER_VULKAN_MAX) and returns how many, 0 where there is no Vulkan. */
uint32_t worker_vulkan_list(struct worker_vulkan_gpu *gpus);
