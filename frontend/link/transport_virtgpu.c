/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio-gpu's render node, by the kernel's own interface. No libdrm: the
 * plug-in may not pull a library into its host process.
 */
#include "frontend/link/transport.h"
#include "common/file.h"

#include <drm/drm.h>
#include <drm/virtgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CAPSET_VENUS 4u

/* Context parameters and values that older headers lack. */
#define PARAM_CONTEXT_INIT 6u
#define PARAM_CAPSET_IDS   7u
#define PARAM_DEBUG_NAME   8u
#define PARAM_BLOB_ALIGN   9u
#define CTX_CAPSET_ID      1u
#define CTX_NUM_RINGS      2u
#define CTX_DEBUG_NAME     4u

static int node_ioctl(int fd, unsigned long request, void *arg)
{
    int rc;
    do {
        rc = ioctl(fd, request, arg);
    } while (rc < 0 && (errno == EINTR || errno == EAGAIN));
    return rc < 0 ? -errno : 0;
}

static uint64_t node_param(int fd, uint64_t param)
{
    /* The kernel writes 32 bits through the pointer: the rest must be 0 before. */
    uint64_t value = 0;
    struct drm_virtgpu_getparam get = {.param = param, .value = (uintptr_t)&value};
    return node_ioctl(fd, DRM_IOCTL_VIRTGPU_GETPARAM, &get) ? 0 : value;
}

static bool node_is_virtio(int fd)
{
    char name[32] = {0};
    struct drm_version v = {.name = name, .name_len = sizeof(name) - 1};
    return node_ioctl(fd, DRM_IOCTL_VERSION, &v) == 0 && strcmp(name, "virtio_gpu") == 0;
}

/* Also sets the process name where the kernel takes the context's name from it. */
static int node_context_init(int fd)
{
    static const char name[] = APIR_CONTEXT_NAME;
    struct drm_virtgpu_context_set_param params[3] = {
        {.param = CTX_CAPSET_ID, .value = CAPSET_VENUS},
        {.param = CTX_NUM_RINGS, .value = 2},
        {.param = CTX_DEBUG_NAME, .value = (uintptr_t)name},
    };
    bool by_param = node_param(fd, PARAM_DEBUG_NAME) != 0;
    struct drm_virtgpu_context_init init = {
        .num_params = by_param ? 3 : 2,
        .ctx_set_params = (uintptr_t)params,
    };
    char old[16] = {0};
    if (!by_param) {
        prctl(PR_GET_NAME, old, 0, 0, 0);
        prctl(PR_SET_NAME, name, 0, 0, 0);
    }
    int rc = node_ioctl(fd, DRM_IOCTL_VIRTGPU_CONTEXT_INIT, &init);
    if (!by_param)
        prctl(PR_SET_NAME, old, 0, 0, 0);
    return rc;
}

static int virtgpu_blob_create(struct transport *t, uint64_t blob_id, uint64_t size,
                               struct transport_blob *ret_blob)
{
    struct drm_virtgpu_resource_create_blob create = {
        .blob_mem = VIRTGPU_BLOB_MEM_HOST3D,
        .blob_flags = VIRTGPU_BLOB_FLAG_USE_MAPPABLE,
        .size = size,
        .blob_id = blob_id,
    };
    int rc = node_ioctl(t->fd, DRM_IOCTL_VIRTGPU_RESOURCE_CREATE_BLOB, &create);
    if (rc)
        return rc;
    struct drm_virtgpu_map map = {.handle = create.bo_handle};
    rc = node_ioctl(t->fd, DRM_IOCTL_VIRTGPU_MAP, &map);
    void *p = MAP_FAILED;
    if (!rc) {
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, (off_t)map.offset);
        rc = p == MAP_FAILED ? -errno : 0;
    }
    if (rc) {
        struct drm_gem_close gem = {.handle = create.bo_handle};
        node_ioctl(t->fd, DRM_IOCTL_GEM_CLOSE, &gem);
        return rc;
    }
    *ret_blob = (struct transport_blob){.map = p, .size = size, .handle = create.bo_handle};
    return 0;
}

static void virtgpu_blob_destroy(struct transport *t, struct transport_blob *blob)
{
    munmap(blob->map, blob->size);
    struct drm_gem_close gem = {.handle = blob->handle};
    node_ioctl(t->fd, DRM_IOCTL_GEM_CLOSE, &gem);
    *blob = (struct transport_blob){0};
}

static int virtgpu_doorbell(struct transport *t, const struct apir_doorbell *bell)
{
    struct drm_virtgpu_execbuffer exec = {
        .flags = VIRTGPU_EXECBUF_RING_IDX,
        .size = sizeof(*bell),
        .command = (uintptr_t)bell,
        .fence_fd = -1,
        .ring_idx = 0,
    };
    return node_ioctl(t->fd, DRM_IOCTL_VIRTGPU_EXECBUFFER, &exec);
}

static void node_pci_address(const char *path, char *out, size_t cap)
{
    const char *base = strrchr(path, '/');
    char link[96], target[256];
    snprintf(link, sizeof(link), "/sys/class/drm/%s/device", base ? base + 1 : path);
    ssize_t n = readlink(link, target, sizeof(target) - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    /* …/0000:00:02.0/virtio1: the PCI function is the last part that looks like one,
     * and the link itself may name only the virtio device below it. */
    const char *last = strrchr(target, '/');
    last = last ? last + 1 : target;
    if (strlen(last) == 12 && last[4] == ':' && last[7] == ':' && last[10] == '.')
        snprintf(out, cap, "%s", last);
}

/*
 * The host-visible window is the node's largest PCI region. sysfs lists them as
 * "0xSTART 0xEND 0xFLAGS"; 0: not to be had.
 */
static uint64_t node_window(const char *path)
{
    const char *base = strrchr(path, '/');
    char file[128], text[1024];
    uint64_t best = 0;
    /* DRM's parent is the PCI function in some kernels, the virtio device below it in others. */
    for (int up = 0; up < 2 && !best; up++) {
        snprintf(file, sizeof(file), "/sys/class/drm/%s/device/%sresource", base ? base + 1 : path,
                 up ? "../" : "");
        (void)apir_file_begin(file, text, sizeof(text));
        for (char *line = text; *line;) {
            const uint64_t start = strtoull(line, &line, 16), end = strtoull(line, &line, 16);
            if (end > start && end - start + 1 > best)
                best = end - start + 1;
            line += strcspn(line, "\n");
            line += *line == '\n';
        }
    }
    return best;
}

/* In whose multiples the VMM takes blobs, as kernels from 7.2 on tell; 1: no word on it. */
static uint64_t node_blob_align(int fd)
{
    const uint64_t align = node_param(fd, PARAM_BLOB_ALIGN);
    return align ? align : 1;
}

/* Opens one node and makes our context on it. -ENODEV: no virtio-gpu node, -ENOENT: not there. */
static int node_try(struct transport *t, const char *path, struct apir_error *err)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENXIO))
        return -ENOENT;
    if (fd < 0 && errno == EACCES)
        return apir_error_set(err, EACCES, "no permission to use %s: %s", path,
                              transport_permission_advice(path));
    if (fd < 0 && errno == EPERM)
        return apir_error_set(err, EPERM,
                              "the container's device rules forbid %s: pass it as a device, not "
                              "as a volume (nspawn: --property=DeviceAllow=%s)",
                              path, path);
    if (fd < 0)
        return apir_error_sys(err, errno, "cannot open %s", path);
    int rc = 0;
    if (!node_is_virtio(fd)) {
        rc = -ENODEV;
    } else if (!node_param(fd, VIRTGPU_PARAM_RESOURCE_BLOB) ||
               !node_param(fd, VIRTGPU_PARAM_HOST_VISIBLE)) {
        rc = apir_error_set(err, ENOTSUP,
                            "%s has no host-visible blobs: start the VM with blob=on,hostmem=…",
                            path);
    } else if (!node_param(fd, PARAM_CONTEXT_INIT) ||
               !(node_param(fd, PARAM_CAPSET_IDS) & (1u << CAPSET_VENUS))) {
        rc = apir_error_set(err, ENOTSUP, "%s offers no Venus capset: start the VM with venus=on",
                            path);
    } else if (APIR_SHM_ALIGN % node_blob_align(fd)) {
        rc = apir_error_set(err, ENOTSUP,
                            "the VMM behind %s shares memory in multiples of %llu KiB, apir in "
                            "multiples of %u KiB: the host's pages may have no more than that",
                            path, (unsigned long long)node_blob_align(fd) / 1024,
                            APIR_SHM_ALIGN / 1024);
    } else {
        rc = node_context_init(fd);
        if (rc)
            rc = apir_error_sys(err, -rc, "%s: cannot make a context", path);
    }
    if (rc) {
        close(fd);
        return rc;
    }
    t->fd = fd;
    t->silence_ns = transport_silence();
    snprintf(t->where, sizeof(t->where), "%s", path);
    node_pci_address(path, t->device_id, sizeof(t->device_id));
    t->blob_create = virtgpu_blob_create;
    t->doorbell = virtgpu_doorbell;
    t->blob_destroy = virtgpu_blob_destroy;
    t->window = node_window(path);
    return 0;
}

int transport_virtgpu_open(struct transport *t, const char *path, struct apir_error *err)
{
    if (path) {
        int rc = node_try(t, path, err);
        /* Named by the user, or by who has chosen it: silence would hide a typing error. */
        if (rc == -ENOENT)
            return apir_error_set(err, ENOENT,
                                  "%s is not there: in a container it is a matter of --device "
                                  "virtgpu/apir=gpu0, in a sandbox let /dev/dri through",
                                  path);
        return rc == -ENODEV ? apir_error_set(err, ENODEV, "%s is no virtio-gpu render node", path)
                             : rc;
    }
    int worst = -ENODEV;
    for (int minor = 128; minor < 192; minor++) {
        char node[32];
        snprintf(node, sizeof(node), "/dev/dri/renderD%d", minor);
        int rc = node_try(t, node, err);
        if (rc == 0)
            return 0;
        if (rc != -ENODEV && rc != -ENOENT)
            worst = rc;
    }
    return worst;
}
