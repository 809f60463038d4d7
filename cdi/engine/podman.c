/* SPDX-License-Identifier: Apache-2.0 */
/*
 * podman takes CDI by itself since 4.1. What may be missing is that it reads the folder of
 * our hooks.d file with the precreate stage (by default it reads
 * /usr/share/containers/oci/hooks.d alone, rootless too), or a folder of specs: /etc/cdi, and the
 * user's own where that has ours. They are added by a drop-in file that is ours entirely. The
 * hooks.d file stays out of the default folder: `podman build` and CRI-O read that one as well, and
 * match annotations there that are not the operator's.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cdi/file.h"
#include "cdi/engine/podman.h"
#include "cdi/engine/specs.h"
#include "cdi/engine/toml.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

#define MARK "# Written by `apir engine configure podman`; `apir engine reset podman` removes it.\n"

#define HOOKS_DEFAULT "/usr/share/containers/oci/hooks.d"

struct reader {
    const char *except;
    struct cdi_strings *hooks, *specs;
    struct apir_error *err;
};

/* Replaces the list, or adds to it where the file says {append = true}. */
static int take_list(struct reader *r, const char *path, const char *text, const char *name,
                     struct cdi_strings *list)
{
    cleanup_strings struct cdi_strings found = {0};
    bool append = false;

    if (!list)
        return 0;
    int rc = cdi_toml_list(text, name, &found, &append, r->err);
    if (rc > 0 && !append)
        cdi_strings_fini(list);
    for (size_t i = 0; i < found.n && rc > 0; i++)
        if (cdi_strings_add(list, found.items[i]) < 0)
            rc = apir_error_set(r->err, ENOSPC, "%s: more folders than are looked at", name);
    return rc < 0 ? apir_error_wrap(r->err, rc, "%s", path) : 0;
}

static int read_conf(const char *path, void *user)
{
    struct reader *r = user;
    cleanup_free char *text = NULL;

    if (r->except && strcmp(path, r->except) == 0)
        return 0;
    int rc = cdi_file_load(path, &text, r->err);
    if (rc < 0 || !text)
        return rc;
    rc = take_list(r, path, text, "engine.hooks_dir", r->hooks);
    return rc < 0 ? rc : take_list(r, path, text, "engine.cdi_spec_dirs", r->specs);
}

static int read_conf_dir(const char *dir, void *user)
{
    int rc = cdi_file_each(dir, ".conf", read_conf, user);

    return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
}

__attribute__((format(printf, 3, 4))) static int
read_at(struct reader *r, int (*read)(const char *, void *), const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    cleanup_free char *path = apir_text_vformat(fmt, ap);
    va_end(ap);
    return path ? read(path, r) : apir_error_sys(r->err, ENOMEM, "containers.conf");
}

int cdi_podman_dirs(const struct cdi_engine_where *where, const char *except,
                    struct cdi_strings *ret_hooks, struct cdi_strings *ret_specs,
                    struct apir_error *err)
{
    struct reader r = {except, ret_hooks, ret_specs, err};
    const char *root = where->root;
    int rc = 0;

    if (ret_hooks)
        rc = cdi_strings_add(ret_hooks, HOOKS_DEFAULT);
    if (ret_specs && rc == 0)
        rc = cdi_strings_add(ret_specs, CDI_SPECS_DIR);
    /* 5.5 made the folders a setting, and forgot the second one for a while. */
    if (ret_specs && rc == 0 && (where->version.major != 5 || where->version.minor != 5))
        rc = cdi_strings_add(ret_specs, "/var/run/cdi");
    if (rc < 0)
        return apir_error_sys(err, -rc, "containers.conf");
    rc = read_at(&r, read_conf, "%s/usr/share/containers/containers.conf", root);
    if (rc == 0)
        rc = read_at(&r, read_conf, "%s/etc/containers/containers.conf", root);
    if (rc == 0)
        rc = read_at(&r, read_conf_dir, "%s/etc/containers/containers.conf.d", root);
    if (rc < 0 || where->system)
        return rc;
    rc = read_at(&r, read_conf, "%s/etc/containers/containers.rootless.conf", root);
    if (rc == 0)
        rc = read_at(&r, read_conf_dir, "%s/etc/containers/containers.rootless.d", root);
    if (rc == 0)
        rc = read_at(&r, read_conf_dir, "%s/etc/containers/containers.rootless.d/%u", root,
                     where->uid);
    if (rc == 0 && where->home)
        rc = read_at(&r, read_conf, "%s/containers/containers.conf", where->home);
    if (rc == 0 && where->home)
        rc = read_at(&r, read_conf_dir, "%s/containers/containers.conf.d", where->home);
    return rc;
}

/* `append` came with 4.8; what does not know it gets the whole list. */
static void put_list(FILE *out, const char *key, const struct cdi_strings *have,
                     const struct cdi_strings *add, bool append)
{
    const char *comma = "";

    if (add->n == 0)
        return;
    fprintf(out, "%s = [", key);
    for (size_t i = 0; i < have->n + add->n; i++) {
        if (append && i < have->n)
            continue;
        fputs(comma, out);
        cdi_toml_put_string(out, i < have->n ? have->items[i] : add->items[i - have->n]);
        comma = ", ";
    }
    fputs(append ? ", {append = true}]\n" : "]\n", out);
}

/* The folders that podman reads, and those that it is to read besides. */
struct wants {
    struct cdi_strings hooks, specs, add_hooks, add_specs;
};

static void wants_fini(struct wants *w)
{
    cdi_strings_fini(&w->hooks);
    cdi_strings_fini(&w->specs);
    cdi_strings_fini(&w->add_hooks);
    cdi_strings_fini(&w->add_specs);
}
#define cleanup_wants __attribute__((cleanup(wants_fini)))

static int want_spec_dirs(const struct cdi_engine_where *where, struct wants *w)
{
    char file[PATH_MAX];
    int rc = 0;

    /* Before 5.5 the folders of specs are no setting. */
    if (!cdi_version_at_least(where->version, 5, 5))
        return 0;
    if (!cdi_strings_have(&w->specs, CDI_SPECS_DIR))
        rc = cdi_strings_add(&w->add_specs, CDI_SPECS_DIR);
    /* What `apir cdi generate` writes for this user. */
    if (rc < 0 || where->system || !where->home)
        return rc;
    snprintf(file, sizeof(file), "%s/cdi/apir.json", where->home);
    if (access(file, F_OK) < 0)
        return 0;
    *strrchr(file, '/') = '\0';
    return cdi_strings_have(&w->specs, file) ? 0 : cdi_strings_add(&w->add_specs, file);
}

static int find_wants(const struct cdi_engine_where *where, const char *except, bool safe,
                      struct wants *w, struct apir_error *err)
{
    int rc = cdi_podman_dirs(where, except, &w->hooks, &w->specs, err);

    if (rc < 0)
        return rc;
    if (safe && where->hooks_dir && !cdi_strings_have(&w->hooks, where->hooks_dir))
        rc = cdi_strings_add(&w->add_hooks, where->hooks_dir);
    if (rc == 0)
        rc = want_spec_dirs(where, w);
    return rc < 0 ? apir_error_sys(err, -rc, "containers.conf") : 0;
}

static int make_text(const struct cdi_engine_where *where, const struct wants *w, char **ret_text,
                     struct apir_error *err)
{
    size_t size = 0;
    bool append = cdi_version_at_least(where->version, 4, 8);
    FILE *out = open_memstream(ret_text, &size);

    if (!out)
        return apir_error_sys(err, ENOMEM, "containers.conf");
    fputs(MARK "[engine]\n", out);
    put_list(out, "hooks_dir", &w->hooks, &w->add_hooks, append);
    put_list(out, "cdi_spec_dirs", &w->specs, &w->add_specs, append);
    return fclose(out) == 0 ? 0 : apir_error_sys(err, ENOMEM, "containers.conf");
}

static int make_plan(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                     struct apir_error *err)
{
    cleanup_wants struct wants w = {0};

    int rc = cdi_file_read(plan->path, &plan->before, NULL, err);
    if (rc < 0)
        return rc;
    if (plan->before && strncmp(plan->before, MARK, strlen(MARK)) != 0)
        return apir_error_set(err, EEXIST, "%s is there and not ours", plan->path);
    bool safe = cdi_podman_has_safe_annotations(where->version);
    rc = find_wants(where, plan->path, safe, &w, err);
    if (rc < 0)
        return rc;
    if (w.add_hooks.n == 0 && w.add_specs.n == 0) {
        plan->remove = plan->before;
        snprintf(
            plan->note, sizeof(plan->note), "podman %d.%d.%d %s", where->version.major,
            where->version.minor, where->version.patch,
            !safe && where->hooks_dir
                ? "takes CDI devices by itself (--device virtgpu/apir=gpu0); the annotation "
                  "apir.device is not set up, since before 4.5.1 any image can bring it along: "
                  "update podman to use it"
            : plan->remove ? "no longer needs what is set in this file"
                           : "takes CDI devices by itself; there is nothing to set");
        return 0;
    }
    rc = make_text(where, &w, &plan->after, err);
    if (rc < 0)
        return rc;
    if (plan->before && strcmp(plan->before, plan->after) == 0) {
        free(plan->after);
        plan->after = NULL;
        snprintf(plan->note, sizeof(plan->note), "%.500s is as it should be", plan->path);
        return 0;
    }
    size_t used = (size_t)snprintf(plan->note, sizeof(plan->note), "podman is to read %.200s",
                                   w.add_hooks.n > 0 ? w.add_hooks.items[0] : w.add_specs.items[0]);
    for (size_t i = w.add_hooks.n > 0 ? 0 : 1; i < w.add_specs.n; i++)
        used += (size_t)snprintf(plan->note + used, sizeof(plan->note) - used, " and %.150s",
                                 w.add_specs.items[i]);
    snprintf(plan->note + used, sizeof(plan->note) - used, " too");
    return 0;
}

static int spec_dirs(const struct cdi_engine_where *where, struct cdi_strings *ret_dirs,
                     struct apir_error *err)
{
    return cdi_podman_dirs(where, NULL, NULL, ret_dirs, err);
}

const struct engine_ops cdi_engine_podman = {
    .name = "podman",
    .title = "podman",
    .programs = {"podman"},
    .first = {4, 1, 0},
    .older = "",
    .system_path = "/etc/containers/containers.conf.d/50-apir.conf",
    .user_path = "/containers/containers.conf.d/50-apir.conf",
    .plan = make_plan,
    .mark = MARK,
    .spec_dirs = spec_dirs,
};
