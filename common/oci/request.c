/* SPDX-License-Identifier: Apache-2.0 */
#include "common/oci/request.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/stat.h>

#include "common/json.h"
#include "common/oci/state.h"
#include "common/error.h"

/*
 * An image can have a VOLUME of this name, which engines mount as well: but a volume is a folder,
 * or a tmpfs, whose source is no path.
 */
static bool is_file(const char *source)
{
    struct stat st;

    return source && source[0] == '/' && (stat(source, &st) < 0 || !S_ISDIR(st.st_mode));
}

static bool has_plugin(struct json_object *mounts)
{
    for (size_t i = 0; i < apir_json_length(mounts); i++) {
        struct json_object *mount = json_object_array_get_idx(mounts, i);
        const char *to = apir_json_string(mount, "destination");

        if (to && strcmp(to, OCI_PLUGIN_INSIDE) == 0 && is_file(apir_json_string(mount, "source")))
            return true;
    }
    return false;
}

int oci_request_find(const struct oci_state *state, struct json_object *config,
                     struct oci_request *ret, struct apir_error *err)
{
    struct json_object *annotations = apir_json_object(config, "annotations");

    *ret = (struct oci_request){.devices = state ? state->device : NULL};
    if (!ret->devices && json_object_object_get_ex(annotations, OCI_ANNOTATION, NULL)) {
        ret->devices = apir_json_string(annotations, OCI_ANNOTATION);
        if (!ret->devices)
            return apir_error_set(err, EBADMSG, "the annotation " OCI_ANNOTATION " is no string");
    }
    ret->edited = has_plugin(apir_json_array(config, "mounts"));
    return 0;
}
