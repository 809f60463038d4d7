/* SPDX-License-Identifier: Apache-2.0 */
/* apir cdi list */
#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cdi/commands.h"
#include "cdi/engine/specs.h"
#include "cdi/file.h"
#include "common/json.h"
#include "common/oci/cdi_rules.h"
#include "cdi/spec/spec.h"
#include "common/text.h"
#include "common/cleanup.h"
#include "common/error.h"

#define BYTES_MAX (16u << 20) /* of all rows: a file makes much of a long kind and many devices */
#define ROW_BYTES 512         /* that a row takes beside its texts */

struct list {
    struct json_object *rows;
    size_t bytes;
    bool here; /* the folders are this machine's */
    bool failed;
};

/* Whether there is room for a row with these texts. */
static bool takes(struct list *l, const char *file, const char *kind, struct json_object *device)
{
    struct json_object *edits = apir_json_object(device, "containerEdits");
    const char *name = apir_json_string(device, "name");

    /* Its nodes and id are parts of a file, and in one row only. */
    l->bytes += ROW_BYTES + strlen(file) + strlen(kind) + (name ? strlen(name) : 0) +
                ROW_BYTES * apir_json_length(apir_json_array(edits, "deviceNodes"));
    if (l->bytes <= BYTES_MAX)
        return true;
    fputs("apir cdi list: there are more devices than are listed\n", stderr);
    l->failed = true;
    return false;
}

static void add_row(struct list *l, const char *file, const char *kind, struct json_object *device)
{
    cleanup_json struct json_object *row = json_object_new_object();
    struct json_object *nodes = json_object_new_array();
    const char *name = apir_json_string(device, "name");
    cleanup_free char *full = name ? apir_text_format("%s=%s", kind, name) : NULL;

    if (!full) {
        json_object_put(nodes);
        return;
    }
    struct json_object *edits = apir_json_object(device, "containerEdits");
    struct json_object *list = apir_json_array(edits, "deviceNodes");
    for (size_t i = 0; i < apir_json_length(list); i++) {
        const char *path = apir_json_string(json_object_array_get_idx(list, i), "path");
        if (path)
            json_object_array_add(nodes, json_object_new_string(path));
    }
    const char *id = cdi_spec_host_id(edits);
    json_object_object_add(row, "name", json_object_new_string(full));
    json_object_object_add(row, "nodes", nodes);
    if (id)
        json_object_object_add(row, "id", json_object_new_string(id));
    json_object_object_add(row, "spec", json_object_new_string(file));
    json_object_array_add(l->rows, json_object_get(row));
}

static int read_spec(const char *path, void *user)
{
    struct list *l = user;
    cleanup_json struct json_object *spec = NULL;
    struct apir_error err = {0};
    cleanup_report struct cdi_report report = {0};

    if (cdi_file_ends_with(path, ".yaml"))
        apir_text_print(stderr, "apir cdi list: %s: left out, this program reads JSON only\n",
                        path);
    if (!cdi_file_ends_with(path, ".json"))
        return 0;
    if (apir_json_load(path, CDI_SPEC_SIZE_MAX, &spec, &err) < 0) {
        apir_text_print(stderr, "apir cdi list: %s\n", err.msg);
        l->failed = true;
        return 0;
    }
    cdi_rules_check(spec, &report);
    if (report.n_errors > 0) {
        apir_text_print(stderr,
                        "apir cdi list: %s: engines ignore it; see `apir cdi validate %s`\n", path,
                        path);
        l->failed = true;
    }
    const char *kind = apir_json_string(spec, "kind");
    bool ours = kind && strcmp(kind, CDI_SPEC_VENDOR "/" CDI_SPEC_CLASS) == 0;
    size_t n = report.n_kept;
    /* A device whose node or file is gone fails when a container is to have it. */
    if (report.n_errors == 0 && l->here)
        cdi_rules_check_host(spec, "/", &report);
    for (; n < report.n_kept; n++)
        apir_text_print(stderr, "apir cdi list: %s: %s%s\n", path, report.items[n].text,
                        ours ? "; `apir cdi generate` writes it anew" : "");
    struct json_object *devices = apir_json_array(spec, "devices");
    for (size_t i = 0; kind && i < apir_json_length(devices); i++) {
        if (!takes(l, path, kind, json_object_array_get_idx(devices, i)))
            return 1;
        add_row(l, path, kind, json_object_array_get_idx(devices, i));
    }
    return 0;
}

static void read_dir(struct list *l, const char *dir, bool must_exist)
{
    int rc = cdi_file_each(dir, "", read_spec, l);

    if (rc < 0 && (must_exist || rc != -ENOENT)) {
        apir_text_print(stderr, "apir cdi list: %s: %s\n", dir, strerror(-rc));
        l->failed = true;
    }
}

static int say_clash(const struct cdi_specs_clash *clash, void *user)
{
    struct list *l = user;

    l->failed = l->failed || clash->twice;
    return cdi_specs_print(clash, "apir cdi list");
}

static void print_rows(struct json_object *rows)
{
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        struct json_object *nodes = apir_json_array(row, "nodes");

        apir_text_print(stdout, "%s", apir_json_string(row, "name"));
        for (size_t k = 0; k < json_object_array_length(nodes); k++)
            apir_text_print(stdout, "%s%s", k == 0 ? "\t" : ",", apir_json_string_at(nodes, k));
        const char *id = apir_json_string(row, "id");
        apir_text_print(stdout, "%s%s\t%s\n", id ? "\t" : "", id ? id : "",
                        apir_json_string(row, "spec"));
    }
}

int cdi_list_main(const struct cdi_args *args)
{
    cleanup_strings struct cdi_strings dirs = {0};
    cleanup_json struct json_object *rows = json_object_new_array();
    struct list l = {.rows = rows};
    const bool given = args->spec_dir.n > 0;

    for (size_t i = 0; i < args->spec_dir.n; i++)
        (void)cdi_strings_add(&dirs, args->spec_dir.items[i]);
    if (!given)
        (void)cdi_specs_all_dirs(&dirs);
    l.here = !given;
    for (size_t i = 0; i < dirs.n; i++)
        read_dir(&l, dirs.items[i], given);
    (void)cdi_specs_check(given ? &dirs : NULL, NULL, say_clash, &l);
    if (args->json)
        (void)apir_json_print(rows);
    else
        print_rows(rows);
    if (json_object_array_length(rows) == 0) {
        fputs("apir cdi list: no devices; `apir cdi generate` makes them\n", stderr);
        return CDI_EXIT_FAILED;
    }
    return l.failed ? CDI_EXIT_FAILED : CDI_EXIT_OK;
}
