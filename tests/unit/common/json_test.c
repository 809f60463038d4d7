/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include <json-c/json.h>

#include "common/file.h"
#include "common/json.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "tests/lib/unit.h"

static int parse(const char *text, size_t size)
{
    struct json_object *object = NULL;
    struct apir_error err = {0};
    int rc = apir_json_parse(text, size, &object, &err);

    assert_int_equal(rc == 0, !!object);
    assert_int_equal(err.code, -rc);
    json_object_put(object);
    return rc;
}

TEST(parse_takes_one_object)
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

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(parse(good[i], strlen(good[i])), 0);
}

TEST(parse_refuses_all_else)
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

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse(bad[i], strlen(bad[i])) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(parse("{}\0x", 4), -EBADMSG);
}

TEST(parse_refuses_what_readers_differ_about)
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

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse(bad[i], strlen(bad[i])) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
}

TEST(string_with_nul_is_none)
{
    cleanup_json struct json_object *object = NULL;
    static const char text[] = "{\"a\":\"/etc\\u0000/x\",\"b\":\"/etc\",\"c\":3}";

    assert_int_equal(apir_json_parse(text, sizeof(text) - 1, &object, NULL), 0);
    assert_null(apir_json_string(object, "a"));
    assert_string_equal(apir_json_string(object, "b"), "/etc");
    assert_null(apir_json_string(object, "c"));
    assert_null(apir_json_string(object, "none"));
    assert_null(apir_json_string(NULL, "a"));
}

TEST(read_stops_at_the_bound)
{
    char *data = NULL;
    size_t size = 0;
    int fds[2];

    for (size_t extra = 0; extra <= 1; extra++) {
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        for (size_t i = 0; i < 5000 + extra; i++)
            assert_int_equal(write(fds[1], "x", 1), 1);
        close(fds[1]);
        int rc = apir_file_read(fds[0], 5000, &data, &size, NULL);
        assert_int_equal(rc, extra == 0 ? 0 : -EFBIG);
        if (rc == 0) {
            assert_int_equal(size, 5000);
            assert_int_equal(data[5000], 0);
            free(data);
        }
        close(fds[0]);
    }
}

TEST(load_names_the_file)
{
    struct json_object *object = NULL;
    struct apir_error err = {0};

    assert_int_equal(apir_json_load("/nonexistent/x.json", 100, &object, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "/nonexistent/x.json"));
}
