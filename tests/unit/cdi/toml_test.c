/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "cdi/engine/toml.h"
#include "common/error.h"

TEST(values_are_found_where_they_are)
{
    static const struct {
        const char *text, *value; /* NULL: it is not there */
    } cases[] = {
        {"[plugins.\"io.containerd.grpc.v1.cri\"]\n enable_cdi = true\n", "true\n"},
        {"[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi=false # no\n", "false # no\n"},
        {"[ plugins . \"io.containerd.grpc.v1.cri\" ]\r\n\r\nenable_cdi = true", "true"},
        {"plugins.\"io.containerd.grpc.v1.cri\".enable_cdi = true", "true"},
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
        {"t = 1979-05-27 07:32:00Z\nf = -1_0.5e+3\ns = \"\\u0041\"\n[[t]]\na = 1\n[[t]]\n", NULL},
        {"", NULL},
        {"\"plug\\\"ins\".x = 1", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct apir_error err = {0};
        const char *found = NULL;
        int rc = cdi_toml_find(cases[i].text, "plugins.io.containerd.grpc.v1.cri.enable_cdi",
                               &found, &err);

        if (rc != (cases[i].value ? 1 : 0))
            fail_msg("%zu: %s\nsays: %s", i, cases[i].text, err.msg);
        if (found)
            assert_string_equal(found, cases[i].value);
    }
}

TEST(what_is_not_understood_is_refused_with_its_line)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"a = 1\nb\n", "line 2: no NAME = VALUE"},
        {"a = 1\n\n[]\n", "line 3: a table's name is not understood"},
        {"a = \"x\n\"\n", "line 1: a value that does not end"},
        {"a = [\n\"x\033\"]\n", "line 1: a value that does not end"},
        {"a = 'x\177'\n", "line 1: a value that does not end"},
        {"\na = \"\"\"x\n\"\n", "line 2: a value that does not end"},
        {"a = '''", "line 1: a value that does not end"},
        {"a = \"\\", "line 1: a value that does not end"},
        {"a = [1,\n2\n", "line 1: a value that does not end"},
        {"a = 1]\n", "line 1: a value that does not end"},
        {"[a\n", "line 1: a table's name"},
        {"\"\\u0041\" = 1\n", "line 1: no NAME = VALUE"},
        {"[z]\nlist = 1\n", "line 2: z.list is no list of strings"},
    };
    struct cdi_strings list = {0};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct apir_error err = {0};

        if (cdi_toml_list(cases[i].text, "z.list", &list, NULL, &err) != -EBADMSG ||
            strstr(err.msg, cases[i].says) != err.msg)
            fail_msg("%s\nsays: %s", cases[i].text, err.msg);
    }
    assert_int_equal(list.n, 0);
}

TEST(lists_are_read_with_their_append_mark)
{
    struct cdi_strings list = {0};
    bool append = false;

    assert_int_equal(cdi_toml_list("a = [\"/a\\\\b\", # one\n  '/c', {append = true},]\n", "a",
                                   &list, &append, NULL),
                     1);
    assert_true(append);
    assert_int_equal(list.n, 2);
    assert_true(cdi_strings_have(&list, "/a\\b") && cdi_strings_have(&list, "/c"));
    assert_false(cdi_strings_have(&list, "/"));
    cdi_strings_fini(&list);
    assert_int_equal(cdi_toml_list("a = ['/c', {append=false}]", "a", &list, &append, NULL), 1);
    assert_false(append);
    cdi_strings_fini(&list);

    static const char *const wrong[] = {
        "a = \"/a\"",    "a = [1]",
        "a = true",      "a = [{append = 1}]",
        "a = ['''a''']", "a = [\"/\\u0061\"]",
        "a = ['a' 'b']", "a = ['a'",
        "a = [",         "a = ",
        "a = [{x = 1}]", "a = [{append = true]",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (cdi_toml_list(wrong[i], "a", &list, &append, NULL) != -EBADMSG)
            fail_msg("taken: %s", wrong[i]);
        cdi_strings_fini(&list);
    }
}

TEST(strings_are_written_as_they_are_read)
{
    const char *text = "a = [\"/\\\"a\\\\ \\b\\t\\n\\f\\r\"]";
    struct cdi_strings list = {0};
    char *written = NULL;
    size_t size = 0;

    assert_int_equal(cdi_toml_list(text, "a", &list, NULL, NULL), 1);
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
