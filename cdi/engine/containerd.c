/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd's CRI plug-in knows CDI since 1.7, where enable_cdi turns it on, and has it on since
 * 2.0. Its configuration is config.toml and the files that this imports, and of all the sections
 * for one plug-in containerd takes the last one, with nothing of the others. So a setting in the
 * wrong file does nothing, or turns off what another file has set: the files are read as
 * containerd reads them, and the user is told what to add to which. None is changed.
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cdi/engine/engine.h"
#include "cdi/engine/specs.h"
#include "cdi/file.h"
#include "cdi/engine/toml.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#define SPECS_DIR "/etc/cdi"
#define FILES_MAX 32
#define LOOKS_MAX 20000u /* at entries of folders that a pattern was compared with */

/* What the CRI plug-in's section is called in each format of the file. */
static const char *const cri_names[] = {"cri", "io.containerd.grpc.v1.cri",
                                        "io.containerd.cri.v1.runtime"};

/* What is known of the files read so far. */
struct reader {
    const struct cdi_engine_where *where;
    struct cdi_strings files; /* in containerd's order */
    int format;               /* of config.toml */
    char *disabled;           /* a file that turns the CRI plug-in off, or NULL */
    /* The last file with the plug-in's section, which counts. */
    char *path;
    struct json_object *section;
    const char *cri;
};

static void reader_fini(struct reader *r)
{
    cdi_strings_fini(&r->files);
    free(r->disabled);
    free(r->path);
    json_object_put(r->section);
}
#define cleanup_reader __attribute__((cleanup(reader_fini)))

/* Adds the list of that name; none where it is not there. */
static int read_list(struct json_object *table, const char *key, struct cdi_strings *list,
                     struct apir_error *err)
{
    struct json_object *value = NULL;

    if (!json_object_object_get_ex(table, key, &value))
        return 0;
    int rc = cdi_toml_strings(value, list, NULL);
    return rc < 0 ? apir_error_set(err, -rc, "%s is no list of strings", key) : 0;
}

static int read_disabled(struct reader *r, const char *path, struct json_object *top,
                         struct apir_error *err)
{
    cleanup_strings struct cdi_strings list = {0};
    int rc = read_list(top, "disabled_plugins", &list, err);

    for (size_t i = 0; rc == 0 && i < sizeof(cri_names) / sizeof(cri_names[0]); i++)
        if (!r->disabled && cdi_strings_have(&list, cri_names[i])) {
            r->disabled = strdup(path);
            rc = r->disabled ? 0 : apir_error_sys(err, ENOMEM, "config.toml");
        }
    return rc;
}

/* Whether anything is in there but comments. */
static bool is_empty(const char *text)
{
    text += strspn(text, " \t\r\n");
    while (*text == '#') {
        text += strcspn(text, "\n");
        text += strspn(text, " \t\r\n");
    }
    return *text == '\0';
}

/* The file's format: what it says, else config.toml's, else 1; 2 where there is nothing in it. */
static int read_format(struct reader *r, const char *text, struct json_object *top)
{
    struct json_object *version = apir_json_member(top, "version", json_type_int);
    int format = version          ? json_object_get_int(version)
                 : r->format > 0  ? r->format
                 : is_empty(text) ? 2
                                  : 1;

    r->format = r->format > 0 ? r->format : format;
    return format;
}

/* glob's way to folders, which ends: patterns of a few bytes lead everywhere many times. */
static size_t looks;

static struct dirent *read_entry(void *dir)
{
    return looks++ < LOOKS_MAX ? readdir(dir) : NULL;
}

static void *open_folder(const char *path)
{
    return opendir(path);
}

static void close_folder(void *dir)
{
    closedir(dir);
}

/* Adds the files that a pattern of `path` leads to; a relative one is beside that file. */
static int add_imports(struct reader *r, const char *path, const char *pattern,
                       struct apir_error *err)
{
    cleanup_free char *full = NULL;
    glob_t found = {
        .gl_opendir = open_folder,
        .gl_readdir = read_entry,
        .gl_closedir = close_folder,
        .gl_stat = stat,
        .gl_lstat = lstat,
    };
    int n = pattern[0] == '/'
                ? asprintf(&full, "%s%s", r->where->root, pattern)
                : asprintf(&full, "%.*s/%s", (int)(strrchr(path, '/') - path), path, pattern);
    int rc = 0;

    if (n < 0) {
        full = NULL;
        return apir_error_sys(err, ENOMEM, "config.toml");
    }
    if (glob(full, GLOB_ALTDIRFUNC, NULL, &found) == 0)
        for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
            if (!cdi_strings_have(&r->files, found.gl_pathv[i]))
                rc = cdi_strings_add(&r->files, found.gl_pathv[i]);
    globfree(&found);
    if (looks > LOOKS_MAX)
        return apir_error_set(err, E2BIG, "imports lead to more files than are looked at");
    return rc < 0 ? apir_error_sys(err, -rc, "imports") : 0;
}

static int read_file(struct reader *r, const char *path, struct apir_error *err)
{
    cleanup_free char *text = NULL;
    cleanup_json struct json_object *top = NULL;
    cleanup_strings struct cdi_strings imports = {0};
    int rc = cdi_file_load(path, &text, err);

    if (rc < 0 || !text)
        return rc;
    rc = cdi_toml_parse(text, &top, err);
    if (rc == 0)
        rc = read_disabled(r, path, top, err);
    if (rc == 0)
        rc = read_list(top, "imports", &imports, err);
    for (size_t i = 0; rc == 0 && i < imports.n; i++)
        rc = add_imports(r, path, imports.items[i], err);
    if (rc < 0) {
        apir_error_wrap(err, "%s", path);
        return rc;
    }
    int format = read_format(r, text, top);
    const char *cri = cri_names[format >= 3 ? 2 : format == 2 ? 1 : 0];
    struct json_object *section = apir_json_object(apir_json_object(top, "plugins"), cri);
    if (!section)
        return 0;
    free(r->path);
    json_object_put(r->section);
    r->section = json_object_get(section);
    r->cri = cri;
    r->path = strdup(path);
    return r->path ? 0 : apir_error_sys(err, ENOMEM, "%s", path);
}

/* The list with our folder in it, as TOML; NULL where nothing is missing. */
static int complete_dirs(const struct reader *r, char **ret_value, struct apir_error *err)
{
    cleanup_strings struct cdi_strings list = {0};
    size_t size = 0;
    int rc = read_list(r->section, "cdi_spec_dirs", &list, err);

    *ret_value = NULL;
    if (rc < 0 || !json_object_object_get_ex(r->section, "cdi_spec_dirs", NULL))
        return rc;
    if (cdi_strings_have(&list, SPECS_DIR))
        return 0;
    FILE *out = open_memstream(ret_value, &size);
    if (!out)
        return apir_error_sys(err, ENOMEM, "config.toml");
    fputs("[\"" SPECS_DIR "\"", out);
    for (size_t i = 0; i < list.n; i++) {
        fputs(", ", out);
        cdi_toml_put_string(out, list.items[i]);
    }
    fputs("]", out);
    return fclose(out) == 0 ? 0 : apir_error_sys(err, ENOMEM, "config.toml");
}

static int read_enable(const struct reader *r, bool *on, bool *ret_said, struct apir_error *err)
{
    struct json_object *enable = NULL;

    *ret_said = json_object_object_get_ex(r->section, "enable_cdi", &enable);
    if (!*ret_said)
        return 0;
    if (!json_object_is_type(enable, json_type_boolean))
        return apir_error_set(err, EBADMSG, "enable_cdi is neither true nor false");
    *on = json_object_get_boolean(enable);
    return 0;
}

static int make_lines(const struct reader *r, bool is_new, bool turn_on, const char *dirs,
                      char **ret_lines, struct apir_error *err)
{
    const char *cri = r->cri ? r->cri : cri_names[r->format >= 3 ? 2 : r->format == 2];
    size_t size = 0;
    FILE *out = open_memstream(ret_lines, &size);

    if (!out)
        return apir_error_sys(err, ENOMEM, "config.toml");
    if (is_new)
        fputs("version = 2\n\n", out);
    fprintf(out, strchr(cri, '.') ? "[plugins.\"%s\"]\n" : "[plugins.%s]\n", cri);
    if (turn_on)
        fputs("  enable_cdi = true\n", out);
    if (dirs)
        fprintf(out, "  cdi_spec_dirs = %s\n", dirs);
    return fclose(out) == 0 ? 0 : apir_error_sys(err, ENOMEM, "config.toml");
}

/* Fills r and, with config.toml's text (NULL: there is none), plan->before. */
static int read_all(struct reader *r, struct cdi_engine_plan *plan, struct apir_error *err)
{
    int rc = cdi_file_load(plan->path, &plan->before, err);

    looks = 0;
    if (rc == 0 && cdi_strings_add(&r->files, plan->path) < 0)
        rc = apir_error_sys(err, ENOMEM, "config.toml");
    for (size_t i = 0; rc == 0 && i < r->files.n && i < FILES_MAX; i++)
        rc = read_file(r, r->files.items[i], err);
    return rc;
}

static int make_plan(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                     struct apir_error *err)
{
    cleanup_reader struct reader r = {.where = where};
    bool on_by_itself = cdi_version_at_least(where->version, 2, 0), on = on_by_itself, said = false;
    cleanup_free char *dirs = NULL;
    int major = where->version.major, minor = where->version.minor;
    int rc = read_all(&r, plan, err);

    if (rc < 0)
        return rc;
    if (r.disabled) {
        snprintf(plan->note, sizeof(plan->note),
                 "containerd %d.%d: disabled_plugins of %.300s turns the CRI plug-in off, which "
                 "alone has "
                 "the setting%s; there is nothing to set",
                 major, minor, r.disabled, on_by_itself ? "; ctr takes CDI devices by itself" : "");
        return 0;
    }
    if (r.path) {
        rc = read_enable(&r, &on, &said, err);
        if (rc == 0)
            rc = complete_dirs(&r, &dirs, err);
        if (rc < 0) {
            apir_error_wrap(err, "%s", r.path);
            return rc;
        }
    }
    if (on && !dirs) {
        snprintf(plan->note, sizeof(plan->note),
                 "containerd %d.%d: CDI is on%s%.300s%s; there is nothing to set", major, minor,
                 said ? ", " : " by itself", said ? r.path : "", said ? " says so" : "");
        return 0;
    }
    bool is_new = !plan->before || is_empty(plan->before);
    if (r.format == 0)
        r.format = 2;
    rc = make_lines(&r, is_new && !r.path, !on, dirs, &plan->lines, err);
    if (rc == 0 && r.path)
        snprintf(plan->path, sizeof(plan->path), "%s", r.path);
    snprintf(plan->note, sizeof(plan->note), "containerd %d.%d: %s%s%s%s", major, minor,
             on     ? ""
             : said ? "enable_cdi turns CDI off"
                    : "CDI is off until enable_cdi is true",
             !on && dirs ? ", and " : "", dirs ? "cdi_spec_dirs leaves " SPECS_DIR " out" : "",
             r.path ? "; the section is there, put the lines in the place of those that "
                      "are there"
                    : "");
    return rc;
}

static int spec_dirs(const struct cdi_engine_where *where, struct cdi_strings *ret_dirs,
                     struct apir_error *err)
{
    cleanup_reader struct reader r = {.where = where};
    cleanup_plan struct cdi_engine_plan plan = {0};
    int rc = cdi_engine_config_path(&cdi_engine_containerd, where, plan.path);

    if (rc == 0)
        rc = read_all(&r, &plan, err);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    rc = read_list(r.section, "cdi_spec_dirs", ret_dirs, err);
    return rc == 0 && ret_dirs->n == 0 ? cdi_specs_add_usual(ret_dirs) : rc;
}

const struct engine_ops cdi_engine_containerd = {
    .name = "containerd",
    .title = "containerd",
    .programs = {"containerd"},
    .first = {1, 7, 0},
    .older = "",
    .is_service = true,
    .system_path = "/etc/containerd/config.toml",
    .user_path = "/containerd/config.toml",
    .plan = make_plan,
    .spec_dirs = spec_dirs,
};
