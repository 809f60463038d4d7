/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a container asks for a device of ours, and which. There are three ways
 * to ask: the annotation apir.device=gpu0 (a list with commas; virtgpu/apir=gpu0
 * is the same), a variable APIR_DEVICE_<n>, and GGML_BACKEND_PATH that leads to
 * our plug-in. The last two are what a CDI spec sets.
 */
#ifndef APIR_HOOK_REQUEST_H
#define APIR_HOOK_REQUEST_H

#include <stdbool.h>

struct apir_error;
struct hook_state;
struct json_object;

/* The annotation that asks for a device where the engine does not know CDI. */
#define HOOK_ANNOTATION "apir.device"
/* Where the plug-in is in the container. */
#define HOOK_PLUGIN_INSIDE "/usr/lib/apir/libggml-apir.so"

struct hook_request {
    bool wanted;
    bool edited;   /* the engine has mounted the plug-in: a spec's edits are applied */
    char *devices; /* names with commas between them; NULL only where nothing is wanted */
};

void hook_request_fini(struct hook_request *request);
#define cleanup_request __attribute__((cleanup(hook_request_fini)))

/*
 * Looks into the state and the container's config.json; config may be NULL, where
 * it could not be read. The state's annotation goes before the config's, and
 * annotations before variables. Returns 0 or -errno: -EBADMSG where the annotation
 * is no string. *ret is zeroed on failure.
 */
int hook_request_find(const struct hook_state *state, struct json_object *config,
                      struct hook_request *ret, struct apir_error *err);

#endif
