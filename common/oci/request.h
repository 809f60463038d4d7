/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a container asks for a device of ours, and which. There are two ways to ask: the
 * annotation apir.device=gpu0 (a list with commas; virtgpu/apir=gpu0 is the same), and a CDI
 * device, whose spec has the engine mount our plug-in. The container's environment is no way to
 * ask, though a CDI spec sets variables too: an image sets them as well, and an image must not
 * get a device by itself.
 */
#pragma once

#include <stdbool.h>

struct apir_error;
struct oci_state;
struct json_object;

/* Where the plug-in is in the container. */
#define OCI_PLUGIN_INSIDE "/usr/lib/apir/libggml-apir.so"

struct oci_request {
    /* Of the annotation, names with commas between them; NULL: there is none. The state's, or the
     * config's. */
    const char *devices;
    bool edited; /* the engine has mounted the plug-in: a spec's edits are applied */
};

/*
 * Looks into the state and the container's config.json; config may be NULL, where it could not
 * be read. The state's annotation goes before the config's. Returns 0 or -errno: -EBADMSG where
 * the annotation is no string. *ret is zeroed on failure.
 */
int oci_request_find(const struct oci_state *state, struct json_object *config,
                     struct oci_request *ret, struct apir_error *err);
