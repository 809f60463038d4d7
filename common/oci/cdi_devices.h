/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CDI spec, for engines that do not know CDI: what it says of the devices that
 * a container asks for.
 */
#pragma once

struct apir_error;
struct json_object;

/* As many of its devices as one container may ask for, and the common edits. */
#define CDI_DEVICES_EDITS_MAX 33

/* Loads a spec that is valid by our own rules. Returns 0 or -errno with err set. */
int cdi_devices_load(const char *path, struct json_object **ret_spec, struct apir_error *err);

/*
 * The containerEdits of the devices in `names` ("gpu0,gpu1", "virtgpu/apir=gpu0"),
 * each once, then the spec's common ones; borrowed from spec. Returns their number
 * or -errno: -ENODEV for a device that is not in the spec, or for no name at all.
 */
int cdi_devices_select(struct json_object *spec, const char *names,
                       struct json_object *ret_edits[CDI_DEVICES_EDITS_MAX],
                       struct apir_error *err);
