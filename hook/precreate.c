/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/precreate.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/file.h"
#include "common/json.h"
#include "hook/log.h"
#include "common/oci/cdi_devices.h"
#include "common/oci/state.h"
#include "common/cleanup.h"
#include "common/error.h"

/* The member as this type, made where it is missing. NULL: another type, or no memory. */
static struct json_object *member(struct json_object *object, const char *key, enum json_type type)
{
    struct json_object *m = NULL;

    if (!object)
        return NULL;
    if (json_object_object_get_ex(object, key, &m) && m)
        return json_object_is_type(m, type) ? m : NULL;
    m = type == json_type_array ? json_object_new_array() : json_object_new_object();
    if (!m || json_object_object_add(object, key, m) != 0) {
        json_object_put(m);
        return NULL;
    }
    return m;
}

/* Copies a member of a spec as it is; absent stays absent. */
static int copy(struct json_object *to, const char *to_key, struct json_object *from,
                const char *key)
{
    struct json_object *m = NULL;

    if (!json_object_object_get_ex(from, key, &m) || !m)
        return 0;
    return apir_json_set(to, to_key, json_object_get(m));
}

/* Whether one of the objects in the array has this value at the key. */
static bool has_string(struct json_object *array, const char *key, const char *value)
{
    for (size_t i = 0; i < apir_json_length(array); i++) {
        const char *s = apir_json_string(json_object_array_get_idx(array, i), key);
        if (s && strcmp(s, value) == 0)
            return true;
    }
    return false;
}

static int apply_env(struct json_object *config, struct json_object *list)
{
    struct json_object *process = member(config, "process", json_type_object);
    struct json_object *env = member(process, "env", json_type_array);

    for (size_t i = 0; i < apir_json_length(list); i++) {
        struct json_object *item = json_object_array_get_idx(list, i);
        const char *text = json_object_get_string(item);
        size_t name = strcspn(text, "=") + 1;
        size_t k = 0;

        if (!env)
            return -EBADMSG;
        /* As with CDI, the spec's value takes the place of the user's. */
        for (; k < apir_json_length(env); k++) {
            const char *there = apir_json_string_at(env, k);
            if (there && strncmp(there, text, name) == 0)
                break;
        }
        int rc = k < apir_json_length(env)
                     ? json_object_array_put_idx(env, k, json_object_get(item))
                     : json_object_array_add(env, json_object_get(item));
        if (rc != 0)
            return -ENOMEM;
    }
    return 0;
}

static int apply_mounts(struct json_object *config, struct json_object *list)
{
    struct json_object *mounts = member(config, "mounts", json_type_array);

    for (size_t i = 0; i < apir_json_length(list); i++) {
        struct json_object *item = json_object_array_get_idx(list, i);
        cleanup_json struct json_object *mount = json_object_new_object();

        if (has_string(mounts, "destination", apir_json_string(item, "containerPath")))
            continue;
        if (copy(mount, "destination", item, "containerPath") < 0 ||
            copy(mount, "source", item, "hostPath") < 0 ||
            apir_json_set(mount, "type", json_object_new_string("bind")) < 0 ||
            copy(mount, "options", item, "options") < 0 ||
            apir_json_append(mounts, json_object_get(mount)) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int apply_hooks(struct json_object *config, struct json_object *list)
{
    struct json_object *hooks =
        apir_json_length(list) > 0 ? member(config, "hooks", json_type_object) : NULL;

    for (size_t i = 0; i < apir_json_length(list); i++) {
        struct json_object *item = json_object_array_get_idx(list, i);
        struct json_object *stage =
            member(hooks, apir_json_string(item, "hookName"), json_type_array);
        cleanup_json struct json_object *hook = json_object_new_object();

        if (has_string(stage, "path", apir_json_string(item, "path")))
            continue;
        if (copy(hook, "path", item, "path") < 0 || copy(hook, "args", item, "args") < 0 ||
            copy(hook, "env", item, "env") < 0 || copy(hook, "timeout", item, "timeout") < 0 ||
            apir_json_append(stage, json_object_get(hook)) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* The device itself, and the cgroup's leave to use it. */
static int apply_node(struct json_object *config, struct json_object *node, struct apir_error *err)
{
    struct json_object *lin = member(config, "linux", json_type_object);
    struct json_object *devices = member(lin, "devices", json_type_array);
    struct json_object *resources = member(lin, "resources", json_type_object);
    struct json_object *rules = member(resources, "devices", json_type_array);
    cleanup_json struct json_object *device = json_object_new_object();
    cleanup_json struct json_object *rule = json_object_new_object();
    const char *path = apir_json_string(node, "path");
    const char *host_path = apir_json_string(node, "hostPath");
    const char *access_text = apir_json_string(node, "permissions");
    struct stat st;

    if (!devices || !rules || !device || !rule)
        return apir_error_set(err, EBADMSG, "the configuration has an odd \"linux\"");
    if (stat(host_path ? host_path : path, &st) < 0)
        return apir_error_sys(err, errno, "device node %s", path);
    if (!S_ISCHR(st.st_mode))
        return apir_error_set(err, ENOTTY, "%s is no character device", path);

    struct json_object *both[] = {device, rule};
    for (size_t i = 0; i < 2; i++)
        if (apir_json_set(both[i], "type", json_object_new_string("c")) < 0 ||
            apir_json_set(both[i], "major", json_object_new_int64(major(st.st_rdev))) < 0 ||
            apir_json_set(both[i], "minor", json_object_new_int64(minor(st.st_rdev))) < 0)
            return apir_error_sys(err, ENOMEM, "device node %s", path);
    if (apir_json_set(rule, "allow", json_object_new_boolean(1)) < 0 ||
        apir_json_set(rule, "access", json_object_new_string(access_text ? access_text : "rw")) <
            0 ||
        apir_json_append(rules, json_object_get(rule)) < 0 ||
        apir_json_set(device, "path", json_object_new_string(path)) < 0 ||
        apir_json_set(device, "fileMode", json_object_new_int64(st.st_mode & 07777)) < 0 ||
        apir_json_set(device, "uid", json_object_new_int64(st.st_uid)) < 0 ||
        apir_json_set(device, "gid", json_object_new_int64(st.st_gid)) < 0 ||
        (!has_string(devices, "path", path) &&
         apir_json_append(devices, json_object_get(device)) < 0))
        return apir_error_sys(err, ENOMEM, "device node %s", path);
    return 0;
}

static int apply_groups(struct json_object *config, struct json_object *list)
{
    if (apir_json_length(list) == 0)
        return 0;
    struct json_object *process = member(config, "process", json_type_object);
    struct json_object *user = member(process, "user", json_type_object);
    struct json_object *groups = member(user, "additionalGids", json_type_array);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < apir_json_length(list); i++)
        rc = apir_json_append(groups, json_object_get(json_object_array_get_idx(list, i)));
    return rc;
}

static int apply_edits(struct json_object *config, struct json_object *edits,
                       struct apir_error *err)
{
    struct json_object *nodes = apir_json_array(edits, "deviceNodes");

    for (size_t i = 0; i < apir_json_length(nodes); i++) {
        int rc = apply_node(config, json_object_array_get_idx(nodes, i), err);
        if (rc < 0)
            return rc;
    }
    int rc = apply_env(config, apir_json_array(edits, "env"));
    if (rc == 0)
        rc = apply_mounts(config, apir_json_array(edits, "mounts"));
    if (rc == 0)
        rc = apply_hooks(config, apir_json_array(edits, "hooks"));
    if (rc == 0)
        rc = apply_groups(config, apir_json_array(edits, "additionalGids"));
    return rc == 0 ? 0 : apir_error_sys(err, -rc, "the configuration");
}

int hook_config_apply(struct json_object *config, struct json_object *spec, const char *devices,
                      struct apir_error *err)
{
    struct json_object *edits[CDI_DEVICES_EDITS_MAX];
    int n = cdi_devices_select(spec, devices, edits, err);
    int rc = n < 0 ? n : 0;

    for (int i = 0; rc == 0 && i < n; i++)
        rc = apply_edits(config, edits[i], err);
    return rc;
}

/*
 * Edits config where it asks for a device. Returns 1 where there is nothing to
 * write back, 0 where there is, -errno where the request is wrong.
 */
static int edit(const struct hook_options *options, struct json_object *config,
                struct apir_error *err)
{
    cleanup_json struct json_object *spec = NULL;
    struct json_object *annotations = apir_json_object(config, "annotations");
    struct apir_error why = {0};

    if (!json_object_object_get_ex(annotations, OCI_ANNOTATION, NULL))
        return 1;
    const char *wanted = apir_json_string(annotations, OCI_ANNOTATION);
    if (!wanted)
        return apir_error_set(err, EBADMSG, "the annotation " OCI_ANNOTATION " is no string");
    if (cdi_devices_load(options->spec, &spec, &why) < 0) {
        hook_log(HOOK_ERROR, "cannot add %s: %s", wanted, why.msg);
        return 1;
    }
    int rc = hook_config_apply(config, spec, wanted, &why);
    if (rc == -ENODEV)
        return apir_error_set(err, ENODEV, "%s", why.msg);
    if (rc < 0) {
        hook_log(HOOK_ERROR, "cannot add %s: %s", wanted, why.msg);
        return 1;
    }
    hook_log(HOOK_INFO, "added %s", wanted);
    return 0;
}

int hook_stage_precreate(const struct hook_options *options, struct apir_error *err)
{
    cleanup_json struct json_object *config = NULL;
    cleanup_free char *data = NULL;
    struct apir_error why = {0};
    size_t size = 0;

    int rc = apir_file_read(STDIN_FILENO, OCI_CONFIG_MAX, &data, &size, err);
    if (rc < 0)
        return apir_error_wrap(err, rc, "configuration");
    if (apir_json_parse(data, size, &config, &why) < 0) {
        hook_log(HOOK_WARNING, "cannot read the configuration: %s", why.msg);
        rc = 1;
    } else {
        rc = edit(options, config, err);
    }
    if (rc < 0)
        return rc;
    /* Where it is as it was, or cannot be written anew, the engine gets what it sent. */
    const char *text =
        rc == 0 ? json_object_to_json_string_ext(config, JSON_C_TO_STRING_NOSLASHESCAPE) : NULL;
    rc = text ? apir_file_write(STDOUT_FILENO, text, strlen(text))
              : apir_file_write(STDOUT_FILENO, data, size);
    return rc == 0 ? 0 : apir_error_sys(err, -rc, "write the configuration");
}
