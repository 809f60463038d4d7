/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/json.h"
#include "hook/state.h"
#include "protocol/cleanup.h"
#include "protocol/error.h"

#define VARIABLE "APIR_DEVICE_"
#define DIGITS   "0123456789"

void hook_request_fini(struct hook_request *request)
{
    free(request->devices);
    memset(request, 0, sizeof(*request));
}

static size_t length(struct json_object *array)
{
    return array == NULL ? 0 : json_object_array_length(array);
}

/* Adds the device of a variable APIR_DEVICE_<n>=…: gpu<n>. */
static int add_variable(const char *variable, struct hook_request *request)
{
    char *longer = NULL;

    if (strncmp(variable, VARIABLE, sizeof(VARIABLE) - 1) != 0)
        return 0;
    const char *n = variable + sizeof(VARIABLE) - 1;
    size_t digits = strspn(n, DIGITS);
    if (digits == 0 || digits > 9 || n[digits] != '=')
        return 0;
    const char *before = request->devices == NULL ? "" : request->devices;
    if (asprintf(&longer, "%s%sgpu%.*s", before, before[0] != '\0' ? "," : "", (int)digits, n) < 0)
        return -ENOMEM;
    free(request->devices);
    request->devices = longer;
    return 0;
}

static int from_environment(struct json_object *env, struct hook_request *request)
{
    static const char ours[] = "GGML_BACKEND_PATH=" HOOK_PLUGIN_INSIDE;
    bool path = false;

    for (size_t i = 0; i < length(env); i++) {
        struct json_object *item = json_object_array_get_idx(env, i);
        const char *variable =
            json_object_is_type(item, json_type_string) ? json_object_get_string(item) : "";

        path = path || strcmp(variable, ours) == 0;
        int r = add_variable(variable, request);
        if (r < 0)
            return r;
    }
    if (path && request->devices == NULL)
        request->devices = strdup("gpu0");
    return path && request->devices == NULL ? -ENOMEM : 0;
}

static bool has_plugin(struct json_object *mounts)
{
    for (size_t i = 0; i < length(mounts); i++) {
        const char *to = cdi_json_string(json_object_array_get_idx(mounts, i), "destination");
        if (to != NULL && strcmp(to, HOOK_PLUGIN_INSIDE) == 0)
            return true;
    }
    return false;
}

static int find(const struct hook_state *state, struct json_object *config,
                struct hook_request *request, struct apir_error *err)
{
    struct json_object *annotations = cdi_json_member(config, "annotations", json_type_object);
    struct json_object *member = NULL;
    const char *text = state == NULL ? NULL : state->device;
    int r = 0;

    if (text == NULL && json_object_object_get_ex(annotations, HOOK_ANNOTATION, &member)) {
        text = cdi_json_string(annotations, HOOK_ANNOTATION);
        if (text == NULL)
            return apir_error_set(err, EBADMSG, "the annotation " HOOK_ANNOTATION " is no string");
    }
    if (text != NULL) {
        request->devices = strdup(text);
        r = request->devices == NULL ? -ENOMEM : 0;
    } else {
        struct json_object *process = cdi_json_member(config, "process", json_type_object);
        r = from_environment(cdi_json_member(process, "env", json_type_array), request);
    }
    if (r < 0)
        return apir_error_sys(err, -r, "request");
    request->wanted = request->devices != NULL;
    request->edited = has_plugin(cdi_json_member(config, "mounts", json_type_array));
    return 0;
}

int hook_request_find(const struct hook_state *state, struct json_object *config,
                      struct hook_request *ret, struct apir_error *err)
{
    memset(ret, 0, sizeof(*ret));
    int r = find(state, config, ret, err);
    if (r < 0)
        hook_request_fini(ret);
    return r;
}
