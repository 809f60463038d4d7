/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CDI spec of anybody's: parsed, checked against the rules, read for the numbers
 * that its devices have. Input: the file.
 *
 * The corpus is also held against podman's own parser (tests/system/cdi.bats), by the
 * first word of each name.
 */
#define _GNU_SOURCE
#include "tests/hostile/fuzz/fuzz.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include "common/json.h"
#include "cdi/spec/number.h"
#include "common/oci/cdi_rules.h"
#include "cdi/spec/spec.h"

const char fuzz_corpus[] = "cdi";

static size_t findings(struct json_object *spec, size_t *ret_errors)
{
    struct cdi_report report;
    cdi_report_init(&report);
    cdi_rules_check(spec, &report);
    FUZZ_CHECK(report.n_kept <= report.n && report.n_errors <= report.n);
    for (size_t i = 0; i < report.n_kept; i++)
        FUZZ_CHECK(report.items[i].text[0] != '\0');
    size_t n = report.n;
    *ret_errors = report.n_errors;
    cdi_report_fini(&report);
    return n;
}

/* Nothing is there below this root: as many findings as there are absolute paths. */
static void check_host(struct json_object *spec)
{
    struct cdi_report report;
    cdi_report_init(&report);
    cdi_rules_check_host(spec, "/nonexistent", &report);
    FUZZ_CHECK(report.n == report.n_errors);
    cdi_report_fini(&report);
}

static void check_numbers(struct json_object *spec)
{
    static struct cdi_spec_device known[CDI_DEVICES_MAX], found[CDI_DEVICES_MAX];
    static bool seen[CDI_NUMBER_MAX + 1];
    size_t n = cdi_number_read(spec, false, known);
    FUZZ_CHECK(n <= CDI_DEVICES_MAX);
    memcpy(found, known, sizeof(found));
    for (size_t i = 0; i < n; i++) {
        FUZZ_CHECK(known[i].number <= CDI_NUMBER_MAX);
        FUZZ_CHECK(memchr(known[i].node, 0, sizeof(known[i].node)));
        FUZZ_CHECK(memchr(known[i].id, 0, sizeof(known[i].id)));
        found[i].number = 0;
    }
    cdi_number_assign(found, n, known, n);
    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < n; i++) {
        FUZZ_CHECK(!seen[found[i].number]);
        seen[found[i].number] = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_json struct json_object *spec = NULL;
    int rc = apir_json_parse((const char *)data, size, &spec, NULL);
    FUZZ_CHECK((rc == 0) == !!spec);
    if (rc < 0)
        return 0;

    size_t errors, again_errors;
    size_t n = findings(spec, &errors);
    check_host(spec);
    check_numbers(spec);
    /* What it is does not depend on how it is written. */
    const char *text = cdi_spec_text(spec);
    FUZZ_CHECK(text);
    cleanup_json struct json_object *again = NULL;
    FUZZ_CHECK(apir_json_parse(text, strlen(text), &again, NULL) == 0);
    FUZZ_CHECK(findings(again, &again_errors) == n && again_errors == errors);
    /* The lowest version is one that serves. */
    if (errors == 0) {
        json_object_object_add(again, "cdiVersion",
                               json_object_new_string(cdi_rules_lowest_version(spec)));
        FUZZ_CHECK(findings(again, &again_errors) <= n && again_errors == 0);
    }
    return 0;
}
