/* SPDX-License-Identifier: Apache-2.0 */
/* apir engine configure, apir engine reset */
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/engine/engine.h"
#include "cdi/file.h"
#include "cdi/install.h"
#include "cdi/program.h"
#include "common/json.h"
#include "common/text.h"
#include "common/cleanup.h"
#include "common/error.h"

#define RECORD_VERSION 2 /* 1 held the whole file */

struct command {
    const char *name; /* "apir engine configure" */
    const struct engine_ops *engine;
    bool dry_run;
    const char *state_dir;
};

static int failed(const struct command *c, const struct apir_error *err)
{
    apir_text_print(stderr, "%s: %s\n", c->name, err->msg);
    return CDI_EXIT_FAILED;
}

/* Returns an exit code where the command ends here, else -1. */
static int take_options(struct command *c, const struct cdi_args *args)
{
    char what[300];

    *c = (struct command){.name = args->command,
                          .engine = cdi_engine_find(args->words[0]),
                          .dry_run = args->dry_run,
                          .state_dir = args->state_dir};
    if (c->engine)
        return -1;
    snprintf(what, sizeof(what), "not %s: ", cdi_engine_names());
    return cdi_usage_error(args->command, what, args->words[0]);
}

/* ---- the record ---------------------------------------------------------------- */

static int record_path(const struct command *c, char *path, size_t size, struct apir_error *err)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;

    if (c->state_dir)
        n = snprintf(path, size, "%s/engine-%s.json", c->state_dir, c->engine->name);
    else if (geteuid() == 0)
        n = snprintf(path, size, "/var/lib/apir/engine-%s.json", c->engine->name);
    else if (state && state[0] == '/')
        n = snprintf(path, size, "%s/apir/engine-%s.json", state, c->engine->name);
    else if (home && home[0] == '/')
        n = snprintf(path, size, "%s/.local/state/apir/engine-%s.json", home, c->engine->name);
    else
        return apir_error_set(err, ENOENT, "no HOME to keep a record in; see --state-dir");
    return n < 0 || (size_t)n >= size ? apir_error_sys(err, ENAMETOOLONG, "record") : 0;
}

static int record_write(const struct command *c, const char *path,
                        const struct cdi_engine_plan *plan, struct apir_error *err)
{
    cleanup_json struct json_object *record = json_object_new_object();
    if (apir_json_set(record, "version", json_object_new_int(RECORD_VERSION)) < 0 ||
        apir_json_set(record, "engine", json_object_new_string(c->engine->name)) < 0 ||
        apir_json_set(record, "file", json_object_new_string(plan->path)) < 0 ||
        apir_json_set(record, "made", json_object_new_boolean(!plan->before)) < 0 ||
        (plan->changes && apir_json_set(record, "changes", json_object_get(plan->changes)) < 0))
        return apir_error_sys(err, ENOMEM, "record");
    const char *text = json_object_to_json_string_ext(record, JSON_C_TO_STRING_PRETTY);
    return text ? cdi_file_replace(path, text, 0600, 0700, err)
                : apir_error_sys(err, ENOMEM, "record");
}

static int record_read(const struct command *c, const char *path, struct json_object **ret_record,
                       struct apir_error *err)
{
    struct cdi_file_owner owner;
    cleanup_free char *text = NULL;

    *ret_record = NULL;
    int rc = cdi_file_read(path, &text, &owner, err);
    if (rc < 0 || !text)
        return rc;
    /* It names a file that is changed, or removed. */
    if (owner.uid != geteuid() || (owner.mode & 0022) != 0)
        return apir_error_set(
            err, EPERM, "%s is no record of ours: another user owns it, or may write to it", path);
    rc = apir_json_parse(text, strlen(text), ret_record, err);
    if (rc < 0)
        return apir_error_wrap(err, rc, "%s", path);
    struct json_object *version = apir_json_member(*ret_record, "version", json_type_int);
    const char *engine = apir_json_string(*ret_record, "engine");
    const char *file = apir_json_string(*ret_record, "file");
    if (json_object_get_int(version) != RECORD_VERSION || !engine || !file || file[0] != '/' ||
        strcmp(engine, c->engine->name) != 0 ||
        !c->engine->undo != !apir_json_array(*ret_record, "changes"))
        return apir_error_set(err, EBADMSG,
                              "%s is no record of this version's `apir engine configure %s`; take "
                              "the setting out by hand, and then remove it",
                              path, c->engine->name);
    return 0;
}

/* ---- the commands --------------------------------------------------------------- */

static void show(const struct command *c, const struct cdi_engine_plan *plan)
{
    apir_text_print(stdout, "%s\n", plan->note);
    if (plan->after || plan->remove)
        cdi_file_print_change(stdout, plan->path, plan->before, plan->after);
    if (c->dry_run && (plan->after || plan->remove))
        puts("Not written (--dry-run).");
}

static int carry_out(const struct cdi_engine_plan *plan, struct apir_error *err)
{
    if (plan->after) {
        int rc = cdi_file_write(plan->path, plan->after, err);
        if (rc == 0)
            apir_text_print(stdout, "Wrote %s.\n", plan->path);
        return rc;
    }
    int rc = cdi_file_remove(plan->path, err);
    if (rc == 0)
        apir_text_print(stdout, "Removed %s.\n", plan->path);
    return rc;
}

static void tell_restart(const struct cdi_engine_plan *plan)
{
    if (plan->restart[0] != '\0')
        apir_text_print(stdout, "It takes effect with: %s\n", plan->restart);
}

/* Each by itself, since names out of others' files are in them. */
static void print_lines(const char *text)
{
    for (const char *end; *text != '\0'; text = end) {
        end = strchrnul(text, '\n');
        end += *end != '\0';
        apir_text_print(stdout, "%.*s", (int)(end - text), text);
    }
}

/* Returns 0, CDI_EXIT_FAILED where something is left to the user, or -errno. */
static int configure(const struct command *c, const struct cdi_engine_where *where,
                     struct apir_error *err)
{
    cleanup_plan struct cdi_engine_plan plan = {0};
    char record[PATH_MAX];
    int rc = cdi_engine_plan(c->engine, where, &plan, err);

    if (rc == -EOPNOTSUPP) {
        rc = failed(c, err);
        apir_text_print(stderr, "Update %s%s.\n", c->engine->name, c->engine->older);
        return rc;
    }
    if (rc == 0)
        rc = record_path(c, record, sizeof(record), err);
    if (rc < 0)
        return rc;
    show(c, &plan);
    if (plan.lines) {
        apir_text_print(stdout, "Add this to %s yourself:\n", plan.path);
        print_lines(plan.lines);
        tell_restart(&plan);
        return CDI_EXIT_FAILED;
    }
    if (c->dry_run || (!plan.after && !plan.remove))
        return 0;
    /* First, so that no change is ever without one. */
    rc = plan.remove ? cdi_file_remove(record, err) : record_write(c, record, &plan, err);
    if (rc == 0) {
        rc = carry_out(&plan, err);
        if (rc < 0 && !plan.remove)
            (void)cdi_file_remove(record, NULL);
    }
    if (rc == 0)
        tell_restart(&plan);
    if (rc == 0 && !plan.remove)
        apir_text_print(stdout, "To take it back: apir engine reset %s\n", c->engine->name);
    return rc;
}

int cdi_engine_configure_main(const struct cdi_args *args)
{
    struct command c;
    struct cdi_engine_where where = {.root = "", .system = geteuid() == 0, .uid = geteuid()};
    struct apir_error err = {0};
    char home[PATH_MAX], hooks[PATH_MAX];

    int code = take_options(&c, args);
    if (code >= 0)
        return code;
    if (args->config && args->config[0] != '/')
        return cdi_usage_error(args->command, "--config wants an absolute path, not ",
                               args->config);
    if (args->engine_version && !cdi_engine_parse_version(args->engine_version, &where.version))
        return cdi_usage_error(args->command, "no version: ", args->engine_version);
    cdi_program_clean_environment();
    where.config = args->config;
    where.home = cdi_install_config_home(home, sizeof(home));
    where.hooks_dir = cdi_install_find_hooks_dir(hooks, sizeof(hooks)) == 0 ? hooks : NULL;
    if (!args->engine_version) {
        int rc = cdi_engine_ask(c.engine, &where.version);
        if (rc < 0) {
            apir_error_set(&err, -rc,
                           rc == -ENOENT  ? "%s is not installed here (--engine-version "
                                            "configures it all the same)"
                           : rc == -EPERM ? "%s is not run: another user could put something in "
                                            "the place of the one on PATH"
                                          : "%s does not say its version; give it with "
                                            "--engine-version",
                           c.engine->name);
            return failed(&c, &err);
        }
    }
    int rc = configure(&c, &where, &err);
    return rc < 0 ? failed(&c, &err) : rc;
}

static int reset(const struct command *c, struct apir_error *err)
{
    cleanup_plan struct cdi_engine_plan plan = {0};
    cleanup_json struct json_object *record = NULL;
    char path[PATH_MAX];
    int rc = record_path(c, path, sizeof(path), err);

    if (rc == 0)
        rc = record_read(c, path, &record, err);
    if (rc < 0)
        return rc;
    if (!record) {
        apir_text_print(stdout, "%s: nothing was changed, so there is nothing to take back\n",
                        c->engine->name);
        return 0;
    }
    rc = cdi_engine_plan_undo(
        c->engine, apir_json_string(record, "file"), apir_json_array(record, "changes"),
        json_object_get_boolean(apir_json_member(record, "made", json_type_boolean)), &plan, err);
    if (rc < 0)
        return rc;
    show(c, &plan);
    if (c->dry_run)
        return 0;
    if (plan.after || plan.remove)
        rc = carry_out(&plan, err);
    /* Last: until then the way back is known. */
    if (rc == 0)
        rc = cdi_file_remove(path, err);
    if (rc == 0 && (plan.after || plan.remove) && c->engine->is_service)
        apir_text_print(stdout, "It takes effect when %s is restarted.\n", c->engine->name);
    return rc;
}

int cdi_engine_reset_main(const struct cdi_args *args)
{
    struct command c;
    struct apir_error err = {0};
    int code = take_options(&c, args);

    if (code >= 0)
        return code;
    return reset(&c, &err) < 0 ? failed(&c, &err) : CDI_EXIT_OK;
}
