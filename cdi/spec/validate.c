/* SPDX-License-Identifier: Apache-2.0 */
/* apir cdi validate */
#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "cdi/commands.h"
#include "common/json.h"
#include "common/oci/cdi_rules.h"
#include "cdi/spec/spec.h"
#include "common/text.h"
#include "common/error.h"

struct validate {
    bool strict, host;
    struct json_object *rows; /* NULL: print lines */
    bool invalid, unreadable;
};

static const char *const grades[] = {[CDI_GRADE_ERROR] = "error", [CDI_GRADE_WARNING] = "warning"};

static void say(const char *path, const struct cdi_report *report, bool valid)
{
    for (size_t i = 0; i < report->n_kept; i++)
        apir_text_print(stdout, "%s: %s: %s\n", path, grades[report->items[i].grade],
                        report->items[i].text);
    if (report->n > report->n_kept)
        apir_text_print(stdout, "%s: and %zu more\n", path, report->n - report->n_kept);
    if (valid)
        apir_text_print(stdout, "%s: valid\n", path);
}

static void add_row(struct json_object *rows, const char *path, const struct cdi_report *report,
                    bool valid)
{
    struct json_object *row = json_object_new_object(), *findings = json_object_new_array();

    for (size_t i = 0; i < report->n_kept; i++) {
        struct json_object *finding = json_object_new_object();

        json_object_object_add(finding, "grade",
                               json_object_new_string(grades[report->items[i].grade]));
        json_object_object_add(finding, "text", json_object_new_string(report->items[i].text));
        json_object_array_add(findings, finding);
    }
    json_object_object_add(row, "file", json_object_new_string(path));
    json_object_object_add(row, "valid", json_object_new_boolean(valid));
    json_object_object_add(row, "findings", findings);
    json_object_array_add(rows, row);
}

static void validate(struct validate *v, const char *path)
{
    cleanup_json struct json_object *spec = NULL;
    struct apir_error err = {0};
    cleanup_report struct cdi_report report = {0};

    int rc = apir_json_load(path, CDI_SPEC_SIZE_MAX, &spec, &err);
    if (rc < 0) {
        cdi_report_add(&report, CDI_GRADE_ERROR, "%s", err.msg);
    } else {
        cdi_rules_check(spec, &report);
        if (v->host && report.n_errors == 0)
            cdi_rules_check_host(spec, "/", &report);
    }
    bool valid = v->strict ? report.n == 0 : report.n_errors == 0;
    /* What is no JSON, or too much of it, has been read. */
    if (rc < 0 && rc != -EBADMSG && rc != -EFBIG)
        v->unreadable = true;
    else if (!valid)
        v->invalid = true;
    if (v->rows)
        add_row(v->rows, path, &report, valid);
    else
        say(path, &report, valid);
}

int cdi_validate_main(const struct cdi_args *args)
{
    cleanup_json struct json_object *rows = json_object_new_array();
    struct validate v = {
        .strict = args->strict, .host = !args->no_host, .rows = args->json ? rows : NULL};

    for (int i = 0; i < args->n; i++)
        validate(&v, args->words[i]);
    if (v.rows)
        (void)apir_json_print(rows);
    return v.invalid ? CDI_EXIT_FAILED : v.unreadable ? CDI_EXIT_NOTHING : CDI_EXIT_OK;
}
