/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/engine/specs.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cdi/file.h"
#include "cdi/install.h"
#include "cdi/program.h"
#include "cdi/spec/spec.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/oci/cdi_rules.h"
#include "common/text.h"

#define DEVICES_MAX 20000u
#define FILES_MAX   2000u
#define BYTES_MAX   (16u << 20) /* of all names */

int cdi_specs_add_usual(struct cdi_strings *dirs)
{
    int rc = cdi_strings_add(dirs, CDI_SPECS_DIR);

    return rc < 0 ? rc : cdi_strings_add(dirs, CDI_SPECS_DIR_RUN);
}

void cdi_specs_own_path(char *path, size_t size)
{
    char home[PATH_MAX];
    const char *config = geteuid() == 0 ? NULL : cdi_install_config_home(home, sizeof(home));

    if (!config || (size_t)snprintf(path, size, "%s/cdi/" CDI_SPEC_FILE, config) >= size)
        snprintf(path, size, CDI_SPEC_PATH);
}

/* Of each engine the machine's own, and then the user's. */
#define LISTS (2 * CDI_ENGINE_COUNT)

/* The folders of one of LISTS, none where there is no such; a later one wins. */
static int read_list(size_t i, struct cdi_strings *ret)
{
    char home[PATH_MAX];
    const struct engine_ops *engine = cdi_engines[i / 2];
    const struct cdi_engine_where where = {
        .version = {INT_MAX, 0, 0}, /* which reads the most */
        .root = "",
        .home = cdi_install_config_home(home, sizeof(home)),
        .run = cdi_engine_run_dir(),
        .system = i % 2 == 0,
        .uid = geteuid(),
    };

    return where.uid == 0 && !where.system ? 0 : engine->spec_dirs(&where, ret, NULL);
}

/* Folders, or files. */
static bool same_place(const char *a, const char *b)
{
    struct stat x, y;

    return strcmp(a, b) == 0 ||
           (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

int cdi_specs_all_dirs(struct cdi_strings *ret)
{
    int rc = cdi_specs_add_usual(ret);

    for (size_t i = 0; rc == 0 && i < LISTS; i++) {
        cleanup_strings struct cdi_strings dirs = {0};

        /* What cannot be read is doctor's to say. */
        if (read_list(i, &dirs) < 0)
            continue;
        for (size_t k = 0; rc == 0 && k < dirs.n; k++) {
            bool known = false;
            for (size_t m = 0; m < ret->n; m++)
                known = known || same_place(ret->items[m], dirs.items[k]);
            rc = known ? 0 : cdi_strings_add(ret, dirs.items[k]);
        }
    }
    return rc;
}

/* ---- what is in them ---------------------------------------------------------------- */

struct device {
    char *name;
    unsigned file;
};

struct reader {
    unsigned dir; /* of what is being read */
    char *files[FILES_MAX];
    unsigned dir_of[FILES_MAX];
    unsigned n_files;
    struct device devices[DEVICES_MAX];
    unsigned n;
    size_t bytes;
};

static void reader_free(struct reader **r)
{
    for (unsigned i = 0; *r && i < (*r)->n_files; i++)
        free((*r)->files[i]);
    for (unsigned i = 0; *r && i < (*r)->n; i++)
        free((*r)->devices[i].name);
    free(*r);
}
#define cleanup_reader __attribute__((cleanup(reader_free)))

/* Non-zero where there is no room for more. */
static int add(struct reader *r, const char *kind, const char *name)
{
    r->bytes += strlen(kind) + strlen(name) + 2;
    const bool room = r->n < DEVICES_MAX && r->bytes <= BYTES_MAX;
    char *full = room ? apir_text_format("%s=%s", kind, name) : NULL;
    if (!full)
        return 1;
    r->devices[r->n++] = (struct device){full, r->n_files - 1};
    return 0;
}

static int read_file(const char *path, void *user)
{
    struct reader *r = user;
    cleanup_json struct json_object *spec = NULL;
    struct cdi_report report;
    int rc = 0;

    /* JSON is YAML, too; what is YAML alone is not read. */
    if (!cdi_file_ends_with(path, ".json") && !cdi_file_ends_with(path, ".yaml"))
        return 0;
    if (r->n_files == FILES_MAX || !(r->files[r->n_files] = strdup(path)))
        return 1;
    r->dir_of[r->n_files++] = r->dir;
    if (apir_json_load(path, CDI_SPEC_SIZE_MAX, &spec, NULL) < 0)
        return 0;
    cdi_report_init(&report);
    cdi_rules_check(spec, &report);
    const char *kind = report.n_errors == 0 ? apir_json_string(spec, "kind") : NULL;
    cdi_report_fini(&report);
    struct json_object *devices = apir_json_array(spec, "devices");
    for (size_t i = 0; kind && rc == 0 && i < apir_json_length(devices); i++)
        rc = add(r, kind, apir_json_string(json_object_array_get_idx(devices, i), "name"));
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const struct device *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order != 0 ? order : (x->file > y->file) - (x->file < y->file);
}

/* NULL: no memory. A folder that is there twice is where it comes last. */
static struct reader *read_all(const struct cdi_strings *dirs)
{
    struct reader *r = calloc(1, sizeof(*r));

    for (size_t i = 0; r && i < dirs->n; i++) {
        bool again = false;
        for (size_t k = i + 1; k < dirs->n; k++)
            again = again || same_place(dirs->items[i], dirs->items[k]);
        r->dir = (unsigned)i;
        if (!again)
            (void)cdi_file_each(dirs->items[i], "", read_file, r);
    }
    if (r)
        qsort(r->devices, r->n, sizeof(r->devices[0]), by_name);
    return r;
}

/* ---- two of one name ------------------------------------------------------------------ */

struct check {
    const char *only, *engine;
    int (*fn)(const struct cdi_specs_clash *clash, void *user);
    void *user;
    struct cdi_strings seen; /* pairs of files */
};

static int say_once(struct check *c, const struct cdi_specs_clash *clash)
{
    if (c->only && !same_place(clash->file, c->only) && !same_place(clash->other, c->only))
        return 0;
    cleanup_free char *key = apir_text_format("%s\n%s", clash->file, clash->other);
    if (!key)
        return -ENOMEM;
    if (cdi_strings_have(&c->seen, key) || cdi_strings_add(&c->seen, key) < 0)
        return 0;
    return c->fn(clash, c->user);
}

static int check_dirs(struct check *c, const struct cdi_strings *dirs)
{
    cleanup_reader struct reader *r = read_all(dirs);
    int rc = r ? 0 : -ENOMEM;

    /* Those of one name follow each other, in the order of their folders. */
    for (unsigned i = 0; rc == 0 && i + 1 < r->n; i++) {
        const struct device *d = &r->devices[i];
        unsigned last = i;
        while (last + 1 < r->n && strcmp(d->name, r->devices[last + 1].name) == 0)
            last++;
        if (last == i)
            continue;
        const bool twice = r->dir_of[d->file] == r->dir_of[d[1].file];
        rc = say_once(c, &(struct cdi_specs_clash){
                             .name = d->name,
                             .twice = twice,
                             .engine = c->engine,
                             .file = r->files[twice ? d->file : r->devices[last].file],
                             .other = r->files[twice ? d[1].file : d->file],
                         });
    }
    return rc;
}

/* Whether the file is in one of these folders. */
static bool have_file(const struct cdi_strings *dirs, const char *file)
{
    const char *slash = strrchr(file, '/');
    cleanup_free char *dir = slash ? strndup(file, (size_t)(slash - file)) : NULL;

    for (size_t i = 0; dir && i < dirs->n; i++)
        if (same_place(dirs->items[i], dir))
            return true;
    return false;
}

/* Whether anybody goes by this one of LISTS. */
static bool list_counts(size_t i)
{
    const struct engine_ops *engine = cdi_engines[i / 2];
    char path[PATH_MAX];

    return i % 2 == 0 || !engine->is_service || !cdi_engine_is_system(engine, geteuid()) ||
           cdi_program_find(engine->programs[0], path) == 0;
}

static int check_all(struct check *c)
{
    bool found = false;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < LISTS; i++) {
        cleanup_strings struct cdi_strings dirs = {0};

        if (read_list(i, &dirs) < 0 || (c->only && !have_file(&dirs, c->only)))
            continue;
        found = true;
        if (!list_counts(i))
            continue;
        c->engine = i % 2 == 0 ? NULL : cdi_engines[i / 2]->title;
        rc = check_dirs(c, &dirs);
    }
    if (c->only && !found && strchr(c->only, '/')) {
        cleanup_free char *dir = strndup(c->only, (size_t)(strrchr(c->only, '/') - c->only));

        c->engine = NULL;
        rc = dir ? check_dirs(c, &(struct cdi_strings){.n = 1, .items = {dir}}) : -ENOMEM;
    }
    return rc;
}

int cdi_specs_check(const struct cdi_strings *dirs, const char *only,
                    int (*fn)(const struct cdi_specs_clash *clash, void *user), void *user)
{
    struct check c = {.only = only, .fn = fn, .user = user};
    int rc = dirs ? check_dirs(&c, dirs) : check_all(&c);

    cdi_strings_fini(&c.seen);
    return rc;
}

bool cdi_specs_engine_reads(const char *engine, const char *file)
{
    for (size_t i = 0; i < LISTS; i++) {
        cleanup_strings struct cdi_strings dirs = {0};

        if (strcmp(cdi_engines[i / 2]->name, engine) == 0 && list_counts(i) &&
            read_list(i, &dirs) == 0 && have_file(&dirs, file))
            return true;
    }
    return false;
}

void cdi_specs_say(const struct cdi_specs_clash *c, char *text, size_t size)
{
    char who[64] = "engines take";

    if (c->engine)
        snprintf(who, sizeof(who), "rootless %s takes", c->engine);
    if (c->twice)
        snprintf(text, size,
                 "%.100s is in both %.150s and %.150s, so engines take neither: take one away",
                 c->name, c->file, c->other);
    else
        snprintf(text, size,
                 "%.100s: %s it from %.150s, which wins over %.150s: take away the one that is "
                 "not meant",
                 c->name, who, c->file, c->other);
}

int cdi_specs_print(const struct cdi_specs_clash *clash, void *command)
{
    char text[512];

    cdi_specs_say(clash, text, sizeof(text));
    apir_text_print(stderr, "%s: %s\n", (const char *)command, text);
    return 0;
}

void cdi_specs_find(char *path, size_t size)
{
    static const char kind[] = CDI_SPEC_VENDOR "/" CDI_SPEC_CLASS "=";
    cleanup_strings struct cdi_strings dirs = {0};
    cleanup_reader struct reader *r = NULL;
    unsigned best = 0;
    bool found = false;

    if (cdi_specs_all_dirs(&dirs) == 0)
        r = read_all(&dirs);
    for (unsigned i = 0; r && i < r->n; i++) {
        const struct device *d = &r->devices[i];

        if (strncmp(d->name, kind, strlen(kind)) != 0 ||
            (found && r->dir_of[d->file] <= r->dir_of[best]))
            continue;
        best = d->file;
        found = true;
    }
    if (!found || (size_t)snprintf(path, size, "%s", r->files[best]) >= size)
        snprintf(path, size, CDI_SPEC_PATH);
}
