/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/engine/toml.h"
#include "common/error.h"

static const char *const cdi[] = {"plugins", "io.containerd.grpc.v1.cri", "enable_cdi"};
static const char *const top[] = {"version"};

static struct cdi_toml_place find(const char *text, const char *const *path, size_t n)
{
    struct apir_error err = {0};
    struct cdi_toml_place place;

    if (cdi_toml_find(text, path, n, &place, &err) != 0)
        fail_msg("%s\n%s", text, err.msg);
    return place;
}

/* Text, and the value found there; NULL: none. */
static void values_are_found_where_they_are(void **state)
{
    static const struct {
        const char *text, *value;
        size_t line;
    } cases[] = {
        {"[plugins.\"io.containerd.grpc.v1.cri\"]\n enable_cdi = true\n", "true", 2},
        {"[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi=false # no\n", "false", 2},
        {"[ plugins . \"io.containerd.grpc.v1.cri\" ]\r\n\r\nenable_cdi = true\r\n", "true", 3},
        {"a = 1\n[plugins]\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nenable_cdi = 1\n",
         NULL, 0},
        {"[plugins.\"io.containerd.grpc.v1.cri\".x]\na=1\n[plugins.\"io.containerd.grpc.v1.cri\"]\n"
         "enable_cdi = true",
         "true", 4},
        {"[other]\nenable_cdi = true\n", NULL, 0},
        {"# enable_cdi = true\n", NULL, 0},
        {"s = \"\"\"\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = true\n\"\"\"\n", NULL,
         0},
        {"s = '''\nenable_cdi = "
         "true\n''''\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi=false",
         "false", 5},
        {"a = [ # x\n 'y', [1, 2,],\n {k = 1, \"l.m\" = []},\n]\n"
         "[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = true",
         "true", 6},
        {"t = 1979-05-27 07:32:00Z\nf = -1_0.5e+3\n", NULL, 0},
        {"", NULL, 0},
        {"\"plug\\\"ins\".x = 1", NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cdi_toml_place p = find(cases[i].text, cdi, 3);

        if (p.found != (cases[i].value != NULL))
            fail_msg("%zu: %s", i, cases[i].text);
        if (!p.found)
            continue;
        assert_int_equal(p.line, cases[i].line);
        assert_int_equal(p.end - p.start, strlen(cases[i].value));
        assert_memory_equal(cases[i].text + p.start, cases[i].value, p.end - p.start);
    }
    assert_true(find("version = 2\n[a]\nversion = 3\n", top, 1).found);
    assert_false(find("[a]\nversion = 3\n", top, 1).found);
}

static void what_is_not_understood_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"a = 1\nb\n", "line 2: = is missing"},
        {"a = \n", "line 1: a value is missing"},
        {"a = 1 2\n", "line 1: something follows the value"},
        {"a = \"x\n\"\n", "line 1: a string that does not end"},
        {"\na = \"\"\"x\n\"\n", "line 2: a string that does not end"},
        {"a = '''", "line 1: a string that does not end"},
        {"a = [1,\n2\n", "line 1: an array that does not end"},
        {"a = [1 2]\n", "line 1: a comma is missing"},
        {"a = {b = 1\n}\n", "line 1: a comma is missing in an inline table"},
        {"[a\n", "line 1: ] is missing"},
        {"[]\n", "line 1: a name is missing"},
        {"a..b = 1\n", "line 1: a name is missing"},
        {"[plugins.\"io.containerd.grpc.v1.cri\"]\na=1\n[plugins.\"io.containerd.grpc.v1.cri\"]\n",
         "line 3: this table is there twice"},
        {"[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi=true\nenable_cdi = true",
         "line 3: this value is there twice"},
        {"[plugins]\n\"io.containerd.grpc.v1.cri\" = {enable_cdi = true}\n", "line 2: this table"},
        {"[plugins]\n\"io.containerd.grpc.v1.cri\".enable_selinux = true\n", "line 2: this table"},
        {"plugins = {}\n", "line 1: this table"},
        {"[[plugins]]\n", "line 1: a list of tables"},
        {"[plugins.\"io.containerd.grpc.v1.cri\".enable_cdi]\n", "line 1: a table where"},
        {"a = [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]", "line 1: nested too deeply"},
        {"a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1", "line 1: a name of too many parts"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct apir_error err = {0};
        struct cdi_toml_place place = {.line = 77};

        if (cdi_toml_find(cases[i].text, cdi, 3, &place, &err) != -EBADMSG ||
            strstr(err.msg, cases[i].says) != err.msg || place.line != 77)
            fail_msg("%s\nsays: %s", cases[i].text, err.msg);
    }
}

static void lists_are_read_with_their_append_mark(void **state)
{
    static const char *const path[] = {"engine", "hooks_dir"};
    const char *text = "[engine]\nhooks_dir = [\"/a\\\\b\", # one\n  '/c', {append = true},]\n";
    struct cdi_toml_place p = find(text, path, 2);
    struct cdi_strings list = {0};
    bool append = false, value = false;

    (void)state;
    assert_int_equal(cdi_toml_strings(text, &p, &list, &append), 0);
    assert_true(append);
    assert_int_equal(list.n, 2);
    assert_true(cdi_strings_have(&list, "/a\\b") && cdi_strings_have(&list, "/c"));
    assert_false(cdi_strings_have(&list, "/"));
    cdi_strings_fini(&list);

    static const char *const wrong[] = {"[engine]\nhooks_dir = \"/a\"", "[engine]\nhooks_dir = [1]",
                                        "[engine]\nhooks_dir = [{prepend = true}]",
                                        "[engine]\nhooks_dir = [{append = 1}]",
                                        "[engine]\nhooks_dir = ['''a''']"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        p = find(wrong[i], path, 2);
        assert_int_equal(cdi_toml_strings(wrong[i], &p, &list, &append), -EBADMSG);
        cdi_strings_fini(&list);
    }
    p = find("[engine]\nhooks_dir = true", path, 2);
    assert_int_equal(cdi_toml_bool("[engine]\nhooks_dir = true", &p, &value), 0);
    assert_true(value);
    p = find("[engine]\nhooks_dir = True", path, 2);
    assert_int_equal(cdi_toml_bool("[engine]\nhooks_dir = True", &p, &value), -EBADMSG);
}

static void strings_are_written_as_they_are_read(void **state)
{
    static const char *const path[] = {"engine", "hooks_dir"};
    const char *text = "[engine]\nhooks_dir = [\"/\\\"a\\\\ \\b\\t\\n\\f\\r\"]\n";
    const char *wrong = "[engine]\nhooks_dir = [\"/\\u0061\"]\n";
    struct cdi_toml_place p = find(text, path, 2);
    struct cdi_strings list = {0};
    char *written = NULL;
    size_t size = 0;

    (void)state;
    assert_int_equal(cdi_toml_strings(text, &p, &list, NULL), 0);
    assert_true(cdi_strings_have(&list, "/\"a\\ \b\t\n\f\r"));
    FILE *out = open_memstream(&written, &size);
    assert_non_null(out);
    cdi_toml_put_string(out, list.items[0]);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(p.end - p.start, size + 2);
    assert_memory_equal(written, text + p.start + 1, size);
    free(written);
    cdi_strings_fini(&list);
    p = find(wrong, path, 2);
    assert_int_equal(cdi_toml_strings(wrong, &p, &list, NULL), -EBADMSG);
    cdi_strings_fini(&list);
}

static void a_list_has_an_end(void **state)
{
    struct cdi_strings list = {0};

    (void)state;
    for (int i = 0; i < CDI_STRINGS_MAX; i++)
        assert_int_equal(cdi_strings_add(&list, "x"), 0);
    assert_int_equal(cdi_strings_add(&list, "x"), -ENOSPC);
    cdi_strings_fini(&list);
    assert_int_equal(list.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_where_they_are),
        cmocka_unit_test(what_is_not_understood_is_refused_with_its_line),
        cmocka_unit_test(lists_are_read_with_their_append_mark),
        cmocka_unit_test(strings_are_written_as_they_are_read),
        cmocka_unit_test(a_list_has_an_end),
    };

    return cmocka_run_group_tests_name("cdi_toml", tests, NULL, NULL);
}
