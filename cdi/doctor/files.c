/* SPDX-License-Identifier: Apache-2.0 */
/* apir doctor: the files that were installed, and the spec that was made from them. */
#include "cdi/doctor/check.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/doctor/engine.h"
#include "cdi/file.h"
#include "cdi/install.h"
#include "common/image/elf.h"
#include "common/json.h"
#include "common/regular.h"
#include "common/oci/cdi_rules.h"
#include "cdi/spec/spec.h"
#include "cdi/engine/podman.h"
#include "cdi/engine/specs.h"
#include "cdi/engine/toml.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

enum doctor_status doctor_check_plugin(struct doctor *d, struct doctor_outcome *o)
{
    struct stat st;

    doctor_todo(o, "Install the plug-in (make install), or name it with --plugin.");
    if (d->plugin[0] == '\0' && cdi_install_find_plugin(d->plugin, sizeof(d->plugin)) < 0)
        return doctor_say(o, DOCTOR_FAIL, "libggml-apir.so is not installed");
    if (stat(d->plugin, &st) < 0)
        return doctor_say(o, DOCTOR_FAIL, "%.300s: %s", d->plugin, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return doctor_say(o, DOCTOR_FAIL, "%.300s is no library", d->plugin);
    if ((st.st_mode & 0444) != 0444) {
        doctor_todo(o, "Containers run as other users: chmod 0755 %.300s", d->plugin);
        return doctor_say(o, DOCTOR_FAIL, "%.300s is not readable by everyone", d->plugin);
    }
    return doctor_say(o, DOCTOR_PASS, "%.300s", d->plugin);
}

/* ---- the spec -------------------------------------------------------------------- */

typedef bool visit(struct json_object *item, const void *arg);

/* Whether any item of `list` in these edits makes f true. */
static bool any_in(struct json_object *edits, const char *list, visit *f, const void *arg)
{
    struct json_object *items = apir_json_array(edits, list);

    for (size_t i = 0; i < apir_json_length(items); i++)
        if (f(json_object_array_get_idx(items, i), arg))
            return true;
    return false;
}

/* The same over the edits of all devices and the common ones. */
static bool any(struct json_object *spec, const char *list, visit *f, const void *arg)
{
    struct json_object *devices = apir_json_array(spec, "devices");

    for (size_t i = 0; i < apir_json_length(devices); i++)
        if (any_in(apir_json_object(json_object_array_get_idx(devices, i), "containerEdits"), list,
                   f, arg))
            return true;
    return any_in(apir_json_object(spec, "containerEdits"), list, f, arg);
}

static bool is_path(struct json_object *item, const void *arg)
{
    const char *path = apir_json_string(item, "path");

    return path && strcmp(path, arg) == 0;
}

static bool mounts_at(struct json_object *item, const void *arg)
{
    const char *to = apir_json_string(item, "containerPath");

    return to && strcmp(to, arg) == 0;
}

static bool mounts_plugin(struct json_object *item, const void *arg)
{
    const char *from = apir_json_string(item, "hostPath");
    char real[PATH_MAX];

    return from && mounts_at(item, CDI_PLUGIN_CONTAINER) &&
           (strcmp(from, arg) == 0 || (realpath(from, real) && strcmp(real, arg) == 0));
}

static enum doctor_status check_spec_text(struct doctor *d, struct doctor_outcome *o,
                                          struct cdi_report *report)
{
    cdi_rules_check(d->spec, report);
    if (report->n_errors == 0)
        cdi_rules_check_host(d->spec, "/", report);
    for (size_t i = 0; i < report->n_kept; i++)
        if (report->items[i].grade == CDI_GRADE_ERROR)
            return doctor_say(o, DOCTOR_FAIL, "%.200s: %s", d->spec_path, report->items[i].text);
    if (report->n > 0) {
        doctor_todo(o, "apir cdi validate %.300s", d->spec_path);
        return doctor_say(o, DOCTOR_WARN, "%.200s: %s", d->spec_path, cdi_report_first(report));
    }
    return DOCTOR_PASS;
}

/* Whether a device that the examined host is to give names one that it does not offer. */
static bool names_lost_device(struct json_object *edits, const struct doctor *d)
{
    const char *id = cdi_spec_host_id(edits);
    bool here = d->socket ? any_in(edits, "mounts", mounts_at, CDI_SOCKET_DIR)
                          : d->node && any_in(edits, "deviceNodes", is_path, d->node->path);

    if (!here || !id || *id == '\0')
        return false;
    for (uint32_t i = 0; i < d->session.n_devices; i++)
        if (strcmp(d->session.devices[i].id, id) == 0)
            return false;
    return true;
}

/* The name of a device of the spec that the host has no more; NULL: there is none. */
static const char *lost_device(const struct doctor *d)
{
    struct json_object *devices = apir_json_array(d->spec, "devices");

    for (size_t i = 0; d->session.n_devices > 0 && i < apir_json_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);

        if (names_lost_device(apir_json_object(device, "containerEdits"), d))
            return apir_json_string(device, "name");
    }
    return NULL;
}

static enum doctor_status check_spec(struct doctor *d, struct doctor_outcome *o)
{
    struct apir_error err = {0};
    cleanup_report struct cdi_report report = {0};

    doctor_todo(o, "apir cdi generate");
    if (apir_json_load(d->spec_path, CDI_SPEC_SIZE_MAX, &d->spec, &err) < 0)
        return doctor_say(o, DOCTOR_FAIL, "%s", err.msg);
    enum doctor_status status = check_spec_text(d, o, &report);
    if (status != DOCTOR_PASS)
        return status;
    if (d->node && d->node->is_virtio_gpu && !d->socket &&
        !any(d->spec, "deviceNodes", is_path, d->node->path))
        return doctor_say(o, DOCTOR_FAIL,
                          "%.200s is older than this machine's devices: it lacks %s", d->spec_path,
                          d->node->path);
    if (d->socket && strncmp(d->transport, "unix:", 5) == 0 &&
        !any(d->spec, "mounts", mounts_at, CDI_SOCKET_DIR))
        return doctor_say(o, DOCTOR_FAIL, "%.200s is older than the host side: it lacks host0",
                          d->spec_path);
    const char *lost = lost_device(d);
    if (lost)
        return doctor_say(o, DOCTOR_FAIL, "%.200s: %.100s is a device that the host has no more",
                          d->spec_path, lost);
    if (!any(d->spec, "mounts", mounts_at, CDI_PLUGIN_CONTAINER))
        return doctor_say(o, DOCTOR_FAIL, "%.200s does not mount the plug-in", d->spec_path);
    if (d->plugin[0] != '\0' && !any(d->spec, "mounts", mounts_plugin, d->plugin))
        return doctor_say(o, DOCTOR_WARN, "%.200s mounts another plug-in than %.200s", d->spec_path,
                          d->plugin);
    return doctor_say(o, DOCTOR_PASS, "%.300s", d->spec_path);
}

/* The first of each kind that this spec is part of. */
struct clashes {
    const char *path;
    char twice[450], wins[450];
    char other[PATH_MAX], winner[PATH_MAX];
};

static int note_clash(const struct cdi_specs_clash *clash, void *user)
{
    struct clashes *c = user;
    const char *other = strcmp(clash->file, c->path) == 0 ? clash->other : clash->file;

    if (clash->twice && c->twice[0] == '\0') {
        cdi_specs_say(clash, c->twice, sizeof(c->twice));
        snprintf(c->other, sizeof(c->other), "%s", other);
    } else if (!clash->twice && c->wins[0] == '\0') {
        cdi_specs_say(clash, c->wins, sizeof(c->wins));
        snprintf(c->winner, sizeof(c->winner), "%s", clash->file);
    }
    return 0;
}

/* What engines find beside it counts as well. */
enum doctor_status doctor_check_spec(struct doctor *d, struct doctor_outcome *o)
{
    cleanup_free struct clashes *c = calloc(1, sizeof(*c));
    enum doctor_status status = check_spec(d, o);

    if (!c)
        return status;
    c->path = d->spec_path;
    (void)cdi_specs_check(NULL, d->spec_path, note_clash, c);
    if (c->twice[0] != '\0') {
        doctor_todo(o, "rm %.300s, or name it so that it ends neither with .json nor .yaml",
                    c->other);
        return doctor_say(o, DOCTOR_FAIL, "%s", c->twice);
    }
    if (c->wins[0] != '\0') {
        /* What `apir cdi generate` writes is not what engines take. */
        cdi_specs_own_path(c->other, sizeof(c->other));
        if (status != DOCTOR_FAIL)
            doctor_todo(o, "rm %.300s, unless it is the one that is meant", c->winner);
        else if (strcmp(c->winner, c->other) != 0)
            doctor_todo(o, "rm %.300s, then apir cdi generate", c->winner);
        if (status == DOCTOR_FAIL)
            snprintf(o->text + strlen(o->text), sizeof(o->text) - strlen(o->text), "; %s", c->wins);
        else
            status = doctor_say(o, DOCTOR_WARN, "%s", c->wins);
    }
    return status;
}

/* ---- the hook ---------------------------------------------------------------------- */

#define HOOK_HEADERS_MAX (1u << 20) /* bytes that are read of it */

/* Whether a runtime can start it; the text says what is wrong. */
static bool hook_runs(const char *path, struct doctor_outcome *o)
{
    if (access(path, X_OK) < 0) {
        doctor_say(o, DOCTOR_FAIL, "%.300s: %s", path, strerror(errno));
        return false;
    }
    cleanup_fd int fd = apir_regular_open(AT_FDCWD, path, 0);
    struct image_budget budget = {.bytes = HOOK_HEADERS_MAX};
    struct image_elf elf;
    int rc = fd < 0 ? fd : image_elf_open(fd, &budget, &elf);
    /* Executable and not readable is unusual and no fault. */
    if (rc == -EACCES || (rc == 0 && elf.wide && elf.interp[0] == '\0'))
        return true;
    doctor_say(o, DOCTOR_FAIL,
               rc == 0 && elf.wide ? "%.300s wants shared libraries, which a container's root "
                                     "may lack or replace"
                                   : "%.300s is no program",
               path);
    return false;
}

enum doctor_status doctor_check_hook(struct doctor *d, struct doctor_outcome *o)
{
    struct json_object *edits = apir_json_object(d->spec, "containerEdits");
    struct json_object *hooks = apir_json_array(edits, "hooks");
    char installed[PATH_MAX], real[PATH_MAX];
    const char *path = NULL;

    if (apir_json_length(hooks) > 0)
        path = apir_json_string(json_object_array_get_idx(hooks, 0), "path");
    if (!path)
        return doctor_say(o, DOCTOR_SKIP, "the spec has no hook (--no-hook)");
    doctor_todo(o, "Every container with the device fails to start without it: make install, then "
                   "apir cdi generate.");
    if (!hook_runs(path, o))
        return DOCTOR_FAIL;
    if (cdi_install_find_hook(installed, sizeof(installed)) == 0 && realpath(path, real) &&
        strcmp(real, installed) != 0) {
        doctor_todo(o, "apir cdi generate");
        return doctor_say(o, DOCTOR_WARN, "the spec names %.200s, installed is %.200s", path,
                          installed);
    }
    return doctor_say(o, DOCTOR_PASS, "%.300s, static", path);
}

/* The program that a hooks.d file names, if it is ours; "" if not. -errno: it cannot be read. */
static int hooks_d_program(const char *file, char *path, size_t size, struct apir_error *err)
{
    cleanup_json struct json_object *top = NULL;

    path[0] = '\0';
    int rc = apir_json_load(file, CDI_SPEC_SIZE_MAX, &top, err);
    if (rc < 0)
        return rc;
    const char *program = apir_json_string(apir_json_object(top, "hook"), "path");
    const char *name = program ? strrchr(program, '/') : NULL;
    if (name && strcmp(name, "/apir-hook") == 0)
        snprintf(path, size, "%s", program);
    return 0;
}

struct hooks_look {
    struct doctor_outcome *o;
    char ours[PATH_MAX]; /* the last file that names our hook, or "" */
};

/* Non-zero where the file breaks podman. */
static int check_hooks_file(const char *file, void *user)
{
    struct hooks_look *look = user;
    struct apir_error err = {0};
    char program[PATH_MAX];
    bool ok = true;

    if (hooks_d_program(file, program, sizeof(program), &err) < 0) {
        /* Somebody else's is theirs to repair, though podman stumbles over it too. */
        ok = !strstr(strrchr(file, '/'), "apir");
        if (!ok)
            doctor_say(look->o, DOCTOR_FAIL, "%s", err.msg);
    } else if (program[0] != '\0') {
        snprintf(look->ours, sizeof(look->ours), "%s", file);
        ok = hook_runs(program, look->o);
    }
    if (!ok)
        doctor_todo(look->o,
                    "podman starts no container while %.300s names it: make install, or remove "
                    "that file.",
                    file);
    return !ok;
}

enum doctor_status doctor_check_hooks_d(struct doctor *d, struct doctor_outcome *o)
{
    const struct cdi_engine_where where = doctor_engine_where(d, &cdi_engine_podman);
    cleanup_strings struct cdi_strings dirs = {0};
    struct apir_error err = {0};
    struct hooks_look look = {.o = o};
    const char *file = look.ours;

    if (!d->engines[cdi_engine_index(&cdi_engine_podman)].found)
        return doctor_say(o, DOCTOR_SKIP, "only podman reads hooks.d, and it is not here");
    if (cdi_podman_dirs(&where, NULL, &dirs, NULL, &err) < 0) {
        doctor_todo(o, "Repair it: podman does not start with it either.");
        return doctor_say(o, DOCTOR_FAIL, "%s", err.msg);
    }
    for (size_t i = 0; i < dirs.n; i++) {
        cleanup_free char *dir = apir_text_format("%s%s", d->root, dirs.items[i]);

        if (dir && cdi_file_each(dir, ".json", check_hooks_file, &look) > 0)
            return DOCTOR_FAIL;
    }
    size_t n = strlen(d->hooks_dir);
    if (!cdi_podman_has_safe_annotations(where.version)) {
        if (file[0] == '\0')
            return doctor_say(o, DOCTOR_SKIP,
                              "not for this podman: the annotation apir.device "
                              "wants podman 4.5.1");
        doctor_todo(o,
                    "Update podman to 4.5.1; or take that file out of the folders it reads: apir "
                    "engine configure podman. CDI devices work without it.");
        return doctor_say(o, DOCTOR_WARN,
                          "%.300s lets any image ask for a device: before 4.5.1 podman takes an "
                          "image's annotations for the container's",
                          file);
    }
    if (file[0] != '\0' && n > 0 && strncmp(file, d->hooks_dir, n) == 0)
        return doctor_say(o, DOCTOR_PASS, "%.300s: the annotation apir.device works", file);
    /* createRuntime, which cannot change the device rules that root's containers have. */
    if (file[0] != '\0')
        return doctor_say(o, DOCTOR_PASS,
                          "%.300s: the annotation apir.device works rootless; for root's "
                          "containers too after: apir engine configure podman",
                          file);
    if (n > 0) {
        doctor_todo(o, "apir engine configure podman");
        return doctor_say(o, DOCTOR_WARN,
                          "podman does not read %.300s, so the annotation apir.device does nothing",
                          d->hooks_dir);
    }
    return doctor_say(o, DOCTOR_SKIP, "not installed; only the annotation apir.device needs it");
}
