/* SPDX-License-Identifier: Apache-2.0 */
/* The stage precreate: the OCI configuration of a container that is to be made. */
#pragma once

#include "hook/stages.h"

/*
 * The engine's configuration on stdin, with the device of the annotation added
 * on stdout. Whatever comes in goes out where there is nothing to add.
 */
int hook_stage_precreate(const struct hook_options *options, struct apir_error *err);

/*
 * Applies the edits of spec's device (or comma-separated devices; "gpu0" or
 * "virtgpu/apir=gpu0") to an OCI configuration, as an engine with CDI would.
 * -ENODEV: no such device in the spec. On failure config may be half edited.
 */
int hook_config_apply(struct json_object *config, struct json_object *spec, const char *devices,
                      struct apir_error *err);
