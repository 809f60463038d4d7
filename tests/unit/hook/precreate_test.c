/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "common/json.h"
#include "hook/precreate.h"
#include "tests/lib/unit.h"

/* /dev/null and /dev/zero stand for render nodes: they are there everywhere. */
static const char spec_text[] =
    "{\"cdiVersion\":\"0.3.0\",\"kind\":\"virtgpu/apir\",\"devices\":["
    "{\"name\":\"gpu0\",\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/"
    "null\",\"permissions\":\"rw\"}]}},"
    "{\"name\":\"gpu1\",\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/zero\"}]}},"
    "{\"name\":\"gone\",\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/none\"}]}},"
    "{\"name\":\"file\",\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/etc/passwd\"}]}}],"
    "\"containerEdits\":{\"env\":[\"P=/p\",\"V=\"],"
    "\"mounts\":[{\"hostPath\":\"/h\",\"containerPath\":\"/p\",\"options\":[\"ro\",\"bind\"]}],"
    "\"hooks\":[{\"hookName\":\"createContainer\",\"path\":\"/hook\",\"args\":[\"a\"],"
    "\"env\":[\"PATH=/bin\"],\"timeout\":10}]}}";

static struct json_object *read_json(const char *text)
{
    struct json_object *object = NULL;

    assert_int_equal(apir_json_parse(text, strlen(text), &object, NULL), 0);
    return object;
}

static int apply(const char *devices, const char *config_text, struct json_object **ret_config)
{
    cleanup_json struct json_object *spec = read_json(spec_text);
    struct json_object *config = read_json(config_text);
    int rc = hook_config_apply(config, spec, devices, NULL);

    if (ret_config)
        *ret_config = config;
    else
        json_object_put(config);
    return rc;
}

static void same(struct json_object *config, const char *want_text)
{
    cleanup_json struct json_object *want = read_json(want_text);

    /* Owner and mode of the node are the machine's. */
    struct json_object *devices = apir_json_member(
        apir_json_member(config, "linux", json_type_object), "devices", json_type_array);
    for (size_t i = 0; devices && i < json_object_array_length(devices); i++) {
        struct json_object *d = json_object_array_get_idx(devices, i);
        json_object_object_del(d, "fileMode");
        json_object_object_del(d, "uid");
        json_object_object_del(d, "gid");
    }
    if (!json_object_equal(config, want))
        fail_msg("%s", json_object_to_json_string_ext(config, JSON_C_TO_STRING_NOSLASHESCAPE));
}

#define NULL_DEVICE "{\"type\":\"c\",\"major\":1,\"minor\":3,\"path\":\"/dev/null\"}"
#define NULL_RULE   "{\"allow\":true,\"type\":\"c\",\"major\":1,\"minor\":3,\"access\":\"rw\"}"
#define P_MOUNT                                                                                    \
    "{\"destination\":\"/p\",\"source\":\"/h\",\"type\":\"bind\",\"options\":[\"ro\",\"bind\"]}"
#define P_HOOK "{\"path\":\"/hook\",\"args\":[\"a\"],\"env\":[\"PATH=/bin\"],\"timeout\":10}"

TEST(empty_config_gets_everything)
{
    cleanup_json struct json_object *config = NULL;

    assert_int_equal(apply("gpu0", "{}", &config), 0);
    same(config, "{\"linux\":{\"devices\":[" NULL_DEVICE "],\"resources\":{\"devices\":[" NULL_RULE
                 "]}},\"process\":{\"env\":[\"P=/p\",\"V=\"]},\"mounts\":[" P_MOUNT
                 "],\"hooks\":{\"createContainer\":[" P_HOOK "]}}");
}

TEST(existing_members_are_kept)
{
    cleanup_json struct json_object *config = NULL;

    assert_int_equal(
        apply("virtgpu/apir=gpu0",
              "{\"x\":18446744073709551615,\"linux\":{\"devices\":[],\"resources\":{\"devices\":["
              "{\"allow\":false,\"access\":\"rwm\"}]}},\"process\":{\"env\":[\"A=1\",\"P=mine\","
              "\"PP=2\"]},"
              "\"mounts\":[{\"destination\":\"/proc\"}],\"hooks\":{\"poststop\":[]}}",
              &config),
        0);
    same(config, "{\"x\":18446744073709551615,\"linux\":{\"devices\":[" NULL_DEVICE
                 "],\"resources\":{\"devices\":[{\"allow\":false,\"access\":\"rwm\"}," NULL_RULE
                 "]}},\"process\":{\"env\":[\"A=1\",\"P=/p\",\"PP=2\",\"V=\"]},\"mounts\":["
                 "{\"destination\":\"/proc\"}," P_MOUNT
                 "],\"hooks\":{\"poststop\":[],\"createContainer\":[" P_HOOK "]}}");
}

TEST(twice_is_once)
{
    cleanup_json struct json_object *config = NULL;

    assert_int_equal(apply("gpu0, gpu1,gpu0", "{}", &config), 0);
    struct json_object *lin = apir_json_member(config, "linux", json_type_object);
    assert_int_equal(json_object_array_length(apir_json_member(lin, "devices", json_type_array)),
                     2);
    assert_int_equal(json_object_array_length(apir_json_member(config, "mounts", json_type_array)),
                     1);
}

TEST(wrong_requests_are_told_apart)
{
    assert_int_equal(apply("gpu7", "{}", NULL), -ENODEV);
    assert_int_equal(apply("", "{}", NULL), -ENODEV);
    assert_int_equal(apply(",", "{}", NULL), -ENODEV);
    assert_int_equal(apply("other/kind=gpu0", "{}", NULL), -ENODEV);
    assert_int_equal(apply("virtgpu/api=gpu0", "{}", NULL), -ENODEV);
    assert_int_equal(apply("gone", "{}", NULL), -ENOENT);
    assert_int_equal(apply("file", "{}", NULL), -ENOTTY);
    assert_int_equal(apply("gpu0", "{\"linux\":[]}", NULL), -EBADMSG);
    assert_int_equal(apply("gpu0", "{\"linux\":{\"devices\":{}}}", NULL), -EBADMSG);
    assert_true(apply("gpu0", "{\"process\":[]}", NULL) < 0);
    assert_true(apply("gpu0", "{\"mounts\":{}}", NULL) < 0);
    assert_true(apply("gpu0", "{\"hooks\":{\"createContainer\":3}}", NULL) < 0);
}
