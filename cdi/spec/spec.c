/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/spec/spec.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cdi/file.h"
#include "common/json.h"
#include "common/oci/cdi_rules.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

#define TEXT_FLAGS                                                                                 \
    (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE)

/*
 * Builders: each takes ownership of `value` also where it fails, and remembers
 * the failure, so that a whole object is built without a check per line.
 */
struct builder {
    bool failed;
};

static void put(struct builder *b, struct json_object *object, const char *key,
                struct json_object *value)
{
    b->failed = apir_json_set(object, key, value) < 0 || b->failed;
}

static void append(struct builder *b, struct json_object *array, struct json_object *value)
{
    b->failed = apir_json_append(array, value) < 0 || b->failed;
}

static void put_string(struct builder *b, struct json_object *object, const char *key,
                       const char *value)
{
    put(b, object, key, json_object_new_string(value));
}

static struct json_object *strings(struct builder *b, const char *const *list)
{
    struct json_object *array = json_object_new_array();

    for (; *list; list++)
        append(b, array, json_object_new_string(*list));
    return array;
}

static struct json_object *build_hook(struct builder *b, const struct cdi_spec_options *o)
{
    struct json_object *hook = json_object_new_object();
    bool other_plugin = strcmp(o->plugin_path, CDI_PLUGIN_CONTAINER) != 0;
    const char *args[] = {"apir-hook", "createContainer", other_plugin ? "--plugin" : NULL,
                          o->plugin_path, NULL};
    /* Never empty: with no env of its own a hook gets the image's on some runtimes. */
    static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};

    put_string(b, hook, "hookName", "createContainer");
    put_string(b, hook, "path", o->hook_path);
    put(b, hook, "args", strings(b, args));
    put(b, hook, "env", strings(b, env));
    /* Far above the hook's own limit (10 s): a runtime that loses patience ends the container. */
    put(b, hook, "timeout", json_object_new_int(120));
    return hook;
}

static struct json_object *build_mount(struct builder *b, const char *from, const char *to)
{
    struct json_object *mount = json_object_new_object();
    static const char *const options[] = {"ro", "nosuid", "nodev", "bind", "rprivate", NULL};

    put_string(b, mount, "hostPath", from);
    put_string(b, mount, "containerPath", to);
    /* `podman build --isolation=chroot` passes over a mount that does not say so. */
    put_string(b, mount, "type", "bind");
    put(b, mount, "options", strings(b, options));
    return mount;
}

static struct json_object *build_common_edits(struct builder *b, const struct cdi_spec_options *o)
{
    struct json_object *edits = json_object_new_object();
    struct json_object *mounts = json_object_new_array();
    /*
     * Few, since a variable of a spec overrides the user's own. The empty list
     * keeps ggml-vulkan from offering the same GPU a second time through Venus.
     */
    static const char *const env[] = {"GGML_BACKEND_PATH=" CDI_PLUGIN_CONTAINER,
                                      "GGML_VK_VISIBLE_DEVICES=", NULL};

    put(b, edits, "env", strings(b, env));
    append(b, mounts, build_mount(b, o->plugin_path, CDI_PLUGIN_CONTAINER));
    put(b, edits, "mounts", mounts);
    if (o->hook_path) {
        struct json_object *hooks = json_object_new_array();

        append(b, hooks, build_hook(b, o));
        put(b, edits, "hooks", hooks);
    }
    return edits;
}

/* What the mount for a device is called (common/given.h). */
static void given_path(struct builder *b, char *path, size_t size, const char *name, const char *id)
{
    size_t n = (size_t)snprintf(path, size, APIR_GIVEN_FOLDER "/%s%s", name, id ? "=" : "");

    for (const unsigned char *p = (const unsigned char *)id; p && *p && n < size; p++) {
        bool plain = isascii(*p) && (isalnum(*p) || strchr("._:-", *p));

        n += (size_t)snprintf(path + n, size - n, plain ? "%c" : "%%%02X", *p);
    }
    b->failed = b->failed || n >= size;
}

/* d NULL: all of the host behind the socket; one of that host has no node. */
static struct json_object *build_device(struct builder *b, const struct cdi_spec_options *o,
                                        const struct cdi_spec_device *d)
{
    struct json_object *device = json_object_new_object();
    struct json_object *edits = json_object_new_object();
    struct json_object *mounts = json_object_new_array();
    const bool host = !d || d->node[0] == '\0';
    const char *id = d && d->id[0] != '\0' ? d->id : NULL;
    char name[32] = APIR_GIVEN_HOST, variable[128], path[PATH_MAX];
    const char *env[] = {variable, NULL, NULL};

    if (d)
        snprintf(name, sizeof(name), "%s%u", host ? APIR_GIVEN_HOST_DEVICE : APIR_GIVEN_GPU,
                 d->number);
    if (id &&
        (size_t)snprintf(variable, sizeof(variable), "APIR_DEVICE_%u=%s",
                         (host ? APIR_GIVEN_HOST_FIRST : 0) + d->number, id) >= sizeof(variable))
        b->failed = true;
    if (host) {
        env[0] = "APIR_TRANSPORT=unix:" CDI_SOCKET_DIR "/" CDI_SOCKET_NAME;
        env[1] = id ? variable : NULL;
        /* Read-only: connecting asks for the socket's own permission, not the mount's. */
        append(b, mounts, build_mount(b, o->socket_dir, CDI_SOCKET_DIR));
    }
    if (host || id) {
        put(b, edits, "env", strings(b, env));
        given_path(b, path, sizeof(path), name, id);
        append(b, mounts, build_mount(b, o->plugin_path, path));
        put(b, edits, "mounts", json_object_get(mounts));
    }
    json_object_put(mounts);
    if (!host) {
        struct json_object *nodes = json_object_new_array();
        struct json_object *node = json_object_new_object();

        /* No hostPath: rootless engines bind the node from its path in the container. */
        put_string(b, node, "path", d->node);
        put_string(b, node, "permissions", "rw");
        append(b, nodes, node);
        put(b, edits, "deviceNodes", nodes);
    }
    put_string(b, device, "name", name);
    put(b, device, "containerEdits", edits);
    return device;
}

int cdi_spec_build(const struct cdi_spec_options *o, struct json_object **ret_spec,
                   struct apir_error *err)
{
    struct builder b = {false};
    cleanup_json struct json_object *spec = json_object_new_object();
    struct json_object *devices = json_object_new_array();
    cleanup_free char *kind = apir_text_format("%s/%s", o->vendor, o->class_name);

    if (!kind) {
        json_object_put(devices);
        return apir_error_sys(err, ENOMEM, "CDI spec");
    }
    put_string(&b, spec, "cdiVersion", CDI_RULES_VERSION_LOWEST);
    put_string(&b, spec, "kind", kind);
    for (size_t i = 0; i < o->n_devices; i++)
        append(&b, devices, build_device(&b, o, &o->devices[i]));
    if (o->socket_dir)
        append(&b, devices, build_device(&b, o, NULL));
    for (size_t i = 0; o->socket_dir && i < o->n_host_devices; i++)
        append(&b, devices, build_device(&b, o, &o->host_devices[i]));
    put(&b, spec, "devices", devices);
    put(&b, spec, "containerEdits", build_common_edits(&b, o));
    if (b.failed)
        return apir_error_sys(err, ENOMEM, "CDI spec");
    put_string(&b, spec, "cdiVersion", cdi_rules_lowest_version(spec));
    if (b.failed)
        return apir_error_sys(err, ENOMEM, "CDI spec");
    *ret_spec = steal_pointer(&spec);
    return 0;
}

const char *cdi_spec_host_id(struct json_object *edits)
{
    struct json_object *env = apir_json_array(edits, "env");

    for (size_t i = 0; i < apir_json_length(env); i++) {
        const char *s = apir_json_string_at(env, i);
        if (s && strncmp(s, "APIR_DEVICE_", 12) == 0 && strchr(s, '='))
            return strchr(s, '=') + 1;
    }
    return NULL;
}

const char *cdi_spec_text(struct json_object *spec)
{
    return json_object_to_json_string_ext(spec, TEXT_FLAGS);
}

int cdi_spec_store(const char *path, struct json_object *spec, struct apir_error *err)
{
    cleanup_report struct cdi_report report = {0};

    cdi_rules_check(spec, &report);
    if (report.n > 0)
        return apir_error_set(err, EINVAL, "not written, since it would not be valid: %s",
                              cdi_report_first(&report));
    cleanup_free char *text = apir_text_format("%s\n", cdi_spec_text(spec));
    if (!text)
        return apir_error_sys(err, ENOMEM, "%s", path);
    /* Rootless engines read it too. */
    return cdi_file_replace(path, text, 0644, 0755, err);
}
