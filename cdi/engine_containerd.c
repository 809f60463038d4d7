/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd's CRI plug-in knows CDI since 1.7, where enable_cdi turns it on, and has it on
 * since 2.0. A file that config.toml imports would be the gentler place for the setting, but
 * 1.7 takes a plug-in's section from there instead of the one in config.toml, with all that
 * was in it: so the one line goes into config.toml itself.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/engine.h"
#include "cdi/engine_file.h"
#include "cdi/toml.h"
#include "protocol/cleanup.h"
#include "protocol/error.h"

#define SPECS_DIR "/etc/cdi"

static const char *const cri_names[] = {"io.containerd.grpc.v1.cri",
                                        "io.containerd.cri.v1.runtime"};

static int wrap(struct apir_error *err, int r, const char *path)
{
    if (r < 0)
        apir_error_wrap(err, "%s", path);
    return r;
}

/* The file's format: 1 where it does not say. */
static int read_version(const char *text, int *ret_version, struct apir_error *err)
{
    static const char *const path[] = {"version"};
    struct cdi_toml_place place;
    int r = cdi_toml_find(text, path, 1, &place, err);

    if (r == 0)
        *ret_version = place.found ? atoi(text + place.start) : 1;
    return r;
}

static int cri_disabled(const char *text, size_t *ret_line, struct apir_error *err)
{
    static const char *const path[] = {"disabled_plugins"};
    cleanup_strings struct cdi_strings list = {0};
    struct cdi_toml_place place;
    int r = cdi_toml_find(text, path, 1, &place, err);

    *ret_line = 0;
    if (r < 0 || !place.found)
        return r;
    r = cdi_toml_strings(text, &place, &list, NULL);
    if (r < 0)
        return apir_error_set(err, -r, "line %zu: disabled_plugins is no list of strings",
                              place.line);
    if (cdi_strings_have(&list, "cri") || cdi_strings_have(&list, cri_names[0]) ||
        cdi_strings_have(&list, cri_names[1]))
        *ret_line = place.line;
    return 0;
}

/* The list with our folder in it, as TOML; NULL where nothing is to be changed. */
static int complete_dirs(const char *text, const char *cri, char **ret_value,
                         struct apir_error *err)
{
    const char *const path[] = {"plugins", cri, "cdi_spec_dirs"};
    cleanup_strings struct cdi_strings list = {0};
    struct cdi_toml_place place;
    size_t size = 0;
    int r = cdi_toml_find(text, path, 3, &place, err);

    *ret_value = NULL;
    if (r < 0 || !place.found)
        return r;
    r = cdi_toml_strings(text, &place, &list, NULL);
    if (r < 0)
        return apir_error_set(err, -r, "line %zu: cdi_spec_dirs is no list of strings", place.line);
    if (cdi_strings_have(&list, SPECS_DIR))
        return 0;
    FILE *out = open_memstream(ret_value, &size);
    if (out == NULL)
        return apir_error_sys(err, ENOMEM, "config.toml");
    fputs("[\"" SPECS_DIR "\"", out);
    for (size_t i = 0; i < list.n; i++) {
        fputs(", ", out);
        cdi_toml_put_string(out, list.items[i]);
    }
    fputs("]", out);
    return fclose(out) == 0 ? 0 : apir_error_sys(err, ENOMEM, "config.toml");
}

static int plan_path(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                     struct apir_error *err)
{
    if (where->config != NULL)
        snprintf(plan->path, sizeof(plan->path), "%s", where->config);
    else if (where->system)
        snprintf(plan->path, sizeof(plan->path), "%s/etc/containerd/config.toml", where->root);
    else if (where->home != NULL)
        snprintf(plan->path, sizeof(plan->path), "%s/containerd/config.toml", where->home);
    else
        return apir_error_set(err, ENOENT, "no home folder, so no configuration of this user");
    plan->restart =
        where->system ? "systemctl restart containerd" : "systemctl --user restart containerd";
    return 0;
}

/* The text with CDI on and our folder among those read. */
static int change(const char *text, const char *cri, bool turn_on, const char *dirs,
                  char **ret_text, struct apir_error *err)
{
    const char *const enable[] = {"plugins", cri, "enable_cdi"};
    const char *const list[] = {"plugins", cri, "cdi_spec_dirs"};
    cleanup_free char *first = NULL;
    int r = 0;

    if (!turn_on)
        return cdi_toml_set(text, list, 3, dirs, ret_text, err);
    r = cdi_toml_set(text, enable, 3, "true", dirs == NULL ? ret_text : &first, err);
    if (r == 0 && dirs != NULL)
        r = cdi_toml_set(first, list, 3, dirs, ret_text, err);
    return r;
}

int cdi_containerd_plan(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                        struct apir_error *err)
{
    bool on_by_itself = cdi_version_at_least(where->version, 2, 0), on = on_by_itself;
    int format = 0, r = plan_path(where, plan, err);
    size_t disabled = 0;
    cleanup_free char *dirs = NULL;
    struct cdi_toml_place place = {0};

    if (r == 0)
        r = cdi_file_read(plan->path, &plan->before, NULL, err);
    if (r < 0)
        return r;
    const char *text = plan->before;
    /* An empty one that says its format: what it leaves out is containerd's default. */
    if (text == NULL)
        text = "version = 2\n";
    r = read_version(text, &format, err);
    if (r == 0)
        r = cri_disabled(text, &disabled, err);
    if (r < 0)
        return wrap(err, r, plan->path);
    if (disabled != 0) {
        snprintf(
            plan->note, sizeof(plan->note),
            "containerd %d.%d: line %zu of %.300s turns the CRI plug-in off, which alone has the "
            "setting%s; there is nothing to set",
            where->version.major, where->version.minor, disabled, plan->path,
            on_by_itself ? "; ctr takes CDI devices by itself" : "");
        return 0;
    }
    if (format < 2 && !on_by_itself)
        return apir_error_set(err, EBADMSG,
                              "%s has the old format (version %d); rewrite it with `containerd "
                              "config migrate` first",
                              plan->path, format);
    const char *cri = cri_names[format >= 3];
    const char *const enable[] = {"plugins", cri, "enable_cdi"};
    r = cdi_toml_find(text, enable, 3, &place, err);
    if (r == 0 && place.found && cdi_toml_bool(text, &place, &on) < 0)
        r = apir_error_set(err, EBADMSG, "line %zu: enable_cdi is neither true nor false",
                           place.line);
    if (r == 0)
        r = complete_dirs(text, cri, &dirs, err);
    if (r < 0)
        return wrap(err, r, plan->path);
    if (on && dirs == NULL) {
        snprintf(plan->note, sizeof(plan->note),
                 "containerd %d.%d: CDI is on%s; there is nothing to set", where->version.major,
                 where->version.minor, place.found ? ", config.toml says so" : " by itself");
        return 0;
    }
    r = change(text, cri, !on, dirs, &plan->after, err);
    if (r < 0)
        return wrap(err, r, plan->path);
    snprintf(plan->note, sizeof(plan->note), "containerd %d.%d: %s%s%s", where->version.major,
             where->version.minor,
             on            ? ""
             : place.found ? "enable_cdi turns CDI off"
                           : "CDI is off until enable_cdi is true",
             !on && dirs != NULL ? ", and " : "",
             dirs != NULL ? "cdi_spec_dirs leaves " SPECS_DIR " out" : "");
    return 0;
}

/* The value at path as it is written there, or NULL. */
static int value_at(const char *text, const char *const *path, char **ret_value,
                    struct apir_error *err)
{
    struct cdi_toml_place place;
    int r = cdi_toml_find(text, path, 3, &place, err);

    *ret_value = NULL;
    if (r == 0 && place.found &&
        (*ret_value = strndup(text + place.start, place.end - place.start)) == NULL)
        r = apir_error_sys(err, ENOMEM, "config.toml");
    return r;
}

static bool same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

int cdi_containerd_undo(const char *before, const char *after, struct cdi_engine_plan *plan,
                        struct apir_error *err)
{
    static const char *const keys[] = {"enable_cdi", "cdi_spec_dirs"};
    cleanup_free char *text = strdup(plan->before);
    int r = text == NULL ? apir_error_sys(err, ENOMEM, "%s", plan->path) : 0;

    for (size_t i = 0; r == 0 && i < 4; i++) {
        const char *const path[] = {"plugins", cri_names[i / 2], keys[i % 2]};
        cleanup_free char *was = NULL, *ours = NULL, *is = NULL;

        r = value_at(before == NULL ? "" : before, path, &was, err);
        if (r == 0)
            r = value_at(after, path, &ours, err);
        if (r == 0)
            r = value_at(text, path, &is, err);
        /* Only what we have set, and nobody has set anew since. */
        if (r == 0 && !same(was, ours) && same(is, ours)) {
            char *next = NULL;

            r = cdi_toml_set(text, path, 3, was, &next, err);
            if (r == 0) {
                free(text);
                text = next;
            }
        }
    }
    if (r == 0)
        plan->after = steal_pointer(&text);
    return wrap(err, r, plan->path);
}
