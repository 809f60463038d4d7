/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "common/json.h"
#include "common/oci/cdi_names.h"
#include "common/oci/cdi_rules.h"
#include "tests/lib/unit.h"

#define DEV(x)      "\"devices\":[" x "]"
#define GPU         "{\"name\":\"gpu0\",\"containerEdits\":{\"env\":[\"A=b\"]}}"
#define HEAD(v)     "{\"cdiVersion\":\"" v "\",\"kind\":\"virtgpu/apir\","
#define EDITS(v, e) HEAD(v) DEV(GPU) ",\"containerEdits\":{" e "}}"
#define MOUNT(more)                                                                                \
    "\"mounts\":[{\"hostPath\":\"/a\",\"containerPath\":\"/b\",\"options\":[\"rprivate\"]" more "}]"
#define HOOK(name, more) "\"hooks\":[{\"hookName\":\"" name "\",\"path\":\"/h\"" more "}]"
#define NODE(more)       "\"deviceNodes\":[{\"path\":\"/dev/x\"" more "}]"

enum outcome { GOOD, WARN, BAD };

/* Good ones: those of tests/hostile/fuzz/corpus/cdi, which podman takes too (cdi.bats), and these.
 */
static const struct {
    enum outcome outcome;
    const char *text;
    const char *says; /* part of the first finding */
} cases[] = {
    {GOOD, EDITS("0.7.0", "\"intelRdt\":{\"closID\":\"x\"}"), NULL},
    {GOOD, EDITS("1.1.0", "\"netDevices\":[{\"hostInterfaceName\":\"a\",\"name\":\"b\"}]"), NULL},

    {WARN, HEAD("0.5.0") DEV(GPU) "}", "0.3.0 would do"},
    {WARN, "{\"cdiVersion\":\"0.3.0\",\"kind\":\"v/apir\"," DEV(GPU) "}",
     "vendor \"v\": one letter"},
    {WARN, "{\"cdiVersion\":\"0.3.0\",\"kind\":\"virtgpu/a\"," DEV(GPU) "}",
     "class \"a\": one letter"},
    {WARN, "{\"cdiVersion\":\"0.3.0\",\"kind\":\"my_gpu/apir\"," DEV(GPU) "}", "no DNS name"},
    {WARN, "{\"cdiVersion\":\"0.3.0\",\"kind\":\"gpu..com/apir\"," DEV(GPU) "}", "no DNS name"},
    {WARN, HEAD("0.3.0") DEV("{\"name\":\"all\",\"containerEdits\":{\"env\":[\"A=\"]}}") "}",
     "NVIDIA"},
    {WARN, HEAD("0.5.0") DEV("{\"name\":\"0\",\"containerEdits\":{\"env\":[\"A=\"]}}") "}",
     "NVIDIA"},
    {WARN, EDITS("0.3.0", "\"mounts\":[{\"hostPath\":\"/a\",\"containerPath\":\"/b\"}]"),
     "rprivate"},
    {WARN, EDITS("0.3.0", HOOK("prestart", "")), "env is empty"},
    {WARN, EDITS("0.3.0", HOOK("prestart", ",\"env\":[]")), "env is empty"},
    {WARN, EDITS("0.5.0", NODE(",\"hostPath\":\"/dev/y\"")), "differs from path"},

    {BAD, "{}", "missing"},
    {BAD, HEAD("0.3.0") DEV("") "}", "none"},
    {BAD, HEAD("0.3.0") "\"devices\":{}}", "not a list"},
    {BAD, HEAD("0.3.0") "\"devices\":null}", "not a list"},
    {BAD, "{\"cdiVersion\":\"0.3.0\"," DEV(GPU) "}", "kind: missing"},
    {BAD, "{\"cdiVersion\":\"0.3\",\"kind\":\"aa/bb\"," DEV(GPU) "}", "not known"},
    {BAD, "{\"cdiVersion\":\"1.2.0\",\"kind\":\"aa/bb\"," DEV(GPU) "}", "not known"},
    {BAD, "{\"cdiVersion\":3,\"kind\":\"aa/bb\"," DEV(GPU) "}", "not a string"},
    {BAD, "{\"cdiVersion\":\"0.3.0\",\"kind\":\"ab\"," DEV(GPU) "}", "VENDOR/CLASS"},
    {BAD, "{\"cdiVersion\":\"0.3.0\",\"kind\":\"1a/b\"," DEV(GPU) "}", "vendor"},
    {BAD, "{\"cdiVersion\":\"0.3.0\",\"kind\":\"aa/bb-\"," DEV(GPU) "}", "class"},
    {BAD, "{\"cdiVersion\":\"0.3.0\",\"kind\":\"aa/bb/cc\"," DEV(GPU) "}", "class"},
    {BAD, HEAD("0.3.0") DEV(GPU) ",\"extra\":1}", "extra: unknown field"},
    {BAD, HEAD("0.3.0") DEV(GPU "," GPU) "}", "twice"},
    {BAD, HEAD("0.3.0") DEV("{\"name\":\"gpu0\",\"containerEdits\":{}}") "}", "empty"},
    {BAD,
     HEAD("0.3.0") DEV("{\"name\":\"gpu0\",\"containerEdits\":{\"env\":[],\"mounts\":[]}}") "}",
     "empty"},
    {BAD, EDITS("0.7.0", "\"intelRdt\":{\"closID\":\"aa/bb\"}"), "closID"},
    {BAD, EDITS("0.7.0", "\"intelRdt\":{\"closID\":\"..\"}"), "closID"},
    {BAD, HEAD("0.3.0") DEV("{\"name\":\"gpu0\"}") "}", "containerEdits: missing"},
    {BAD, HEAD("0.3.0") DEV("{\"name\":\"gpu 0\",\"containerEdits\":{\"env\":[\"A=\"]}}") "}",
     "device name"},
    {BAD, HEAD("0.3.0") DEV("{\"name\":\"gpu0:\",\"containerEdits\":{\"env\":[\"A=\"]}}") "}",
     "device name"},
    {BAD, HEAD("0.3.0") DEV("{\"name\":\"gpu0\\u0000\",\"containerEdits\":{\"env\":[\"A=\"]}}") "}",
     "string"},
    {BAD, EDITS("0.3.0", "\"env\":[\"A\"]"), "NAME=VALUE"},
    {BAD, EDITS("0.3.0", "\"env\":[\"=b\"]"), "NAME=VALUE"},
    {BAD, EDITS("0.3.0", "\"env\":[1]"), "not a string"},
    {BAD, EDITS("0.3.0", "\"additionalGIDs\":[1]"), "unknown field; is additionalGids meant"},
    {BAD, EDITS("0.7.0", "\"additionalGids\":[-1]"), "range"},
    {BAD, EDITS("0.7.0", "\"additionalGids\":[4294967296]"), "range"},
    {BAD, EDITS("0.3.0", "\"additionalGids\":[1]"), "too low"},
    {BAD, EDITS("0.3.0", MOUNT(",\"type\":\"bind\"")), "too low"},
    {BAD, EDITS("0.4.0", NODE(",\"hostPath\":\"/dev/x\"")), "too low"},
    {BAD, EDITS("0.3.0", "\"mounts\":[{\"hostPath\":\"/a\",\"options\":[\"rprivate\"]}]"),
     "containerPath: missing"},
    {BAD, EDITS("0.3.0", MOUNT(",\"source\":\"x\"")), "unknown field"},
    {BAD, EDITS("0.3.0", "\"deviceNodes\":[{\"path\":\"\"}]"), "empty"},
    {BAD, EDITS("0.3.0", NODE(",\"type\":\"x\"")), "none of"},
    {BAD, EDITS("0.3.0", NODE(",\"permissions\":\"rwx\"")), "permissions"},
    {BAD, EDITS("0.3.0", NODE(",\"major\":\"1\"")), "number"},
    {BAD, EDITS("0.3.0", HOOK("createcontainer", ",\"env\":[\"A=b\"]")), "stage"},
    {BAD, EDITS("0.3.0", HOOK("prestart", ",\"env\":[\"A=b\"],\"timeout\":0")), "range"},
    {BAD, EDITS("0.3.0", "\"hooks\":[3]"), "not an object"},
    {BAD, EDITS("1.0.0", "\"netDevices\":[{\"hostInterfaceName\":\"a\",\"name\":\"b\"}]"),
     "too low"},
};

#define TEN "abcdefghi0"

TEST(vendor_and_class_are_as_long_as_the_specification_has_them)
{
    static const char *const vendors[] = {"virtgpu", "Vendor-1.Example.COM", TEN "." TEN "." TEN,
                                          TEN TEN TEN TEN TEN TEN "abc.d"};
    bool refused;

    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
        assert_null(cdi_names_vendor_fault(vendors[i], &refused));
    assert_non_null(cdi_names_vendor_fault(TEN TEN TEN TEN TEN TEN "abcd.e", &refused));
    assert_false(refused);
    char longest[260] = "";
    while (strlen(longest) < 250)
        strcat(longest, "abcdefghi.");
    assert_null(cdi_names_vendor_fault(strcat(longest, "abc"), &refused));
    assert_non_null(cdi_names_vendor_fault(strcat(longest, "d"), &refused));
    assert_null(cdi_names_class_fault(TEN TEN TEN TEN TEN TEN "a_b", &refused));
    assert_non_null(cdi_names_class_fault(TEN TEN TEN TEN TEN TEN "a_bc", &refused));
    assert_non_null(cdi_names_class_fault("1a", &refused));
    assert_true(refused);
}

TEST(each_case_is_graded)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cleanup_json struct json_object *spec = NULL;
        struct cdi_report report;

        if (apir_json_parse(cases[i].text, strlen(cases[i].text), &spec, NULL) != 0)
            fail_msg("the test's own JSON is wrong: %s", cases[i].text);
        cdi_report_init(&report);
        cdi_rules_check(spec, &report);
        enum outcome outcome = report.n_errors > 0 ? BAD : report.n > 0 ? WARN : GOOD;
        bool said = !cases[i].says;
        for (size_t k = 0; k < report.n_kept; k++)
            said = said || strstr(report.items[k].text, cases[i].says);
        if (outcome != cases[i].outcome || !said)
            fail_msg("%s\n  outcome %d, first: %s", cases[i].text, outcome,
                     report.n_kept > 0 ? report.items[0].text : "(nothing)");
        cdi_report_fini(&report);
    }
}

TEST(many_findings_are_counted_and_bounded)
{
    cleanup_json struct json_object *spec = json_object_new_object();
    struct cdi_report report;

    for (int i = 0; i < 1000; i++) {
        char key[16];

        snprintf(key, sizeof(key), "k%d", i);
        json_object_object_add(spec, key, NULL);
    }
    cdi_report_init(&report);
    cdi_rules_check(spec, &report);
    assert_true(report.n_errors >= 1000);
    assert_int_equal(report.n_kept, CDI_REPORT_MAX);
    cdi_report_fini(&report);
}

TEST(host_check_finds_what_is_missing)
{
    static const char text[] =
        "{\"devices\":[{\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/null\"},"
        "{\"path\":\"/dev/none1\"},{\"path\":\"/dev/null\",\"hostPath\":\"/dev/none2\"}]}}],"
        "\"containerEdits\":{\"mounts\":[{\"hostPath\":\"/none3\"}],"
        "\"hooks\":[{\"path\":\"/dev/null\"},{\"path\":\"/bin/sh\"}]}}";
    cleanup_json struct json_object *spec = NULL;
    struct cdi_report report;

    assert_int_equal(apir_json_parse(text, sizeof(text) - 1, &spec, NULL), 0);
    cdi_report_init(&report);
    cdi_rules_check_host(spec, "/", &report);
    assert_int_equal(report.n_errors, 4);
    assert_non_null(strstr(report.items[0].text, "/none3"));
    assert_non_null(strstr(report.items[1].text, "hook /dev/null"));
    assert_non_null(strstr(report.items[2].text, "none1"));
    assert_non_null(strstr(report.items[3].text, "none2"));
    cdi_report_fini(&report);
}
