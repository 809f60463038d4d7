/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's DRM render nodes, and what a virtio-gpu among them offers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CDI_NODES_MAX    64
#define CDI_DRIVER_NAME  "virtio_gpu"
#define CDI_CAPSET_VENUS 4u

struct cdi_node_caps {
    bool features_3d;
    bool blob;
    bool host_visible;
    bool context_init;
    uint32_t capset_ids; /* bit per capset id */
};

struct cdi_node {
    char path[64];       /* "/dev/dri/renderD128", without the dev root */
    char full_path[256]; /* with it */
    int open_error;      /* errno of opening it, 0: it was opened */
    char driver[32];     /* "" where it was not opened */
    char bus[32];        /* "pci 0000:00:02.0", or "" */
    bool is_virtio_gpu;
    int caps_error; /* errno of asking, 0: caps is filled */
    struct cdi_node_caps caps;
};

/*
 * Fills nodes (room for CDI_NODES_MAX) with every render node under
 * dev_root/dev/dri, by number. A node that cannot be opened is listed too.
 * Returns how many, or -errno (-ENOENT: no such folder).
 */
int cdi_nodes_find(const char *dev_root, struct cdi_node *nodes);

/* Asks the virtio-gpu node behind fd. Returns 0 or -errno. */
int cdi_node_caps_read(int fd, struct cdi_node_caps *caps);

/* The first thing in caps that an apir context cannot do without, or NULL. */
const char *cdi_node_caps_missing(const struct cdi_node_caps *caps);
