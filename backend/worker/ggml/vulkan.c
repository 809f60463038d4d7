/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/ggml/vulkan.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "common/cleanup.h"

/* Of Vulkan 1.1, which also the loader must have. */
#define INSTANCE_FUNCTIONS(F)                                                                      \
    F(vkDestroyInstance)                                                                           \
    F(vkEnumeratePhysicalDevices)                                                                  \
    F(vkEnumerateDeviceExtensionProperties)                                                        \
    F(vkGetPhysicalDeviceProperties)                                                               \
    F(vkGetPhysicalDeviceProperties2)

struct vulkan {
    VkInstance instance;
#define F(name) PFN_##name name;
    INSTANCE_FUNCTIONS(F)
#undef F
};

static bool functions_load(struct vulkan *vk, PFN_vkGetInstanceProcAddr get)
{
#define F(name)                                                                                    \
    vk->name = (PFN_##name)(void (*)(void))get(vk->instance, #name);                               \
    if (!vk->name)                                                                                 \
        return false;
    INSTANCE_FUNCTIONS(F)
#undef F
    return true;
}

static bool has_pci_bus_info(const struct vulkan *vk, VkPhysicalDevice device)
{
    uint32_t n = 0;
    if (vk->vkEnumerateDeviceExtensionProperties(device, NULL, &n, NULL) != VK_SUCCESS || n == 0)
        return false;
    cleanup_free VkExtensionProperties *list = calloc(n, sizeof(*list));
    /* VK_INCOMPLETE: the list has grown since; what there is will do. */
    if (!list || vk->vkEnumerateDeviceExtensionProperties(device, NULL, &n, list) < 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(list[i].extensionName, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME) == 0)
            return true;
    }
    return false;
}

static bool gpu_read(const struct vulkan *vk, VkPhysicalDevice device,
                     struct worker_vulkan_gpu *gpu)
{
    VkPhysicalDeviceProperties old;
    vk->vkGetPhysicalDeviceProperties(device, &old);
    if (old.apiVersion < VK_API_VERSION_1_1)
        return false;
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT,
    };
    bool with_pci = has_pci_bus_info(vk, device);
    VkPhysicalDeviceIDProperties id = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
        .pNext = with_pci ? &pci : NULL,
    };
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &id,
    };
    vk->vkGetPhysicalDeviceProperties2(device, &properties);
    *gpu = (struct worker_vulkan_gpu){0};
    memcpy(gpu->uuid, id.deviceUUID, sizeof(gpu->uuid));
    snprintf(gpu->name, sizeof(gpu->name), "%s", properties.properties.deviceName);
    gpu->is_software = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (with_pci && pci.pciDomain <= 0xffff && pci.pciBus <= 0xff && pci.pciDevice <= 0x1f &&
        pci.pciFunction <= 7)
        snprintf(gpu->pci, sizeof(gpu->pci), "%04x:%02x:%02x.%x", pci.pciDomain & 0xffffu,
                 pci.pciBus & 0xffu, pci.pciDevice & 0x1fu, pci.pciFunction & 7u);
    return true;
}

uint32_t worker_vulkan_list(struct worker_vulkan_gpu *gpus)
{
    /* Never closed: drivers of GPUs do not like to be unloaded. */
    void *lib = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    void *entry = lib ? dlsym(lib, "vkGetInstanceProcAddr") : NULL;
    PFN_vkGetInstanceProcAddr get;
    memcpy(&get, &entry, sizeof(get));
    if (!get)
        return 0;
    PFN_vkCreateInstance create =
        (PFN_vkCreateInstance)(void (*)(void))get(NULL, "vkCreateInstance");
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "apir-worker",
                                   .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &app};
    struct vulkan vk = {0};
    if (!create || create(&info, NULL, &vk.instance) != VK_SUCCESS)
        return 0;
    uint32_t n = 0, count = WORKER_VULKAN_MAX;
    if (functions_load(&vk, get)) {
        VkPhysicalDevice devices[WORKER_VULKAN_MAX];
        if (vk.vkEnumeratePhysicalDevices(vk.instance, &count, devices) < 0)
            count = 0;
        for (uint32_t i = 0; i < count; i++)
            n += gpu_read(&vk, devices[i], &gpus[n]);
    }
    if (vk.vkDestroyInstance)
        vk.vkDestroyInstance(vk.instance, NULL);
    return n;
}
