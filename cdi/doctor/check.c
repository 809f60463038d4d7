/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/doctor/check.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>

#include "cdi/commands.h"
#include "common/json.h"
#include "common/text.h"

enum doctor_status doctor_say(struct doctor_outcome *o, enum doctor_status status, const char *fmt,
                              ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(o->text, sizeof(o->text), fmt, ap);
    va_end(ap);
    apir_text_clean(o->text);
    return status;
}

void doctor_todo(struct doctor_outcome *o, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(o->todo, sizeof(o->todo), fmt, ap);
    va_end(ap);
    apir_text_clean(o->todo);
}

/* ---- in words ---------------------------------------------------------------------- */

static const char *const labels[] = {"PASS", "WARN", "FAIL", "SKIP", "----"};
static const char *const statuses[] = {"pass", "warn", "fail", "skip", "unchecked"};

static void print_row(const struct doctor_row *row)
{
    const struct doctor_outcome *o = row->outcome;

    apir_text_print(stdout, "%s  %-22s %s\n", labels[o->status], row->title, o->text);
    if (o->status == DOCTOR_WARN && o->todo[0] != '\0')
        printf("%30s%s\n", "-> ", o->todo);
}

static struct json_object *row_json(const struct doctor_row *row)
{
    const struct doctor_outcome *o = row->outcome;
    struct json_object *json = json_object_new_object();

    (void)apir_json_set(json, "name", json_object_new_string(row->name));
    (void)apir_json_set(json, "status", json_object_new_string(statuses[o->status]));
    (void)apir_json_set(json, "text", json_object_new_string(o->text));
    if (o->todo[0] != '\0')
        (void)apir_json_set(json, "todo", json_object_new_string(o->todo));
    return json;
}

int doctor_report(const struct doctor_row *rows, size_t n, bool json)
{
    cleanup_json struct json_object *top = json_object_new_object();
    struct json_object *list = json_object_new_array();
    const struct doctor_row *first = NULL;

    for (size_t i = 0; i < n; i++) {
        if (rows[i].outcome->status == DOCTOR_FAIL && !first)
            first = &rows[i];
        if (rows[i].outcome->status == DOCTOR_ABSENT)
            continue;
        if (json)
            (void)apir_json_append(list, row_json(&rows[i]));
        else
            print_row(&rows[i]);
    }
    (void)apir_json_set(top, "version", json_object_new_int(1));
    (void)apir_json_set(top, "ok", json_object_new_boolean(!first));
    if (first)
        (void)apir_json_set(top, "broken", json_object_new_string(first->name));
    (void)apir_json_set(top, "checks", list);
    if (json && apir_json_print(top) != 0)
        return CDI_EXIT_FAILED;
    if (first && !json)
        printf("\nFirst broken link: %s (%s)\n%s%s%s", first->title, first->outcome->text,
               first->outcome->todo[0] != '\0' ? "What to do: " : "", first->outcome->todo,
               first->outcome->todo[0] != '\0' ? "\n" : "");
    return first ? CDI_EXIT_FAILED : CDI_EXIT_OK;
}
