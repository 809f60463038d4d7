/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a CDI spec (1.1.0) valid. Two grades: an error is something that a
 * CDI parser refuses, and with it every device of the file; a warning is what
 * parsers take and some engine, runtime or rootless user then trips over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct json_object;

#define CDI_RULES_VERSION_LOWEST "0.3.0"
#define CDI_REPORT_MAX           64
#define CDI_SPEC_SIZE_MAX        (1u << 20) /* of a file that is read */

enum cdi_grade {
    CDI_GRADE_ERROR,
    CDI_GRADE_WARNING,
};

struct cdi_finding {
    enum cdi_grade grade;
    char *text; /* "devices[0].containerEdits.env[1]: …" */
};

struct cdi_report {
    size_t n;        /* findings, also those beyond the ones kept */
    size_t n_errors; /* of which errors */
    size_t n_kept;
    struct cdi_finding items[CDI_REPORT_MAX];
};

void cdi_report_init(struct cdi_report *report);
void cdi_report_fini(struct cdi_report *report);
/* Beyond CDI_REPORT_MAX findings are counted, and their texts dropped. */
void cdi_report_add(struct cdi_report *report, enum cdi_grade grade, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define cleanup_report __attribute__((cleanup(cdi_report_fini)))
/* The text of the first finding. */
const char *cdi_report_first(const struct cdi_report *report);

/* Everything that can be said from the text alone. Adds to report. */
void cdi_rules_check(struct json_object *spec, struct cdi_report *report);
/* Whether it has no error. */
bool cdi_rules_valid(struct json_object *spec);

/* Whether what the spec names is there on this machine: nodes, mounts, hooks. */
void cdi_rules_check_host(struct json_object *spec, const char *root, struct cdi_report *report);

/* The lowest cdiVersion that has every field and name the spec uses. Static string. */
const char *cdi_rules_lowest_version(struct json_object *spec);
