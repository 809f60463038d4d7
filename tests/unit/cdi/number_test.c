/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "common/json.h"
#include "cdi/spec/number.h"
#include "cdi/spec/spec.h"
#include "tests/lib/unit.h"

#define N128 "/dev/dri/renderD128"
#define N129 "/dev/dri/renderD129"

#define ROWS_MAX 6

/* Each row: what the file said, what is found, which numbers come out. */
static const struct {
    const char *why;
    struct cdi_spec_device known[ROWS_MAX], found[ROWS_MAX];
    unsigned numbers[ROWS_MAX];
} cases[] = {
    {"nothing known: from 0", {{0}}, {{0, N128, "a"}, {0, N128, "b"}}, {0, 1}},
    {"the host lists them the other way round",
     {{0, N128, "a"}, {1, N128, "b"}},
     {{0, N128, "b"}, {0, N128, "a"}},
     {1, 0}},
    {"one is gone: the other keeps its number",
     {{0, N128, "a"}, {1, N128, "b"}},
     {{0, N128, "b"}},
     {1}},
    {"it comes back", {{1, N128, "b"}}, {{0, N128, "a"}, {0, N128, "b"}}, {0, 1}},
    {"a new one between: the lowest free number",
     {{0, N128, "a"}, {2, N128, "c"}},
     {{0, N128, "x"}, {0, N128, "a"}, {0, N128, "c"}, {0, N128, "y"}},
     {1, 0, 2, 3}},
    {"exchanged: the only GPU is gpu0", {{0, N128, "a"}}, {{0, N128, "z"}}, {0}},
    {"exchanged beside another",
     {{0, N128, "a"}, {1, N128, "b"}},
     {{0, N128, "z"}, {0, N128, "b"}},
     {0, 1}},
    {"the node has another number",
     {{0, N128, "a"}, {1, N128, "b"}},
     {{0, N129, "b"}, {0, N129, "a"}},
     {1, 0}},
    {"the same GPU behind two nodes",
     {{0, N128, "a"}, {1, N129, "a"}},
     {{0, N129, "a"}, {0, N128, "a"}},
     {1, 0}},
    {"one of two such nodes is gone: the exact match, not the first",
     {{0, N128, "a"}, {1, N129, "a"}},
     {{0, N129, "a"}},
     {1}},
    {"a file of before there were ids",
     {{0, N128, ""}, {1, N129, ""}},
     {{0, N129, "b"}, {0, N128, "a"}, {0, N128, "c"}},
     {1, 0, 2}},
    {"not asked this time", {{4, N128, "a"}, {5, N128, "b"}}, {{0, N128, ""}}, {4}},
    {"an id is no node's: a guess does not take what is known by id",
     {{0, N128, ""}, {1, N128, "a"}},
     {{0, N128, "n"}, {0, N128, "a"}},
     {0, 1}},
};

TEST(each_case_is_numbered)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cdi_spec_device found[ROWS_MAX];
        size_t n_known = 0, n_found = 0;

        memcpy(found, cases[i].found, sizeof(found));
        while (n_known < ROWS_MAX && cases[i].known[n_known].node[0] != '\0')
            n_known++;
        while (n_found < ROWS_MAX && found[n_found].node[0] != '\0')
            n_found++;
        cdi_number_assign(found, n_found, cases[i].known, n_known);
        for (size_t k = 0; k < n_found; k++)
            if (found[k].number != cases[i].numbers[k])
                fail_msg("%s: device %zu is gpu%u", cases[i].why, k, found[k].number);
    }
}

TEST(full_house_is_numbered_once_each)
{
    static struct cdi_spec_device known[CDI_DEVICES_MAX], found[CDI_DEVICES_MAX];
    bool seen[CDI_DEVICES_MAX] = {false};

    for (unsigned i = 0; i < CDI_DEVICES_MAX; i++) {
        known[i] = (struct cdi_spec_device){CDI_NUMBER_MAX - i, N128, ""};
        found[i] = (struct cdi_spec_device){0, N128, ""};
        snprintf(known[i].id, sizeof(known[i].id), "k%u", i);
        snprintf(found[i].id, sizeof(found[i].id), "f%u", i);
    }
    cdi_number_assign(found, CDI_DEVICES_MAX, known, CDI_DEVICES_MAX);
    for (unsigned i = 0; i < CDI_DEVICES_MAX; i++) {
        assert_true(found[i].number < CDI_DEVICES_MAX && !seen[found[i].number]);
        seen[found[i].number] = true;
    }
    cdi_number_assign(known, CDI_DEVICES_MAX, known, CDI_DEVICES_MAX);
    assert_int_equal(known[5].number, CDI_NUMBER_MAX - 5);
}

static size_t read_text(const char *text, struct cdi_spec_device *known)
{
    cleanup_json struct json_object *spec = NULL;

    if (apir_json_parse(text, strlen(text), &spec, NULL) != 0)
        fail_msg("the test's own JSON is wrong: %s", text);
    return cdi_number_read(spec, false, known);
}

TEST(what_was_written_is_read)
{
    static const struct cdi_spec_device devices[] = {{7, N128, "uuid-1"}, {0, N129, ""}};
    static struct cdi_spec_device known[CDI_DEVICES_MAX];
    static const struct cdi_spec_device of_host[] = {{3, "", "cpu"}, {0, "", "uuid-2"}};
    struct cdi_spec_options o = {"virtgpu", "apir",           "/p",    "/h", devices,
                                 2,         "/run/apir/host", of_host, 2};
    cleanup_json struct json_object *spec = NULL;

    assert_int_equal(cdi_spec_build(&o, &spec, NULL), 0);
    assert_int_equal(cdi_number_read(spec, false, known), 2);
    assert_int_equal(known[0].number, 7);
    assert_string_equal(known[0].node, N128);
    assert_string_equal(known[0].id, "uuid-1");
    assert_int_equal(known[1].number, 0);
    assert_string_equal(known[1].node, N129);
    assert_string_equal(known[1].id, "");
    assert_int_equal(cdi_number_read(spec, true, known), 2);
    assert_int_equal(known[0].number, 3);
    assert_string_equal(known[0].node, "");
    assert_string_equal(known[0].id, "cpu");
    assert_int_equal(known[1].number, 0);
    assert_string_equal(known[1].id, "uuid-2");
}

TEST(whatever_else_is_there_is_left_alone)
{
#define DEVICE(name, edits) "{\"name\":\"" name "\",\"containerEdits\":{" edits "}}"
#define NODE                "\"deviceNodes\":[{\"path\":\"/n\"}]"
    static const char *const devices[] = {
        DEVICE("gpu", NODE),     DEVICE("gpu00", NODE),
        DEVICE("gpu-1", NODE),   DEVICE("gpu10000", NODE),
        DEVICE("gpu1x", NODE),   DEVICE("host0", NODE),
        DEVICE("gpu3", ""),      DEVICE("gpu1", "\"deviceNodes\":[]"),
        DEVICE("host0-", ""),    DEVICE("host0-1", "\"env\":[\"APIR_DEVICE_1=x\"]"),
        "3,null,{},[],\"gpu0\"", DEVICE("gpu2", "\"deviceNodes\":[{\"path\":1}]"),
    };
    static struct cdi_spec_device known[CDI_DEVICES_MAX];
    char text[1024] = "{\"devices\":[";

    assert_int_equal(read_text("{}", known), 0);
    assert_int_equal(read_text("{\"devices\":3}", known), 0);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
        strcat(strcat(text, i > 0 ? "," : ""), devices[i]);
    assert_int_equal(read_text(strcat(text, "]}"), known), 0);
    cleanup_json struct json_object *spec = NULL;
    assert_int_equal(apir_json_parse(text, strlen(text), &spec, NULL), 0);
    assert_int_equal(cdi_number_read(spec, true, known), 0);
    /* Names twice are no spec's, but a file may hold them. */
    assert_int_equal(
        read_text("{\"devices\":[" DEVICE("gpu5", NODE) "," DEVICE("gpu5", NODE) "]}", known), 1);
    assert_int_equal(
        read_text("{\"devices\":[" DEVICE(
                      "gpu9999",
                      "\"env\":[1,{},\"APIR_DEVICE_999=x\",\"APIR_DEVICE_9999=y\"]," NODE) "]}",
                  known),
        1);
    assert_int_equal(known[0].number, 9999);
    assert_string_equal(known[0].id, "y");
}
