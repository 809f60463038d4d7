/* SPDX-License-Identifier: Apache-2.0 */
/* The counting layer's hook: gates in the driver. */
#include <string.h>

#include <vulkan/vulkan.h>

#include "tests/hostile/faults/gate.h"

VkResult faults_layer(const char *counter);

VkResult faults_layer(const char *counter)
{
    if (strcmp(counter, "submits") == 0)
        return gate_fails(GATE_SUBMIT) ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
    return gate_fails(GATE_MEMORY_NEW) ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_SUCCESS;
}
