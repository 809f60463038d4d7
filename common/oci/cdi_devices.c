/* SPDX-License-Identifier: Apache-2.0 */
#include "common/oci/cdi_devices.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "common/json.h"
#include "common/oci/cdi_rules.h"
#include "common/oci/state.h"
#include "common/cleanup.h"
#include "common/error.h"

int cdi_devices_load(const char *path, struct json_object **ret_spec, struct apir_error *err)
{
    cleanup_json struct json_object *spec = NULL;

    int rc = apir_json_load(path, CDI_SPEC_SIZE_MAX, &spec, err);
    if (rc < 0)
        return apir_error_wrap(err, rc, "run `apir cdi generate`");
    if (!cdi_rules_valid(spec))
        return apir_error_set(err, EINVAL, "%s is not valid; see `apir cdi validate`", path);
    *ret_spec = steal_pointer(&spec);
    return 0;
}

static struct json_object *find_device(struct json_object *spec, const char *name)
{
    struct json_object *devices = apir_json_array(spec, "devices");
    const char *kind = apir_json_string(spec, "kind");
    const char *equals = strchr(name, '=');

    if (equals) {
        if (!kind || strlen(kind) != (size_t)(equals - name) ||
            strncmp(kind, name, strlen(kind)) != 0)
            return NULL;
        name = equals + 1;
    }
    for (size_t i = 0; i < apir_json_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);
        const char *there = apir_json_string(device, "name");
        if (there && strcmp(there, name) == 0)
            return device;
    }
    return NULL;
}

/* Adds what is not there yet. Returns the new number, or -E2BIG. */
static int add(struct json_object *edits[CDI_DEVICES_EDITS_MAX], int n, struct json_object *device)
{
    struct json_object *one = apir_json_object(device, "containerEdits");

    for (int i = 0; i < n; i++)
        if (edits[i] == one)
            return n;
    if (!one)
        return n;
    if (n == CDI_DEVICES_EDITS_MAX)
        return -E2BIG;
    edits[n] = one;
    return n + 1;
}

int cdi_devices_select(struct json_object *spec, const char *names,
                       struct json_object *ret_edits[CDI_DEVICES_EDITS_MAX], struct apir_error *err)
{
    cleanup_free char *list = strdup(names);
    char *save = NULL;
    bool any = false;
    int n = 0;

    if (!list)
        return apir_error_sys(err, ENOMEM, "devices");
    for (char *name = strtok_r(list, ", ", &save); name; name = strtok_r(NULL, ", ", &save)) {
        struct json_object *device = find_device(spec, name);

        if (!device)
            return apir_error_set(err, ENODEV,
                                  "no device \"%.64s\" in the CDI spec; see `apir cdi list`", name);
        any = true;
        n = add(ret_edits, n, device);
        if (n < 0)
            return apir_error_set(err, ENODEV, "more than %d devices", CDI_DEVICES_EDITS_MAX - 1);
    }
    if (!any)
        return apir_error_set(err, ENODEV, "the annotation " OCI_ANNOTATION " names no device");
    n = add(ret_edits, n, spec);
    return n < 0 ? apir_error_set(err, ENODEV, "more than %d devices", CDI_DEVICES_EDITS_MAX - 1)
                 : n;
}
