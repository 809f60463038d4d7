/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker knows CDI since 25, where features.cdi in daemon.json turns it on; since 28.2 it is on
 * unless that says false. cdi-spec-dirs replaces the folders /etc/cdi and /var/run/cdi.
 */
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cdi/engine/engine.h"
#include "cdi/engine/specs.h"
#include "cdi/file.h"
#include "common/json.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

#define SPECS_DIR  "/etc/cdi"
#define TEXT_FLAGS (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)

static int parse(const char *path, const char *text, struct json_object **ret_object,
                 struct apir_error *err)
{
    if (!text || text[strspn(text, " \t\r\n")] == '\0') {
        *ret_object = json_object_new_object();
        return *ret_object ? 0 : apir_error_sys(err, ENOMEM, "%s", path);
    }
    return apir_error_wrap(err, apir_json_parse(text, strlen(text), ret_object, err), "%s", path);
}

static int print(struct json_object *object, char **ret_text, struct apir_error *err)
{
    const char *text = json_object_to_json_string_ext(object, TEXT_FLAGS);

    *ret_text = text ? apir_text_format("%s\n", text) : NULL;
    return *ret_text ? 0 : apir_error_sys(err, ENOMEM, "daemon.json");
}

/* NULL where it is not there; *ret_wrong where it is something else. */
static struct json_object *member(struct json_object *object, const char *key, enum json_type type,
                                  bool *ret_wrong)
{
    struct json_object *found = NULL;

    *ret_wrong =
        json_object_object_get_ex(object, key, &found) && !json_object_is_type(found, type);
    return *ret_wrong ? NULL : found;
}

/* Sets parent[key] (or top[key], without a parent) and notes what was there before. */
static int set(struct json_object *changes, struct json_object *top, const char *parent,
               const char *key, struct json_object *value)
{
    struct json_object *object = top, *was = NULL, *change = json_object_new_object();
    struct json_object *path = json_object_new_array();
    int rc = value ? apir_json_append(changes, change) : -ENOMEM;

    if (rc < 0) {
        json_object_put(path);
        json_object_put(value);
        return rc;
    }
    rc = apir_json_set(change, "path", path);
    if (rc == 0 && parent) {
        rc = apir_json_append(path, json_object_new_string(parent));
        if (rc == 0 && !json_object_object_get_ex(top, parent, &object))
            rc = apir_json_set(top, parent, object = json_object_new_object());
    }
    if (rc == 0)
        rc = apir_json_append(path, json_object_new_string(key));
    if (rc == 0 && json_object_object_get_ex(object, key, &was))
        rc = apir_json_set(change, "was", json_object_get(was));
    if (rc == 0)
        rc = apir_json_set(change, "is", json_object_get(value));
    if (rc == 0)
        return apir_json_set(object, key, value);
    json_object_put(value);
    return rc;
}

/* The list with our folder in it. NULL: no memory. */
static struct json_object *complete_dirs(struct json_object *dirs)
{
    struct json_object *all = NULL;

    if (json_object_deep_copy(dirs, &all, NULL) < 0)
        return NULL;
    if (apir_json_append(all, json_object_new_string(SPECS_DIR)) == 0)
        return all;
    json_object_put(all);
    return NULL;
}

static int make_plan(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                     struct apir_error *err)
{
    cleanup_json struct json_object *top = NULL;
    bool on_by_itself = cdi_version_at_least(where->version, 28, 2), wrong = false;

    int rc = cdi_file_read(plan->path, &plan->before, NULL, err);
    if (rc == 0)
        rc = parse(plan->path, plan->before, &top, err);
    if (rc < 0)
        return rc;
    struct json_object *features = member(top, "features", json_type_object, &wrong);
    if (wrong)
        return apir_error_set(err, EBADMSG, "%s: features is no object", plan->path);
    struct json_object *cdi = member(features, "cdi", json_type_boolean, &wrong);
    if (wrong)
        return apir_error_set(err, EBADMSG, "%s: features.cdi is neither true nor false",
                              plan->path);
    struct json_object *dirs = member(top, "cdi-spec-dirs", json_type_array, &wrong);
    if (wrong)
        return apir_error_set(err, EBADMSG, "%s: cdi-spec-dirs is no list", plan->path);

    bool turn_on = cdi ? !json_object_get_boolean(cdi) : !on_by_itself;
    bool add_dir = dirs && !apir_json_has_string(dirs, SPECS_DIR);
    if (!turn_on && !add_dir) {
        snprintf(plan->note, sizeof(plan->note),
                 "docker %d.%d: CDI is on%s; there is nothing to set", where->version.major,
                 where->version.minor, cdi ? ", daemon.json says so" : " by itself");
        return 0;
    }
    plan->changes = json_object_new_array();
    if (!plan->changes)
        rc = -ENOMEM;
    if (rc == 0 && turn_on)
        rc = set(plan->changes, top, "features", "cdi", json_object_new_boolean(1));
    if (rc == 0 && add_dir)
        rc = set(plan->changes, top, NULL, "cdi-spec-dirs", complete_dirs(dirs));
    if (rc < 0)
        return apir_error_sys(err, -rc, "%s", plan->path);
    snprintf(plan->note, sizeof(plan->note), "docker %d.%d: %s%s%s", where->version.major,
             where->version.minor,
             !turn_on        ? ""
             : !on_by_itself ? "CDI is off until features.cdi is true"
                             : "features.cdi turns CDI off",
             turn_on && add_dir ? ", and " : "",
             add_dir ? "cdi-spec-dirs leaves " SPECS_DIR " out" : "");
    return print(top, &plan->after, err);
}

/* What the setting was before comes back, unless somebody has set it since. */
static int restore(struct json_object *top, struct json_object *change, bool *ret_changed)
{
    struct json_object *path = apir_json_array(change, "path"), *is = NULL;
    struct json_object *object = top, *now = NULL, *was = NULL;
    size_t n = apir_json_length(path);
    const char *parent = n == 2 ? apir_json_string_at(path, 0) : NULL;
    const char *key = n > 0 ? apir_json_string_at(path, n - 1) : NULL;

    if (!key || n > 2 || (n == 2 && !parent) || !json_object_object_get_ex(change, "is", &is))
        return -EBADMSG;
    if (parent)
        object = apir_json_object(top, parent);
    if (!object || !json_object_object_get_ex(object, key, &now) || !json_object_equal(now, is))
        return 0;
    *ret_changed = true;
    if (json_object_object_get_ex(change, "was", &was))
        return apir_json_set(object, key, json_object_get(was));
    json_object_object_del(object, key);
    /* An empty one says nothing. */
    if (parent && json_object_object_length(object) == 0)
        json_object_object_del(top, parent);
    return 0;
}

static int undo(struct json_object *changes, bool made, struct cdi_engine_plan *plan,
                struct apir_error *err)
{
    cleanup_json struct json_object *top = NULL;
    bool changed = false;
    int rc = parse(plan->path, plan->before, &top, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < json_object_array_length(changes); i++)
        rc = restore(top, json_object_array_get_idx(changes, i), &changed);
    if (rc < 0)
        return apir_error_sys(err, -rc, "the record for %s", plan->path);
    if (!changed) {
        snprintf(plan->note, sizeof(plan->note), "%.500s has no setting of ours any more",
                 plan->path);
        return 0;
    }
    plan->remove = made && json_object_object_length(top) == 0;
    snprintf(plan->note, sizeof(plan->note),
             plan->remove ? "removes %.500s" : "takes our settings out of %.500s", plan->path);
    return plan->remove ? 0 : print(top, &plan->after, err);
}

/* A user's daemon has two folders more by default (since 29). */
static int add_default_dirs(const struct cdi_engine_where *where, struct cdi_strings *ret_dirs)
{
    const char *const own[] = {where->home, where->run};
    int rc = cdi_specs_add_usual(ret_dirs);

    for (size_t i = 0; rc == 0 && !where->system && i < 2; i++) {
        if (!own[i])
            continue;
        cleanup_free char *dir = apir_text_format("%s/cdi", own[i]);
        rc = dir ? cdi_strings_add(ret_dirs, dir) : -ENOMEM;
    }
    return rc;
}

static int spec_dirs(const struct cdi_engine_where *where, struct cdi_strings *ret_dirs,
                     struct apir_error *err)
{
    cleanup_json struct json_object *top = NULL;
    cleanup_free char *text = NULL;
    char path[PATH_MAX];
    int rc = cdi_engine_config_path(&cdi_engine_docker, where, path);

    if (rc == 0)
        rc = cdi_file_load(path, &text, err);
    if (rc == 0)
        rc = parse(path, text, &top, err);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    struct json_object *dirs = apir_json_array(top, "cdi-spec-dirs");
    if (!dirs)
        return add_default_dirs(where, ret_dirs);
    rc = 0;
    for (size_t i = 0; rc == 0 && i < json_object_array_length(dirs); i++)
        if (apir_json_string_at(dirs, i))
            rc = cdi_strings_add(ret_dirs, apir_json_string_at(dirs, i));
    return rc;
}

const struct engine_ops cdi_engine_docker = {
    .name = "docker",
    .title = "docker",
    /* docker is the client, which may talk to another machine. */
    .programs = {"dockerd", "docker"},
    .first = {25, 0, 0},
    .older = ", use podman, or pass node, plug-in and variables by hand (apir(1), docker)",
    .is_service = true,
    .user_socket = "docker.sock",
    .system_path = "/etc/docker/daemon.json",
    .user_path = "/docker/daemon.json",
    .plan = make_plan,
    .undo = undo,
    .spec_dirs = spec_dirs,
};
