/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "common/file.h"
#include "common/json.h"
#include "common/cleanup.h"
#include "common/error.h"

static int parse(const char *text, size_t size)
{
    struct json_object *object = NULL;
    struct apir_error err = {0};
    int r = apir_json_parse(text, size, &object, &err);

    assert_int_equal(r == 0, object != NULL);
    assert_int_equal(err.code, -r);
    json_object_put(object);
    return r;
}

static void parse_takes_one_object(void **state)
{
    static const char *const good[] = {
        "{}",
        " {\"a\": [1, {\"b\": null}]} \r\n\t",
        "{\"p\":\"\\/a\\/b\"}",
        "{\"a\":{\"a\":{\"a\":1},\"b\":2},\"b\":[{\"a\":1},{\"a\":2}]}",
        "{\"a:'N\\\"I'\":\":'NI\\\\\"}",
        "{\"a\":\"\\u0000\",\"a\\\\u0000\":1}",
        "{\"a\":[0,-0,10,-10,0.5,1e5,1E+5,-1.25e-3,-9,true,false,null]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(parse(good[i], strlen(good[i])), 0);
}

static void parse_refuses_all_else(void **state)
{
    static const char *const bad[] = {
        "",           " ",
        "null",       "[]",
        "1",          "\"x\"",
        "{",          "{\"a\":",
        "{}{}",       "{} x",
        "{\"a\":1,}", "{\"a\":\"\xff\"}",
        "{\"a\" 1}",  "\xef\xbb\xbf{}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse(bad[i], strlen(bad[i])) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(parse("{}\0x", 4), -EBADMSG);
}

static void parse_refuses_what_readers_differ_about(void **state)
{
    static const char *const bad[] = {
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":1}",
        "{\"x\":[{\"y\":{\"a\":1,\"b\":2,\"a\":1}}]}",
        "{\"a\":{},\"a\":{\"b\":1}}",
        "{'a':1}",
        "{\"a\":NaN}",
        "{\"a\":-Infinity}",
        "{\"a\\u0000b\":1}",
        "{\"\\\\\\u0000\" : 1}",
        "{\"a\":-01}",
        "{\"a\":00}",
        "{\"a\":1.}",
        "{\"a\":[1.e5]}",
        "{\"a\":{},\"a\":{\"b\":1,\"c\":2}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse(bad[i], strlen(bad[i])) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
}

static void parse_refuses_every_truncation(void **state)
{
    static const char text[] = "{\"id\":\"x\",\"pid\":12,\"list\":[true,{\"a\":\"b\\u00e9\"}]}";

    (void)state;
    assert_int_equal(parse(text, sizeof(text) - 1), 0);
    for (size_t n = 0; n < sizeof(text) - 1; n++)
        assert_int_equal(parse(text, n), -EBADMSG);
}

static void parse_refuses_depth(void **state)
{
    char deep[20000];

    (void)state;
    memset(deep, '[', sizeof(deep));
    memcpy(deep, "{\"a\":", 5);
    assert_int_equal(parse(deep, sizeof(deep)), -EBADMSG);
}

static void string_with_nul_is_none(void **state)
{
    cleanup_json struct json_object *object = NULL;
    static const char text[] = "{\"a\":\"/etc\\u0000/x\",\"b\":\"/etc\",\"c\":3}";

    (void)state;
    assert_int_equal(apir_json_parse(text, sizeof(text) - 1, &object, NULL), 0);
    assert_null(apir_json_string(object, "a"));
    assert_string_equal(apir_json_string(object, "b"), "/etc");
    assert_null(apir_json_string(object, "c"));
    assert_null(apir_json_string(object, "none"));
    assert_null(apir_json_string(NULL, "a"));
}

static void read_stops_at_the_bound(void **state)
{
    char *data = NULL;
    size_t size = 0;
    int fds[2];

    (void)state;
    for (size_t extra = 0; extra <= 1; extra++) {
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        for (size_t i = 0; i < 5000 + extra; i++)
            assert_int_equal(write(fds[1], "x", 1), 1);
        close(fds[1]);
        int r = apir_file_read(fds[0], 5000, &data, &size, NULL);
        assert_int_equal(r, extra == 0 ? 0 : -EFBIG);
        if (r == 0) {
            assert_int_equal(size, 5000);
            assert_int_equal(data[5000], 0);
            free(data);
        }
        close(fds[0]);
    }
}

static void load_names_the_file(void **state)
{
    struct json_object *object = NULL;
    struct apir_error err = {0};

    (void)state;
    assert_int_equal(apir_json_load("/nonexistent/x.json", 100, &object, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "/nonexistent/x.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_takes_one_object),
        cmocka_unit_test(parse_refuses_all_else),
        cmocka_unit_test(parse_refuses_what_readers_differ_about),
        cmocka_unit_test(parse_refuses_every_truncation),
        cmocka_unit_test(parse_refuses_depth),
        cmocka_unit_test(string_with_nul_is_none),
        cmocka_unit_test(read_stops_at_the_bound),
        cmocka_unit_test(load_names_the_file),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
