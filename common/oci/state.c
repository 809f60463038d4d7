/* SPDX-License-Identifier: Apache-2.0 */
#include "common/oci/state.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

#define PID_MAX (4 * 1024 * 1024) /* PID_MAX_LIMIT of a 64-bit kernel */

void oci_state_fini(struct oci_state *state)
{
    free(state->id);
    free(state->bundle);
    free(state->root);
    free(state->device);
    memset(state, 0, sizeof(*state));
}

/* A member that may be absent, but is a string without NUL where it is there. */
static int optional_string(struct json_object *object, const char *key, char **ret,
                           struct apir_error *err)
{
    struct json_object *member = NULL;

    if (!json_object_object_get_ex(object, key, &member) || !member)
        return 0;
    const char *s = apir_json_string(object, key);
    if (!s)
        return apir_error_set(err, EBADMSG, "\"%s\" is not a string", key);
    *ret = strdup(s);
    return *ret ? 0 : apir_error_sys(err, ENOMEM, "\"%s\"", key);
}

static int optional_path(struct json_object *object, const char *key, char **ret,
                         struct apir_error *err)
{
    int rc = optional_string(object, key, ret, err);

    if (rc == 0 && *ret && (*ret)[0] != '/')
        return apir_error_set(err, EBADMSG, "\"%s\" is not an absolute path", key);
    return rc;
}

static int parse_pid(struct json_object *object, int64_t *ret, struct apir_error *err)
{
    struct json_object *pid = NULL;

    if (!json_object_object_get_ex(object, "pid", &pid) || !pid)
        return 0;
    if (!json_object_is_type(pid, json_type_int))
        return apir_error_set(err, EBADMSG, "\"pid\" is not a number");
    *ret = json_object_get_int64(pid);
    if (*ret < 0 || *ret > PID_MAX)
        return apir_error_set(err, EBADMSG, "\"pid\" is out of range");
    return 0;
}

static int parse_members(struct json_object *object, struct oci_state *s, struct apir_error *err)
{
    struct json_object *annotations = NULL;
    int rc = optional_string(object, "id", &s->id, err);

    if (rc == 0 && (!s->id || s->id[0] == '\0'))
        return apir_error_set(err, EBADMSG, "no \"id\"");
    if (rc == 0)
        rc = optional_path(object, "bundle", &s->bundle, err);
    if (rc == 0)
        rc = optional_string(object, "root", &s->root, err);
    if (rc == 0)
        rc = parse_pid(object, &s->pid, err);
    if (rc == 0 && json_object_object_get_ex(object, "annotations", &annotations) && annotations) {
        if (!json_object_is_type(annotations, json_type_object))
            return apir_error_set(err, EBADMSG, "\"annotations\" is not an object");
        rc = optional_string(annotations, OCI_ANNOTATION, &s->device, err);
    }
    return rc;
}

int oci_state_parse(const char *data, size_t size, struct oci_state *ret, struct apir_error *err)
{
    cleanup_json struct json_object *object = NULL;
    int rc;

    memset(ret, 0, sizeof(*ret));
    if (size > OCI_STATE_MAX)
        return apir_error_set(err, EFBIG, "container state of %zu bytes", size);
    rc = apir_json_parse(data, size, &object, err);
    if (rc == 0)
        rc = parse_members(object, ret, err);
    if (rc < 0)
        oci_state_fini(ret);
    return apir_error_wrap(err, rc, "container state");
}

int oci_state_read(int fd, struct oci_state *ret, struct apir_error *err)
{
    cleanup_free char *data = NULL;
    size_t size = 0;

    int rc = apir_file_read(fd, OCI_STATE_MAX, &data, &size, err);
    if (rc < 0)
        return apir_error_wrap(err, rc, "container state");
    return oci_state_parse(data, size, ret, err);
}

int oci_state_config(const struct oci_state *state, struct json_object **ret_config,
                     struct apir_error *err)
{
    if (!state->bundle)
        return apir_error_set(err, ENOENT, "the state names no bundle");
    cleanup_free char *path = apir_text_format("%s/config.json", state->bundle);
    if (!path)
        return apir_error_sys(err, ENOMEM, "bundle");
    return apir_json_load(path, OCI_CONFIG_MAX, ret_config, err);
}

/* As in config.json, a relative root is relative to the bundle. */
static int absolute_root(const char *path, const char *bundle, char **ret_root,
                         struct apir_error *err)
{
    if (path[0] == '\0')
        return apir_error_set(err, EBADMSG, "the root is an empty path");
    if (path[0] != '/' && !bundle)
        return apir_error_set(err, EBADMSG, "the root is relative and the bundle is not known");
    *ret_root = path[0] == '/' ? strdup(path) : apir_text_format("%s/%s", bundle, path);
    return *ret_root ? 0 : apir_error_sys(err, ENOMEM, "root");
}

int oci_config_root(struct json_object *config, const char *bundle, char **ret_root,
                    struct apir_error *err)
{
    const char *path = apir_json_string(apir_json_object(config, "root"), "path");

    if (!path)
        return apir_error_set(err, EBADMSG, "config.json has no root.path");
    return absolute_root(path, bundle, ret_root, err);
}

int oci_state_root(const struct oci_state *state, char **ret_root, struct apir_error *err)
{
    cleanup_json struct json_object *config = NULL;

    if (state->root)
        return absolute_root(state->root, state->bundle, ret_root, err);
    if (!state->bundle)
        return apir_error_set(err, EBADMSG, "the state names neither root nor bundle");
    int rc = oci_state_config(state, &config, err);
    return rc < 0 ? rc : oci_config_root(config, state->bundle, ret_root, err);
}
