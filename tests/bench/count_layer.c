/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan layer that counts what a program asks of its GPU, to show that remoted work is the same
 * work: dispatches, submissions, pipelines and so on, whichever process makes them.
 *
 * Enabled by VK_ADD_LAYER_PATH (where its manifest lies) and
 * VK_INSTANCE_LAYERS=VK_LAYER_APIR_count. APIR_COUNT_FILE names the file, which is made where it is
 * missing and added to where it is not, by any number of processes at a time. It is a mapping:
 * nothing is lost with a killed process. Its first COUNT_TEXT bytes are the counters' names, a line
 * each, then zeros; behind them one native 64-bit number for each line. tests/bench/dispatch.sh
 * reads it with `od`.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>

/* tests/hostile/faults: what a driver answers that is out of luck; VK_SUCCESS: the call goes on. */
#ifdef COUNT_HOOK
VkResult COUNT_HOOK(const char *counter);
#else
#define COUNT_HOOK(counter) VK_SUCCESS
#endif

static const char layer_name[] = "VK_LAYER_APIR_count";

/* ---- the counters ----------------------------------------------------------------- */

/* workgroups: the sum over direct dispatches, so that equal numbers are equal sizes too. */
#define COUNTERS(C)                                                                                \
    C(dispatches)                                                                                  \
    C(indirect_dispatches)                                                                         \
    C(workgroups)                                                                                  \
    C(pipelines)                                                                                   \
    C(barriers)                                                                                    \
    C(submits)                                                                                     \
    C(command_buffers)                                                                             \
    C(copies)                                                                                      \
    C(copied_bytes)                                                                                \
    C(allocations)

enum counter {
#define C(name) COUNT_##name,
    COUNTERS(C)
#undef C
        COUNT_N,
};

static const char counter_names[] = {
#define C(name) #name "\n"
    COUNTERS(C)
#undef C
};

enum { COUNT_TEXT = 512, COUNT_SIZE = COUNT_TEXT + COUNT_N * (int)sizeof(uint64_t) };
_Static_assert(sizeof(counter_names) <= COUNT_TEXT, "the names must fit in front of the numbers");

static _Atomic uint64_t *counters; /* set before the first instance, never changed */
static pthread_once_t counters_once = PTHREAD_ONCE_INIT;

/* Other processes write to the same file: the counts of all of them are what is asked for. */
static void counters_open(void)
{
    const char *path = getenv("APIR_COUNT_FILE");
    if (!path || !*path) {
        fprintf(stderr, "%s: APIR_COUNT_FILE is not set; it names the file to count into\n",
                layer_name);
        return;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *map = MAP_FAILED;
    struct stat st;
    /* Only ever enlarged: another process may be counting already. */
    if (fd >= 0 && fstat(fd, &st) == 0 &&
        (st.st_size >= COUNT_SIZE || ftruncate(fd, COUNT_SIZE) == 0))
        map = mmap(NULL, COUNT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        fprintf(stderr, "%s: APIR_COUNT_FILE=%s: %s; name a file that can be written\n", layer_name,
                path, strerror(errno));
    else
        memcpy(map, counter_names, sizeof(counter_names) - 1);
    if (fd >= 0)
        close(fd);
    if (map != MAP_FAILED)
        counters = (_Atomic uint64_t *)(void *)((char *)map + COUNT_TEXT);
}

/* Relaxed: only sums are read, and only after the work has ended. */
static void count(enum counter which, uint64_t n)
{
    atomic_fetch_add_explicit(&counters[which], n, memory_order_relaxed);
}

/* ---- the next layer --------------------------------------------------------------- */

/* Device commands that are counted. The second name is that of the extension it came from. */
#define COMMANDS(D)                                                                                \
    D(CmdDispatch, CmdDispatch)                                                                    \
    D(CmdDispatchIndirect, CmdDispatchIndirect)                                                    \
    D(CmdPipelineBarrier, CmdPipelineBarrier)                                                      \
    D(CmdPipelineBarrier2, CmdPipelineBarrier2KHR)                                                 \
    D(CmdCopyBuffer, CmdCopyBuffer)                                                                \
    D(CmdCopyBuffer2, CmdCopyBuffer2KHR)                                                           \
    D(BeginCommandBuffer, BeginCommandBuffer)                                                      \
    D(QueueSubmit, QueueSubmit)                                                                    \
    D(QueueSubmit2, QueueSubmit2KHR)                                                               \
    D(CreateComputePipelines, CreateComputePipelines)                                              \
    D(AllocateMemory, AllocateMemory)

/*
 * An instance or a device, found by its dispatch table: the first word of a dispatchable object,
 * which an instance shares with its physical devices, a device with its queues and command buffers.
 * 0: free. A reader needs no lock: its object lives as long as its call, and so does the entry,
 * which is filled before the key is set.
 */
struct link {
    _Atomic uintptr_t key;
    VkInstance instance; /* of an instance's entry; its physical devices have the same key */
    PFN_vkGetInstanceProcAddr get_instance_proc;
    PFN_vkDestroyInstance DestroyInstance;
    PFN_vkGetDeviceProcAddr get_device_proc;
    PFN_vkDestroyDevice DestroyDevice;
#define D(name, khr) PFN_vk##name name;
    COMMANDS(D)
#undef D
};

enum { LINKS_MAX = 32 };
static struct link links[LINKS_MAX];
static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER; /* for who adds and removes */

static uintptr_t key_of(const void *object)
{
    uintptr_t key;
    memcpy(&key, object, sizeof(key));
    return key;
}

static struct link *link_of(const void *object, const char *who)
{
    uintptr_t key = key_of(object);
    for (int i = 0; i < LINKS_MAX; i++) {
        if (atomic_load_explicit(&links[i].key, memory_order_acquire) == key)
            return &links[i];
    }
    /* The loader excludes that; there is nothing the call could go on to. */
    fprintf(stderr, "%s: %s for an object that was not made through this layer\n", layer_name, who);
    abort();
}
#define link_find(object) link_of(object, __func__)

/* false: there are too many. */
static bool link_add(const void *object, const struct link *filled)
{
    bool added = false;
    pthread_mutex_lock(&links_lock);
    for (int i = 0; i < LINKS_MAX && !added; i++) {
        if (atomic_load_explicit(&links[i].key, memory_order_relaxed))
            continue;
        links[i] = *filled;
        atomic_store_explicit(&links[i].key, key_of(object), memory_order_release);
        added = true;
    }
    pthread_mutex_unlock(&links_lock);
    return added;
}

static void link_remove(struct link *l)
{
    pthread_mutex_lock(&links_lock);
    atomic_store_explicit(&l->key, 0, memory_order_release);
    pthread_mutex_unlock(&links_lock);
}

/* ---- counted commands ------------------------------------------------------------- */

static VKAPI_ATTR void VKAPI_CALL count_CmdDispatch(VkCommandBuffer cmd, uint32_t x, uint32_t y,
                                                    uint32_t z)
{
    count(COUNT_dispatches, 1);
    count(COUNT_workgroups, (uint64_t)x * y * z);
    link_find(cmd)->CmdDispatch(cmd, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL count_CmdDispatchIndirect(VkCommandBuffer cmd, VkBuffer buffer,
                                                            VkDeviceSize offset)
{
    count(COUNT_indirect_dispatches, 1);
    link_find(cmd)->CmdDispatchIndirect(cmd, buffer, offset);
}

static VKAPI_ATTR void VKAPI_CALL count_CmdPipelineBarrier(
    VkCommandBuffer cmd, VkPipelineStageFlags src, VkPipelineStageFlags dst,
    VkDependencyFlags flags, uint32_t n_memory, const VkMemoryBarrier *memory, uint32_t n_buffers,
    const VkBufferMemoryBarrier *buffers, uint32_t n_images, const VkImageMemoryBarrier *images)
{
    count(COUNT_barriers, 1);
    link_find(cmd)->CmdPipelineBarrier(cmd, src, dst, flags, n_memory, memory, n_buffers, buffers,
                                       n_images, images);
}

static VKAPI_ATTR void VKAPI_CALL count_CmdPipelineBarrier2(VkCommandBuffer cmd,
                                                            const VkDependencyInfo *info)
{
    count(COUNT_barriers, 1);
    link_find(cmd)->CmdPipelineBarrier2(cmd, info);
}

static VKAPI_ATTR void VKAPI_CALL count_CmdCopyBuffer(VkCommandBuffer cmd, VkBuffer src,
                                                      VkBuffer dst, uint32_t n,
                                                      const VkBufferCopy *regions)
{
    count(COUNT_copies, n);
    for (uint32_t i = 0; i < n; i++)
        count(COUNT_copied_bytes, regions[i].size);
    link_find(cmd)->CmdCopyBuffer(cmd, src, dst, n, regions);
}

static VKAPI_ATTR void VKAPI_CALL count_CmdCopyBuffer2(VkCommandBuffer cmd,
                                                       const VkCopyBufferInfo2 *info)
{
    count(COUNT_copies, info->regionCount);
    for (uint32_t i = 0; i < info->regionCount; i++)
        count(COUNT_copied_bytes, info->pRegions[i].size);
    link_find(cmd)->CmdCopyBuffer2(cmd, info);
}

static VKAPI_ATTR VkResult VKAPI_CALL count_BeginCommandBuffer(VkCommandBuffer cmd,
                                                               const VkCommandBufferBeginInfo *info)
{
    count(COUNT_command_buffers, 1);
    return link_find(cmd)->BeginCommandBuffer(cmd, info);
}

static VKAPI_ATTR VkResult VKAPI_CALL count_QueueSubmit(VkQueue queue, uint32_t n,
                                                        const VkSubmitInfo *submits, VkFence fence)
{
    const VkResult bad = COUNT_HOOK("submits");
    count(COUNT_submits, 1);
    return bad ? bad : link_find(queue)->QueueSubmit(queue, n, submits, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL count_QueueSubmit2(VkQueue queue, uint32_t n,
                                                         const VkSubmitInfo2 *submits,
                                                         VkFence fence)
{
    const VkResult bad = COUNT_HOOK("submits");
    count(COUNT_submits, 1);
    return bad ? bad : link_find(queue)->QueueSubmit2(queue, n, submits, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL count_CreateComputePipelines(
    VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *infos,
    const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    count(COUNT_pipelines, n);
    return link_find(device)->CreateComputePipelines(device, cache, n, infos, allocator, pipelines);
}

static VKAPI_ATTR VkResult VKAPI_CALL count_AllocateMemory(VkDevice device,
                                                           const VkMemoryAllocateInfo *info,
                                                           const VkAllocationCallbacks *allocator,
                                                           VkDeviceMemory *memory)
{
    const VkResult bad = COUNT_HOOK("allocations");
    count(COUNT_allocations, 1);
    return bad ? bad : link_find(device)->AllocateMemory(device, info, allocator, memory);
}

/* ---- the chain -------------------------------------------------------------------- */

/*
 * Any function pointer into any other. A union would do the same; memcpy says that no call is made
 * through the wrong type.
 */
#define LOAD(to, from)                                                                             \
    do {                                                                                           \
        PFN_vkVoidFunction fn_ = (from);                                                           \
        memcpy(&(to), &fn_, sizeof(fn_));                                                          \
    } while (0)

/* The loader's link info in a create info's chain, or NULL. Its own structures come first there,
 * and begin alike for instances and devices. */
static void *link_info(const void *chain, VkStructureType type)
{
    for (const VkBaseInStructure *s = chain; s; s = s->pNext) {
        VkLayerInstanceCreateInfo *l = (VkLayerInstanceCreateInfo *)(uintptr_t)s;
        if (s->sType == type && l->function == VK_LAYER_LINK_INFO)
            return l;
    }
    return NULL;
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_CreateInstance(const VkInstanceCreateInfo *info,
                                                           const VkAllocationCallbacks *allocator,
                                                           VkInstance *instance)
{
    VkLayerInstanceCreateInfo *chain =
        link_info(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    struct link l = {0};
    PFN_vkCreateInstance create;
    pthread_once(&counters_once, counters_open);
    /* A count that nobody sees would look like no work at all. */
    if (!chain || !counters)
        return VK_ERROR_INITIALIZATION_FAILED;
    l.get_instance_proc = chain->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    LOAD(create, l.get_instance_proc(VK_NULL_HANDLE, "vkCreateInstance"));
    if (!create)
        return VK_ERROR_INITIALIZATION_FAILED;
    /* What the next layer finds there is its own link. */
    chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;
    VkResult result = create(info, allocator, instance);
    if (result != VK_SUCCESS)
        return result;
    l.instance = *instance;
    LOAD(l.DestroyInstance, l.get_instance_proc(*instance, "vkDestroyInstance"));
    if (!link_add(*instance, &l)) {
        l.DestroyInstance(*instance, allocator);
        return VK_ERROR_TOO_MANY_OBJECTS;
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL layer_DestroyInstance(VkInstance instance,
                                                        const VkAllocationCallbacks *allocator)
{
    if (!instance)
        return;
    struct link *l = link_find(instance);
    PFN_vkDestroyInstance destroy = l->DestroyInstance;
    link_remove(l);
    destroy(instance, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice physical,
                                                         const VkDeviceCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator,
                                                         VkDevice *device)
{
    VkLayerDeviceCreateInfo *chain =
        link_info(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    struct link l = {0};
    PFN_vkCreateDevice create;
    if (!chain)
        return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr get = chain->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    l.get_device_proc = chain->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    LOAD(create, get(link_find(physical)->instance, "vkCreateDevice"));
    if (!create)
        return VK_ERROR_INITIALIZATION_FAILED;
    chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;
    VkResult result = create(physical, info, allocator, device);
    if (result != VK_SUCCESS)
        return result;
    LOAD(l.DestroyDevice, l.get_device_proc(*device, "vkDestroyDevice"));
#define D(name, khr)                                                                               \
    LOAD(l.name, l.get_device_proc(*device, "vk" #name));                                          \
    if (!l.name)                                                                                   \
        LOAD(l.name, l.get_device_proc(*device, "vk" #khr));
    COMMANDS(D)
#undef D
    if (!link_add(*device, &l)) {
        l.DestroyDevice(*device, allocator);
        return VK_ERROR_TOO_MANY_OBJECTS;
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL layer_DestroyDevice(VkDevice device,
                                                      const VkAllocationCallbacks *allocator)
{
    if (!device)
        return;
    struct link *l = link_find(device);
    PFN_vkDestroyDevice destroy = l->DestroyDevice;
    link_remove(l);
    destroy(device, allocator);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance instance,
                                                                          const char *name);
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice device,
                                                                        const char *name);

/* Ours for a name, or NULL. */
static PFN_vkVoidFunction layer_device_function(const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    if (strcmp(name, "vkDestroyDevice") == 0)
        return (PFN_vkVoidFunction)layer_DestroyDevice;
#define D(command, khr)                                                                            \
    if (strcmp(name, "vk" #command) == 0 || strcmp(name, "vk" #khr) == 0)                          \
        return (PFN_vkVoidFunction)count_##command;
    COMMANDS(D)
#undef D
    return NULL;
}

static PFN_vkVoidFunction layer_instance_function(const char *name)
{
    if (strcmp(name, "vkGetInstanceProcAddr") == 0)
        return (PFN_vkVoidFunction)layer_GetInstanceProcAddr;
    if (strcmp(name, "vkCreateInstance") == 0)
        return (PFN_vkVoidFunction)layer_CreateInstance;
    if (strcmp(name, "vkDestroyInstance") == 0)
        return (PFN_vkVoidFunction)layer_DestroyInstance;
    if (strcmp(name, "vkCreateDevice") == 0)
        return (PFN_vkVoidFunction)layer_CreateDevice;
    return layer_device_function(name);
}

/* A function that the device does not have is not there through us either. */
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice device,
                                                                        const char *name)
{
    PFN_vkVoidFunction next = link_find(device)->get_device_proc(device, name);
    PFN_vkVoidFunction ours = next ? layer_device_function(name) : NULL;
    return ours ? ours : next;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance instance,
                                                                          const char *name)
{
    PFN_vkVoidFunction ours = layer_instance_function(name);
    /* Before there is an instance only ours can be asked for; the next is not known yet. */
    if (!instance)
        return ours;
    PFN_vkVoidFunction next = link_find(instance)->get_instance_proc(instance, name);
    return next && ours ? ours : next;
}

/* ---- the door --------------------------------------------------------------------- */

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version)
{
    if (version->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT ||
        version->loaderLayerInterfaceVersion < 2)
        return VK_ERROR_INITIALIZATION_FAILED;
    version->loaderLayerInterfaceVersion = 2;
    version->pfnGetInstanceProcAddr = layer_GetInstanceProcAddr;
    version->pfnGetDeviceProcAddr = layer_GetDeviceProcAddr;
    version->pfnGetPhysicalDeviceProcAddr = NULL; /* no command of a physical device is ours */
    return VK_SUCCESS;
}
