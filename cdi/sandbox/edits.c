/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/sandbox/edits.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/engine/specs.h"
#include "cdi/folder.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/given.h"
#include "common/json.h"
#include "common/text.h"

/* Characters that end a line, or that a terminal obeys, are in none of the formats. */
static int check_text(const char *text, struct apir_error *err)
{
    cleanup_free char *clean = strdup(text);

    if (!clean)
        return apir_error_sys(err, ENOMEM, "CDI spec");
    apir_text_clean(clean);
    const size_t length = strlen(text);
    if (strcmp(clean, text) != 0 || (length > 0 && text[length - 1] == ' '))
        return apir_error_set(err, EINVAL,
                              "the spec has \"%.200s\", with a character that no format takes; "
                              "write a spec without it (`apir cdi generate`)",
                              clean);
    return 0;
}

static int too_many(const char *what, struct apir_error *err)
{
    return apir_error_set(err, E2BIG, "more than %d %s; name fewer devices", SANDBOX_LIST_MAX,
                          what);
}

static int add_place(struct sandbox_place *list, size_t *n, const char *from, const char *to,
                     bool check, struct apir_error *err)
{
    struct stat st = {0};

    int rc = check ? check_text(from, err) : 0;
    if (rc == 0 && check)
        rc = check_text(to, err);
    if (rc < 0)
        return rc;
    if (*n == SANDBOX_LIST_MAX)
        return too_many("files", err);
    if (check && stat(from, &st) < 0)
        return apir_error_set(err, errno,
                              "the spec names %.200s, which is not here (%s); write it anew: "
                              "apir cdi generate",
                              from, strerror(errno));
    list[(*n)++] = (struct sandbox_place){
        .from = from, .to = to, .rdev = st.st_rdev, .mode = st.st_mode, .gid = st.st_gid};
    return 0;
}

static bool is_read_only(struct json_object *mount)
{
    struct json_object *options = apir_json_array(mount, "options");

    for (size_t i = 0; i < apir_json_length(options); i++) {
        const char *option = apir_json_string_at(options, i);
        if (option && strcmp(option, "ro") == 0)
            return true;
    }
    return false;
}

static int add_edits(struct sandbox_edits *e, struct json_object *edits, bool check,
                     struct apir_error *err)
{
    struct json_object *env = apir_json_array(edits, "env");
    struct json_object *nodes = apir_json_array(edits, "deviceNodes");
    struct json_object *mounts = apir_json_array(edits, "mounts");
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < apir_json_length(env); i++) {
        const char *variable = apir_json_string_at(env, i);
        if (e->n_env == SANDBOX_LIST_MAX)
            return too_many("variables", err);
        e->env[e->n_env++] = variable;
        rc = check ? check_text(variable, err) : 0;
    }
    for (size_t i = 0; rc == 0 && i < apir_json_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        const char *path = apir_json_string(node, "path");
        const char *from = apir_json_string(node, "hostPath");
        rc = add_place(e->nodes, &e->n_nodes, from ? from : path, path, check, err);
    }
    for (size_t i = 0; rc == 0 && i < apir_json_length(mounts); i++) {
        struct json_object *mount = json_object_array_get_idx(mounts, i);
        rc = add_place(e->mounts, &e->n_mounts, apir_json_string(mount, "hostPath"),
                       apir_json_string(mount, "containerPath"), check, err);
        if (rc == 0)
            e->mounts[e->n_mounts - 1].read_only = is_read_only(mount);
    }
    return rc;
}

static int add_names(struct sandbox_edits *e, const char *names, struct apir_error *err)
{
    cleanup_free char *list = strdup(names);
    const char *kind = apir_json_string(e->spec, "kind");
    char *save = NULL;

    if (!list)
        return apir_error_sys(err, ENOMEM, "devices");
    for (char *name = strtok_r(list, ", ", &save); name; name = strtok_r(NULL, ", ", &save)) {
        if (e->n_names == SANDBOX_LIST_MAX)
            return too_many("names", err);
        char *full = strchr(name, '=') ? strdup(name) : apir_text_format("%s=%s", kind, name);
        if (!full)
            return apir_error_sys(err, ENOMEM, "devices");
        e->names[e->n_names++] = full;
    }
    return 0;
}

static int find_socket(struct sandbox_edits *e, struct apir_error *err)
{
    for (size_t i = 0; i < e->n_env; i++) {
        if (strncmp(e->env[i], "APIR_TRANSPORT=unix:", 20) != 0)
            continue;
        free(e->socket);
        if (sandbox_outside(e->edits, e->n_edits, e->env[i] + 20, &e->socket) < 0)
            return apir_error_sys(err, ENOMEM, "CDI spec");
    }
    return 0;
}

int sandbox_edits_read(const char *path, const char *names, bool check, struct sandbox_edits *ret,
                       struct apir_error *err)
{
    *ret = (struct sandbox_edits){0};
    if (path)
        snprintf(ret->path, sizeof(ret->path), "%s", path);
    else
        cdi_specs_find(ret->path, sizeof(ret->path));
    int rc = geteuid() == 0 ? cdi_folder_check(ret->path, 0002, err) : 0;
    if (rc == 0 || rc == -ENOENT)
        rc = cdi_devices_load(ret->path, &ret->spec, err);
    if (rc < 0)
        return rc;
    if (!names)
        names = apir_json_string(
            json_object_array_get_idx(apir_json_array(ret->spec, "devices"), 0), "name");
    if (!names)
        return apir_error_set(err, ENODEV, "%s has no device; write it anew: apir cdi generate",
                              ret->path);
    int n = cdi_devices_select(ret->spec, names, ret->edits, err);
    if (n < 0)
        return apir_error_wrap(err, n, "`apir cdi list` names the devices");
    ret->n_edits = n;
    rc = add_names(ret, names, err);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = add_edits(ret, ret->edits[i], check, err);
    return rc < 0 ? rc : find_socket(ret, err);
}

int sandbox_edits_pin(struct sandbox_edits *e, struct apir_error *err)
{
    bool named = e->n_nodes == 0;

    for (size_t i = 0; i < e->n_env; i++)
        named = named || strncmp(e->env[i], "APIR_TRANSPORT=", 15) == 0;
    if (named)
        return 0;
    if (e->n_env == SANDBOX_LIST_MAX)
        return too_many("variables", err);
    e->transport = apir_text_format("APIR_TRANSPORT=virtgpu:%s", e->nodes[0].from);
    if (!e->transport)
        return apir_error_sys(err, ENOMEM, "CDI spec");
    e->env[e->n_env++] = e->transport;
    return 0;
}

void sandbox_edits_forget_given(struct sandbox_edits *edits)
{
    static const char folder[] = APIR_GIVEN_FOLDER "/";
    size_t n = 0;

    for (size_t i = 0; i < edits->n_mounts; i++)
        if (strncmp(edits->mounts[i].to, folder, strlen(folder)) != 0)
            edits->mounts[n++] = edits->mounts[i];
    edits->n_mounts = n;
}

void sandbox_edits_fini(struct sandbox_edits *e)
{
    for (size_t i = 0; i < e->n_names; i++)
        free(e->names[i]);
    free(e->transport);
    free(e->socket);
    apir_json_put(&e->spec);
}

int sandbox_outside(struct json_object *const *edits, int n, const char *value, char **ret_text)
{
    const char *path = strchr(value, '/');

    for (int i = 0; path && i < n; i++) {
        struct json_object *mounts = apir_json_array(edits[i], "mounts");
        for (size_t k = 0; k < apir_json_length(mounts); k++) {
            struct json_object *mount = json_object_array_get_idx(mounts, k);
            const char *from = apir_json_string(mount, "hostPath");
            const char *to = apir_json_string(mount, "containerPath");
            const size_t length = to ? strlen(to) : 0;
            if (!from || !to || strncmp(path, to, length) != 0 ||
                (path[length] != '\0' && path[length] != '/'))
                continue;
            *ret_text =
                apir_text_format("%.*s%s%s", (int)(path - value), value, from, path + length);
            return *ret_text ? 1 : -ENOMEM;
        }
    }
    *ret_text = strdup(value);
    return *ret_text ? 0 : -ENOMEM;
}
