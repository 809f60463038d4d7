/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <json-c/json.h>

#include "cdi/engine/toml.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

static struct json_object *parse(const char *text)
{
    struct json_object *top = NULL;
    struct apir_error err = {0};

    if (cdi_toml_parse(text, &top, &err) != 0)
        fail_msg("%s\n%s", text, err.msg);
    return top;
}

TEST(values_are_found_where_they_are)
{
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"[plugins.\"io.containerd.grpc.v1.cri\"]\n enable_cdi = true\n", "true"},
        {"[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi=false # no\n", "false"},
        {"[ plugins . \"io.containerd.grpc.v1.cri\" ]\r\n\r\nenable_cdi = true\r\n", "true"},
        {"a = 1\n[plugins]\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nenable_cdi = 1\n",
         NULL},
        {"[plugins.\"io.containerd.grpc.v1.cri\".x]\na=1\n[plugins.\"io.containerd.grpc.v1.cri\"]\n"
         "enable_cdi = true",
         "true"},
        {"[other]\nenable_cdi = true\n", NULL},
        {"# enable_cdi = true\n", NULL},
        {"s = \"\"\"\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = true\n\"\"\"\n", NULL},
        {"s = '''\nenable_cdi = "
         "true\n''''\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi=false",
         "false"},
        {"a = [ # x\n 'y', [1, 2,],\n {k = 1, \"l.m\" = []},\n]\n"
         "[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = true",
         "true"},
        {"t = 1979-05-27 07:32:00Z\nf = -1_0.5e+3\n", NULL},
        {"", NULL},
        {"\"plug\\\"ins\".x = 1", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cleanup_json struct json_object *top = parse(cases[i].text);
        struct json_object *found = NULL;

        json_object_object_get_ex(
            apir_json_object(apir_json_object(top, "plugins"), "io.containerd.grpc.v1.cri"),
            "enable_cdi", &found);
        if (!found != !cases[i].value)
            fail_msg("%zu: %s", i, cases[i].text);
        if (found)
            assert_string_equal(json_object_get_string(found), cases[i].value);
    }
}

/* The whole of it, as JSON. */
TEST(tables_and_values_are_what_they_are)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"version = 2\n[a]\nversion = 3\n", "{\"version\":2,\"a\":{\"version\":3}}"},
        {"a.b = 1\na.c = {d = [], e.f = 'x'}\n",
         "{\"a\":{\"b\":1,\"c\":{\"d\":[],\"e\":{\"f\":\"x\"}}}}"},
        {"[[t]]\na = 1\n[t.u]\n[[t]]\na = 2\n", "{\"t\":[{\"a\":1,\"u\":{}},{\"a\":2}]}"},
        /* What nobody asks for is null. */
        {"a = 1979-05-27 07:32:00Z\nb = -1_0.5e+3\nc = '''x'''\nd = \"\\u0041\"\ne = 9999999999",
         "{\"a\":null,\"b\":null,\"c\":null,\"d\":null,\"e\":null}"},
        {"a = [true, false, {append = true},]", "{\"a\":[true,false,{\"append\":true}]}"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cleanup_json struct json_object *top = parse(cases[i].text);

        assert_string_equal(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN),
                            cases[i].json);
    }
}

TEST(what_is_not_understood_is_refused_with_its_line)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"a = 1\nb\n", "line 2: = is missing"},
        {"a = \n", "line 1: a value is missing"},
        {"a = 1 2\n", "line 1: something follows the value"},
        {"a = \"x\n\"\n", "line 1: a string that does not end"},
        {"a = [\n\"x\033\"]\n", "line 2: a control character in a string"},
        {"a = 'x\177'\n", "line 1: a control character in a string"},
        {"\na = \"\"\"x\n\"\n", "line 2: a string that does not end"},
        {"a = '''", "line 1: a string that does not end"},
        {"a = [1,\n2\n", "line 1: an array that does not end"},
        {"a = [1 2]\n", "line 1: a comma is missing"},
        {"a = {b = 1\n}\n", "line 1: a comma is missing in an inline table"},
        {"[a\n", "line 1: ] is missing"},
        {"[]\n", "line 1: a name is missing"},
        {"a..b = 1\n", "line 1: a name is missing"},
        {"[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi=true\nenable_cdi = true",
         "line 3: this value is there twice"},
        {"a = 1\n[a.b]\n", "line 2: a table where there is a value"},
        {"a = 1\na.b = 1\n", "line 2: a table where there is a value"},
        {"[a]\n[[a]]\n", "line 2: a list of tables where"},
        {"\"\\u0041\" = 1\n", "line 1: a name that is not understood"},
        {"a = [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]", "line 1: nested too deeply"},
        {"a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1", "line 1: a name of too many parts"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct apir_error err = {0};
        struct json_object *top = NULL;

        if (cdi_toml_parse(cases[i].text, &top, &err) != -EBADMSG ||
            strstr(err.msg, cases[i].says) != err.msg || top)
            fail_msg("%s\nsays: %s", cases[i].text, err.msg);
    }
}

/* a's value in this text, as a list. */
static int read_list(const char *text, struct cdi_strings *list, bool *append)
{
    cleanup_json struct json_object *top = parse(text);
    struct json_object *value = NULL;

    json_object_object_get_ex(top, "a", &value);
    return cdi_toml_strings(value, list, append);
}

TEST(lists_are_read_with_their_append_mark)
{
    struct cdi_strings list = {0};
    bool append = false;

    assert_int_equal(
        read_list("a = [\"/a\\\\b\", # one\n  '/c', {append = true},]\n", &list, &append), 0);
    assert_true(append);
    assert_int_equal(list.n, 2);
    assert_true(cdi_strings_have(&list, "/a\\b") && cdi_strings_have(&list, "/c"));
    assert_false(cdi_strings_have(&list, "/"));
    cdi_strings_fini(&list);

    static const char *const wrong[] = {
        "a = \"/a\"",         "a = [1]",       "a = true",          "a = [{prepend = true}]",
        "a = [{append = 1}]", "a = ['''a''']", "a = [\"/\\u0061\"]"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(read_list(wrong[i], &list, &append), -EBADMSG);
        cdi_strings_fini(&list);
    }
}

TEST(strings_are_written_as_they_are_read)
{
    const char *text = "a = [\"/\\\"a\\\\ \\b\\t\\n\\f\\r\"]";
    struct cdi_strings list = {0};
    char *written = NULL;
    size_t size = 0;

    assert_int_equal(read_list(text, &list, NULL), 0);
    assert_true(cdi_strings_have(&list, "/\"a\\ \b\t\n\f\r"));
    FILE *out = open_memstream(&written, &size);
    assert_non_null(out);
    cdi_toml_put_string(out, list.items[0]);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(strlen(text), size + strlen("a = []"));
    assert_memory_equal(written, text + strlen("a = ["), size);
    free(written);
    cdi_strings_fini(&list);
}

TEST(a_list_has_an_end)
{
    struct cdi_strings list = {0};

    for (int i = 0; i < CDI_STRINGS_MAX; i++)
        assert_int_equal(cdi_strings_add(&list, "x"), 0);
    assert_int_equal(cdi_strings_add(&list, "x"), -ENOSPC);
    cdi_strings_fini(&list);
    assert_int_equal(list.n, 0);
}
