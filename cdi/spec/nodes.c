/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/spec/nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xf86drm.h>

#include <drm/virtgpu_drm.h>

#include "common/cleanup.h"

static int get_param(int fd, uint64_t param, uint32_t *ret_value)
{
    /* The kernel writes an int whatever the pointer's target: the rest must be 0. */
    uint64_t value = 0;
    struct drm_virtgpu_getparam arg = {.param = param, .value = (uint64_t)(uintptr_t)&value};

    if (drmIoctl(fd, DRM_IOCTL_VIRTGPU_GETPARAM, &arg) < 0)
        return -errno;
    *ret_value = (uint32_t)value;
    return 0;
}

/* A parameter that this kernel does not know is one that it does not offer. */
static int get_flag(int fd, uint64_t param, bool *ret_flag)
{
    uint32_t value = 0;
    int rc = get_param(fd, param, &value);

    *ret_flag = rc == 0 && value != 0;
    return rc == -EINVAL ? 0 : rc;
}

int cdi_node_caps_read(int fd, struct cdi_node_caps *caps)
{
    int rc = get_flag(fd, VIRTGPU_PARAM_3D_FEATURES, &caps->features_3d);

    if (rc == 0)
        rc = get_flag(fd, VIRTGPU_PARAM_RESOURCE_BLOB, &caps->blob);
    if (rc == 0)
        rc = get_flag(fd, VIRTGPU_PARAM_HOST_VISIBLE, &caps->host_visible);
    if (rc == 0)
        rc = get_flag(fd, VIRTGPU_PARAM_CONTEXT_INIT, &caps->context_init);
    if (rc == 0) {
        rc = get_param(fd, VIRTGPU_PARAM_SUPPORTED_CAPSET_IDs, &caps->capset_ids);
        if (rc == -EINVAL)
            rc = 0;
    }
    return rc;
}

const char *cdi_node_caps_missing(const struct cdi_node_caps *caps)
{
    if (!caps->features_3d)
        return "3D";
    if (!caps->blob)
        return "blob resources";
    if (!caps->context_init)
        return "context init";
    if (!caps->host_visible)
        return "host-visible memory";
    if ((caps->capset_ids & (1u << CDI_CAPSET_VENUS)) == 0)
        return "the Venus capset";
    return NULL;
}

static void read_bus(int fd, struct cdi_node *node)
{
    drmDevicePtr device = NULL;

    /* Asks sysfs, which a container may lack: nothing depends on the answer. */
    if (drmGetDevice2(fd, 0, &device) != 0)
        return;
    if (device->bustype == DRM_BUS_PCI) {
        drmPciBusInfoPtr pci = device->businfo.pci;
        snprintf(node->bus, sizeof(node->bus), "pci %04x:%02x:%02x.%x", pci->domain, pci->bus,
                 pci->dev, pci->func);
    } else if (device->bustype == DRM_BUS_PLATFORM) {
        snprintf(node->bus, sizeof(node->bus), "platform");
    }
    drmFreeDevice(&device);
}

static void read_node(struct cdi_node *node)
{
    cleanup_fd int fd = open(node->full_path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0) {
        node->open_error = errno;
        return;
    }
    drmVersionPtr version = drmGetVersion(fd);
    if (!version) {
        node->caps_error = errno != 0 ? errno : ENOTTY;
        return;
    }
    snprintf(node->driver, sizeof(node->driver), "%.*s", version->name_len, version->name);
    drmFreeVersion(version);
    node->is_virtio_gpu = strcmp(node->driver, CDI_DRIVER_NAME) == 0;
    read_bus(fd, node);
    if (node->is_virtio_gpu)
        node->caps_error = -cdi_node_caps_read(fd, &node->caps);
}

static int render_number(const struct dirent *entry)
{
    static const char prefix[] = "renderD";
    size_t n = sizeof(prefix) - 1;

    if (strncmp(entry->d_name, prefix, n) != 0 || entry->d_name[n] == '\0' ||
        strlen(entry->d_name) > n + 4 ||
        strspn(entry->d_name + n, "0123456789") != strlen(entry->d_name + n))
        return -1;
    return atoi(entry->d_name + n);
}

static int is_render_node(const struct dirent *entry)
{
    return render_number(entry) >= 0;
}

static int by_number(const struct dirent **a, const struct dirent **b)
{
    return render_number(*a) - render_number(*b);
}

int cdi_nodes_find(const char *dev_root, struct cdi_node *nodes)
{
    const char *root = strcmp(dev_root, "/") == 0 ? "" : dev_root;
    char dir[200];
    struct dirent **list = NULL;
    int n = 0;

    if ((size_t)snprintf(dir, sizeof(dir), "%s/dev/dri", root) >= sizeof(dir))
        return -ENAMETOOLONG;
    int found = scandir(dir, &list, is_render_node, by_number);
    if (found < 0)
        return -errno;
    for (int i = 0; i < found; i++) {
        if (n < CDI_NODES_MAX) {
            struct cdi_node *node = &nodes[n++];

            memset(node, 0, sizeof(*node));
            snprintf(node->path, sizeof(node->path), "/dev/dri/renderD%d", render_number(list[i]));
            snprintf(node->full_path, sizeof(node->full_path), "%s%s", root, node->path);
            read_node(node);
        }
        free(list[i]);
    }
    free(list);
    return n;
}
