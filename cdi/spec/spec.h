/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CDI specs: making ours, writing it, reading anybody's. What makes a spec valid
 * is common/oci/cdi_rules.h's.
 */
#pragma once

#include <stddef.h>

#include "common/given.h"
#include "protocol/messages.h"

struct apir_error;
struct json_object;

#define CDI_SPEC_VENDOR      "virtgpu"
#define CDI_SPEC_CLASS       "apir"
#define CDI_SPEC_FILE        "apir.json"
#define CDI_SPEC_PATH        "/etc/cdi/" CDI_SPEC_FILE
#define CDI_PLUGIN_CONTAINER APIR_GIVEN_PLUGIN
#define CDI_SOCKET_DIR       "/run/apir/host" /* in the container; outside by default */
#define CDI_SOCKET_NAME      "apir.sock"
#define CDI_SOCKET_GROUP     "apir" /* what sysusers.d makes, and the socket unit names */

/*
 * A device gpu<number>: one device of the host behind one render node. Several in one
 * container add up; a process uses one node, the first, and of its host the devices
 * whose ids the variables APIR_DEVICE_<number> name or, in a process without those,
 * the mounts that common/given.h describes.
 */
struct cdi_spec_device {
    unsigned number;
    char node[64];         /* "/dev/dri/renderD128", the same inside and outside; "": none */
    char id[APIR_ID_SIZE]; /* "": not known, whatever the host offers */
};

struct cdi_spec_options {
    const char *vendor;
    const char *class_name;
    const char *plugin_path; /* on the machine that runs the containers */
    const char *hook_path;   /* NULL: a spec without the hook */
    const struct cdi_spec_device *devices;
    size_t n_devices;
    /*
     * The folder in which apir-render-server --listen has its socket: adds the device
     * host0, for containers on the machine that owns the GPU. NULL: none. The folder
     * is mounted, not the socket: a server that was started again has a new one. With
     * host0 and gpu<number> in one container the transport that host0 sets wins.
     */
    const char *socket_dir;
    /* Of the host behind the socket, each as a device host0-<number>: without a node, with an id.
     */
    const struct cdi_spec_device *host_devices;
    size_t n_host_devices;
};

/*
 * Builds the spec with the lowest cdiVersion that serves it. *ret_spec is the
 * caller's. Returns 0 or -errno; what it returns may still break a rule where an
 * option does (cdi_spec_store checks).
 */
int cdi_spec_build(const struct cdi_spec_options *options, struct json_object **ret_spec,
                   struct apir_error *err);

/* Of one of our devices' edits: which of the host's it is. NULL where they do not say. */
const char *cdi_spec_host_id(struct json_object *edits);

/*
 * Writes spec to path, mode 0644, through a temporary file in the same folder,
 * fsync and rename: a reader sees the old file or the whole new one. Makes the
 * last folder of path where it is missing. Refuses (-EINVAL) a spec in which
 * cdi_rules_check finds anything at all.
 */
int cdi_spec_store(const char *path, struct json_object *spec, struct apir_error *err);

/* The text of the file, with a newline at its end; borrowed from spec. NULL: no memory. */
const char *cdi_spec_text(struct json_object *spec);
