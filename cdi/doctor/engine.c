/* SPDX-License-Identifier: Apache-2.0 */
/* apir doctor: the container engines, and what this machine keeps from containers. */
#include "cdi/doctor/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/doctor/access.h"
#include "cdi/file.h"
#include "cdi/program.h"
#include "cdi/spec/spec.h"
#include "cdi/engine/toml.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

/* ---- engines ----------------------------------------------------------------------- */

struct cdi_engine_where doctor_engine_where(const struct doctor *d, const struct engine_ops *engine)
{
    return (struct cdi_engine_where){
        .version = d->engines[cdi_engine_index(engine)].version,
        .root = d->root,
        .home = d->config_home[0] != '\0' ? d->config_home : NULL,
        .run = cdi_engine_run_dir(),
        .system = cdi_engine_is_system(engine, d->uid),
        .hooks_dir = d->hooks_dir[0] != '\0' ? d->hooks_dir : NULL,
        .uid = d->uid,
    };
}

/* Whether the folder of our spec is among those read; adds their names to the text. */
static bool reads_spec(const struct doctor *d, const struct engine_ops *engine,
                       const struct cdi_engine_where *where, struct doctor_outcome *o)
{
    cleanup_strings struct cdi_strings dirs = {0};
    const char *slash = strrchr(d->spec_path, '/');
    size_t used = strlen(o->text), n = slash ? (size_t)(slash - d->spec_path) : 0;
    bool found = false;

    if (engine->spec_dirs(where, &dirs, NULL) < 0)
        return false;
    for (size_t i = 0; i < dirs.n && used < sizeof(o->text); i++) {
        const char *dir = dirs.items[i];
        int m =
            snprintf(o->text + used, sizeof(o->text) - used, "%s%s", i == 0 ? " from " : ", ", dir);

        used += m > 0 ? (size_t)m : 0;
        found = found || (strlen(dir) == n && strncmp(dir, d->spec_path, n) == 0);
    }
    return found;
}

enum doctor_status doctor_check_engine(struct doctor *d, const struct engine_ops *engine,
                                       struct doctor_outcome *o)
{
    cleanup_plan struct cdi_engine_plan plan = {0};
    struct apir_error err = {0};
    struct doctor_engine *state = &d->engines[cdi_engine_index(engine)];
    struct cdi_version *v = &state->version;
    const char *name = engine->name;

    int rc = cdi_engine_ask(engine, v);
    if (rc == -ENOENT)
        return DOCTOR_ABSENT;
    if (rc == -EPERM) {
        doctor_todo(o, "Take that folder out of root's PATH.");
        return doctor_say(o, DOCTOR_WARN,
                          "not run: another user could put something in the place of the %s on "
                          "PATH",
                          name);
    }
    state->found = true;
    if (rc < 0) {
        doctor_todo(o, "Try: %s --version", name);
        return doctor_say(o, DOCTOR_WARN, "%s does not say its version", name);
    }
    struct cdi_engine_where where = doctor_engine_where(d, engine);
    rc = cdi_engine_plan(engine, &where, &plan, &err);
    if (rc == -EOPNOTSUPP) {
        doctor_todo(o, "Update %s%s.", name, engine->older);
        return doctor_say(o, DOCTOR_WARN, "%s", err.msg);
    }
    if (rc == -EACCES)
        return doctor_say(o, DOCTOR_SKIP, "its configuration is root's to read: %s", err.msg);
    if (rc < 0) {
        doctor_todo(o, "Repair that file; %s may not start with it either.", name);
        return doctor_say(o, DOCTOR_WARN, "%s", err.msg);
    }
    if (!engine->is_service) {
        doctor_say(o, DOCTOR_PASS, "%s %d.%d takes CDI devices", name, v->major, v->minor);
        if (!reads_spec(d, engine, &where, o)) {
            doctor_todo(
                o,
                "apir engine configure %s (for /etc/cdi, or a user's own), or write the spec to a "
                "folder it reads: apir cdi generate --output.",
                name);
            return DOCTOR_WARN;
        }
    } else if (plan.after || plan.lines) {
        doctor_todo(o, "%sapir engine configure %s", where.system && d->uid != 0 ? "As root: " : "",
                    name);
        return doctor_say(o, DOCTOR_WARN, "%s", plan.note);
    } else {
        doctor_say(o, DOCTOR_PASS, "%s", plan.note);
    }
    state->good = true;
    return DOCTOR_PASS;
}

enum doctor_status doctor_check_engines(struct doctor *d, struct doctor_outcome *o)
{
    bool found = false;

    for (size_t i = 0; i < CDI_ENGINE_COUNT; i++) {
        found = found || d->engines[i].found;
        if (d->engines[i].good)
            return doctor_say(o, DOCTOR_PASS, "%s is ready for --device", cdi_engines[i]->name);
    }
    if (!found)
        return doctor_say(o, DOCTOR_SKIP, "no container engine on PATH");
    doctor_todo(o, "See above what the one that you use needs.");
    return doctor_say(o, DOCTOR_FAIL, "no engine here takes CDI devices as it is");
}

/* ---- rootless podman ---------------------------------------------------------------- */

bool doctor_subid_has(const char *path, const char *user, unsigned uid)
{
    cleanup_free char *text = NULL;
    char number[16], *save = NULL;

    snprintf(number, sizeof(number), "%u", uid);
    if (cdi_file_load(path, &text, NULL) < 0 || !text)
        return false;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        size_t n = strcspn(line, ":");
        char *end = NULL;

        if (line[n] != ':' || !((strlen(user) == n && strncmp(line, user, n) == 0) ||
                                (strlen(number) == n && strncmp(line, number, n) == 0)))
            continue;
        /* user:first:count */
        (void)strtoul(line + n + 1, &end, 10);
        if (*end == ':' && strtoul(end + 1, NULL, 10) > 0)
            return true;
    }
    return false;
}

static bool has_ranges(const struct doctor *d)
{
    char uids[PATH_MAX], gids[PATH_MAX];

    snprintf(uids, sizeof(uids), "%s/etc/subuid", d->root);
    snprintf(gids, sizeof(gids), "%s/etc/subgid", d->root);
    return doctor_subid_has(uids, d->user, d->uid) && doctor_subid_has(gids, d->user, d->uid);
}

enum doctor_status doctor_check_rootless(struct doctor *d, struct doctor_outcome *o)
{
    const char *path = d->socket ? d->socket : d->node->full_path;
    struct stat st;
    char group[64], crun[PATH_MAX];

    if (!d->engines[cdi_engine_index(&cdi_engine_podman)].found)
        return doctor_say(o, DOCTOR_SKIP, "no podman on PATH");
    if (stat(path, &st) < 0)
        return doctor_say(o, DOCTOR_FAIL, "%s: %s", path, strerror(errno));
    unsigned mode = (unsigned)st.st_mode & 07777u;
    bool world = (mode & 0006) == 0006;
    doctor_group_name(st.st_gid, group, sizeof(group));

    if (d->uid == 0)
        return doctor_say(o, DOCTOR_PASS,
                          world ? "root needs nothing, and users need no group (mode %04o)"
                                : "root needs nothing; users must be in group %2$s and pass "
                                  "--group-add keep-groups, with crun (mode %1$04o)",
                          mode, group);
    if (!has_ranges(d)) {
        doctor_todo(o,
                    "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s, then "
                    "podman system migrate",
                    d->user);
        return doctor_say(o, DOCTOR_WARN,
                          "%s has no range in /etc/subuid and /etc/subgid: images "
                          "with more than one user do not run",
                          d->user);
    }
    enum doctor_access access = doctor_access_mine(&st);
    if (world)
        return doctor_say(o, DOCTOR_PASS, "no group needed (mode %04o)", mode);
    if (access == DOCTOR_ACCESS_NONE || access == DOCTOR_ACCESS_OWNER)
        return doctor_say(o, DOCTOR_PASS,
                          "only the container's root user may use it, not others "
                          "of its image (mode %04o, group %s)",
                          mode, group);
    if (cdi_program_find("crun", crun) < 0) {
        doctor_todo(o, "Install crun and let podman use it: podman --runtime crun.");
        return doctor_say(o, DOCTOR_WARN,
                          "group %s (mode %04o) reaches a rootless container only "
                          "with --group-add keep-groups, which crun alone knows",
                          group, mode);
    }
    return doctor_say(o, DOCTOR_PASS,
                      "pass --group-add keep-groups (group %s, mode %04o; crun is "
                      "here)",
                      group, mode);
}

/* ---- SELinux ------------------------------------------------------------------------ */

/* One digit of a file below SELinux's; -1: there is none. */
static int selinux_digit(const struct doctor *d, const char *name)
{
    char path[PATH_MAX], digit[2];

    snprintf(path, sizeof(path), "%s/sys/fs/selinux/%s", d->root, name);
    if (apir_file_begin(path, digit, sizeof(digit)) != 1 || digit[0] < '0' || digit[0] > '9')
        return -1;
    return digit[0] - '0';
}

enum doctor_status doctor_check_selinux(struct doctor *d, struct doctor_outcome *o)
{
    int enforce = selinux_digit(d, "enforce");

    if (enforce < 0)
        return doctor_say(o, DOCTOR_PASS, "not in use");
    if (enforce == 0)
        return doctor_say(o, DOCTOR_PASS, "permissive: it forbids nothing");
    if (d->socket) {
        doctor_todo(o, "Give containers with host0 --security-opt label=disable.");
        return doctor_say(o, DOCTOR_WARN,
                          "enforcing: no boolean lets a confined container connect "
                          "to %s",
                          d->socket);
    }
    /* Each file has the value now and the one to come. */
    if (selinux_digit(d, "booleans/container_use_dri_devices") == 1)
        return doctor_say(o, DOCTOR_PASS, "enforcing, container_use_dri_devices is on");
    if (selinux_digit(d, "booleans/container_use_devices") == 1)
        return doctor_say(o, DOCTOR_PASS, "enforcing, container_use_devices is on");
    doctor_todo(o, "setsebool -P container_use_devices on, or give the container --security-opt "
                   "label=disable.");
    return doctor_say(o, DOCTOR_WARN,
                      "enforcing, and containers may not use /dev/dri "
                      "(container_use_devices is off)");
}
