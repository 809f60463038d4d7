/* SPDX-License-Identifier: Apache-2.0 */
/* What the hook does at each stage of a container's life. */
#pragma once

#include "common/given.h"

struct apir_error;
struct oci_state;
struct json_object;

/* What remains for the container where nothing could be placed: for the log. */
#define HOOK_FALLBACK                                                                              \
    "only the variable GGML_BACKEND_PATH leads to the plug-in; " APIR_GIVEN_EXEC_ADVICE

struct hook_options {
    const char *plugin; /* on the host */
    const char *spec;   /* the CDI spec that a precreate request is looked up in */
};

/* A stage that looks into the image of the container that state is of. */
typedef int hook_stage_in_container(const struct hook_options *options,
                                    const struct oci_state *state, struct apir_error *err);

/*
 * In the container's mount namespace, before its root is entered: places the
 * plug-in where the image's ggml searches. Returns 0 also where it cannot help
 * (and has logged why), -errno where the request itself is wrong.
 */
hook_stage_in_container hook_stage_create_container;

/*
 * The part of it that other stages share: looks into the image below root and
 * places source (of hook_place_open_source) wherever its ggml searches. Logs what it
 * did, or why there is nothing that would work. config, which may be NULL, says
 * where the container's own program is.
 */
void hook_stage_place(int root, int source, struct json_object *config);

/*
 * createRuntime and prestart: in the runtime's namespaces, with the container's
 * process in the state. Does what the CDI spec says of the device to the container's
 * mount namespace (nodes and mounts), then what createContainer does. Nothing where
 * the engine has done it. Returns as that, and -errno where the state names no
 * process of a container.
 */
hook_stage_in_container hook_stage_create_runtime;
