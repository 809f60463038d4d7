/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts files, folders and devices of the host into a container's mount namespace,
 * at fixed paths below its root. The root is hostile: each component of a path is
 * opened in the folder before it and never followed where it is a link; what is
 * missing is made only in file systems that are the container's own.
 */
#pragma once

#include <sys/types.h>

#include "hook/place.h"

struct apir_error;
struct hook_devices;

/* All borrowed. */
struct hook_site {
    int root;                        /* O_PATH, in our mount namespace */
    const struct hook_devices *host; /* the file systems that the host has mounted */
};

/*
 * Mounts tree (of hook_place_detach; node_device is its st_rdev where it is a
 * node) at path. Folders and the file to be covered are made where they are
 * missing. Returns 0, or -errno with err set:
 *   -EALREADY  it is there already: the same device, or something mounted
 *   -EEXIST    the container has something else there
 *   -ENOTDIR   a component is a link, or another thing that is no folder
 *   -EXDEV     a part of the host, or something shared with it, is mounted there
 */
int hook_inject_mount(const struct hook_site *site, const char *path, int tree, enum hook_kind kind,
                      dev_t node_device, struct apir_error *err);
