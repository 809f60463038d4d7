/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/engine/engine.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cdi/file.h"
#include "cdi/program.h"
#include "common/cleanup.h"
#include "common/error.h"

#define TIMEOUT_MS 10000

#define CDI_ENGINE_ADDRESS(name) &cdi_engine_##name,
const struct engine_ops *const cdi_engines[CDI_ENGINE_COUNT] = {CDI_ENGINES(CDI_ENGINE_ADDRESS)};

size_t cdi_engine_index(const struct engine_ops *engine)
{
    size_t i = 0;

    while (cdi_engines[i] != engine)
        i++;
    return i;
}

const char *cdi_engine_names(void)
{
    static char names[256];
    const char *last = NULL;
    size_t used = 0;

    /* Each is put down when the next one is known, since the last one is joined by "or". */
    for (size_t i = 0; i < CDI_ENGINE_COUNT; i++) {
        if (!cdi_engines[i]->plan)
            continue;
        if (last)
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                     used > 0 ? ", " : "", last);
        last = cdi_engines[i]->name;
    }
    snprintf(names + used, sizeof(names) - used, " or %s", last);
    return names;
}

const struct engine_ops *cdi_engine_find(const char *name)
{
    for (size_t i = 0; i < CDI_ENGINE_COUNT; i++)
        if (cdi_engines[i]->plan && strcmp(cdi_engines[i]->name, name) == 0)
            return cdi_engines[i];
    return NULL;
}

bool cdi_engine_parse_version(const char *text, struct cdi_version *ret)
{
    for (const char *p = text; *p != '\0'; p++) {
        char *end = NULL;

        if (!isdigit((unsigned char)*p) ||
            (p > text && isalnum((unsigned char)p[-1]) && p[-1] != 'v'))
            continue;
        long major = strtol(p, &end, 10);
        if (*end != '.' || !isdigit((unsigned char)end[1]) || major > 9999) {
            p = end - 1;
            continue;
        }
        long minor = strtol(end + 1, &end, 10), patch = 0;
        if (*end == '.' && isdigit((unsigned char)end[1]))
            patch = strtol(end + 1, NULL, 10);
        if (minor > 9999 || patch > 9999)
            return false;
        *ret = (struct cdi_version){(int)major, (int)minor, (int)patch};
        return true;
    }
    return false;
}

int cdi_engine_ask(const struct engine_ops *engine, struct cdi_version *ret_version)
{
    int first = -ENOENT;

    for (size_t i = 0; i < 2 && engine->programs[i]; i++) {
        const char *const argv[] = {engine->programs[i], "--version", NULL};
        char text[256];
        int rc = cdi_program_run(argv, true, TIMEOUT_MS, text, sizeof(text));

        if (rc == -EPERM)
            first = rc;
        if (rc == -EPERM || rc == -ENOENT)
            continue;
        return cdi_engine_parse_version(text, ret_version) ? 0 : -EPROTO;
    }
    return first;
}

void cdi_engine_plan_fini(struct cdi_engine_plan *plan)
{
    free(plan->before);
    free(plan->after);
    free(plan->lines);
    json_object_put(plan->changes);
    plan->before = plan->after = plan->lines = NULL;
    plan->changes = NULL;
}

const char *cdi_engine_run_dir(void)
{
    const char *run = getenv("XDG_RUNTIME_DIR");

    return run && run[0] == '/' ? run : NULL;
}

/* A daemon of the user's own, beside which the system's is not meant. */
static bool has_own_daemon(const struct engine_ops *engine)
{
    const char *run = cdi_engine_run_dir();
    char path[PATH_MAX];

    if (!engine->user_socket || !run)
        return false;
    snprintf(path, sizeof(path), "%s/%s", run, engine->user_socket);
    return access(path, F_OK) == 0;
}

bool cdi_engine_is_system(const struct engine_ops *engine, unsigned uid)
{
    return uid == 0 || (engine->is_service && !has_own_daemon(engine));
}

int cdi_engine_config_path(const struct engine_ops *engine, const struct cdi_engine_where *where,
                           char *path)
{
    if (where->config)
        snprintf(path, PATH_MAX, "%s", where->config);
    else if (where->system)
        snprintf(path, PATH_MAX, "%s%s", where->root, engine->system_path);
    else if (where->home)
        snprintf(path, PATH_MAX, "%s%s", where->home, engine->user_path);
    else
        return -ENOENT;
    return 0;
}

static int find_config(const struct engine_ops *engine, const struct cdi_engine_where *where,
                       struct cdi_engine_plan *plan, struct apir_error *err)
{
    if (cdi_engine_config_path(engine, where, plan->path) < 0)
        return apir_error_set(err, ENOENT, "no home folder, so no configuration of this user");
    if (engine->is_service)
        snprintf(plan->restart, sizeof(plan->restart), "systemctl %srestart %s",
                 where->system ? "" : "--user ", engine->name);
    return 0;
}

int cdi_engine_plan(const struct engine_ops *engine, const struct cdi_engine_where *where,
                    struct cdi_engine_plan *plan, struct apir_error *err)
{
    struct cdi_version v = where->version, first = engine->first;

    memset(plan, 0, sizeof(*plan));
    if (!cdi_version_at_least(v, first.major, first.minor))
        return apir_error_set(err, EOPNOTSUPP,
                              "%s %d.%d has no CDI; %d.%d is the first version that has",
                              engine->name, v.major, v.minor, first.major, first.minor);
    if (!engine->plan) {
        snprintf(plan->note, sizeof(plan->note), "%s always takes CDI; there is nothing to set",
                 engine->title);
        return 0;
    }
    int rc = find_config(engine, where, plan, err);
    return rc < 0 ? rc : engine->plan(where, plan, err);
}

int cdi_engine_plan_undo(const struct engine_ops *engine, const char *path,
                         struct json_object *changes, bool made, struct cdi_engine_plan *plan,
                         struct apir_error *err)
{
    memset(plan, 0, sizeof(*plan));
    snprintf(plan->path, sizeof(plan->path), "%s", path);
    int rc = cdi_file_read(path, &plan->before, NULL, err);
    if (rc < 0)
        return rc;
    if (!plan->before) {
        snprintf(plan->note, sizeof(plan->note), "%.500s is gone already", path);
        return 0;
    }
    if (engine->undo)
        return engine->undo(changes, made, plan, err);
    if (!engine->mark || strncmp(plan->before, engine->mark, strlen(engine->mark)) != 0)
        return apir_error_set(err, EEXIST, "%s is there and not ours", path);
    /* A file of our own: nothing in it is anybody else's. */
    plan->remove = true;
    snprintf(plan->note, sizeof(plan->note), "removes %.500s", path);
    return 0;
}
