/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "common/json.h"
#include "common/oci/request.h"
#include "common/oci/cdi_devices.h"
#include "common/oci/state.h"
#include "tests/lib/unit.h"

#define PATH "\"GGML_BACKEND_PATH=" OCI_PLUGIN_INSIDE "\""

static struct json_object *read_json(const char *text)
{
    struct json_object *object = NULL;

    if (text)
        assert_int_equal(apir_json_parse(text, strlen(text), &object, NULL), 0);
    return object;
}

TEST(only_the_annotation_asks_for_a_device)
{
    static const struct {
        const char *annotation; /* of the state */
        const char *config;
        const char *want; /* NULL: nothing is wanted */
    } cases[] = {
        {NULL, NULL, NULL},
        {NULL, "{}", NULL},
        {"gpu0", NULL, "gpu0"},
        {"gpu0,gpu1", "{}", "gpu0,gpu1"},
        {"", NULL, ""},
        {NULL, "{\"annotations\":{\"apir.device\":\"gpu1\"}}", "gpu1"},
        {"gpu0", "{\"annotations\":{\"apir.device\":\"gpu1\"}}", "gpu0"},
        {NULL, "{\"annotations\":{\"apir.devices\":\"gpu1\"}}", NULL},
        {"host0", "{\"process\":{\"env\":[" PATH "]}}", "host0"},
        /* What an image can set as well as a spec. */
        {NULL, "{\"process\":{\"env\":[\"APIR_DEVICE_0=id\"]}}", NULL},
        {NULL, "{\"process\":{\"env\":[" PATH "]}}", NULL},
        {NULL, "{\"process\":{\"env\":[" PATH ",\"APIR_DEVICE_1=id\"]}}", NULL},
        {NULL, "{\"process\":1,\"annotations\":[],\"mounts\":{}}", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct oci_state s = {.device = (char *)(uintptr_t)cases[i].annotation};
        cleanup_json struct json_object *config = read_json(cases[i].config);
        struct oci_request request = {0};

        assert_int_equal(oci_request_find(&s, config, &request, NULL), 0);
        if ((!request.devices) != (!cases[i].want))
            fail_msg("%s: %s", cases[i].config, request.devices);
        if (cases[i].want)
            assert_string_equal(request.devices, cases[i].want);
        assert_false(request.edited);
    }
}

TEST(annotation_must_be_a_string)
{
    static const char *const bad[] = {
        "{\"annotations\":{\"apir.device\":1}}",
        "{\"annotations\":{\"apir.device\":null}}",
        "{\"annotations\":{\"apir.device\":\"gpu0\\u0000,gpu1\"}}",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cleanup_json struct json_object *config = read_json(bad[i]);
        struct oci_state s = {0};
        struct oci_request request;

        assert_int_equal(oci_request_find(&s, config, &request, NULL), -EBADMSG);
        assert_null(request.devices);
    }
}

TEST(an_engines_work_is_seen_by_the_plugins_mount)
{
    static const struct {
        const char *mounts;
        bool edited;
    } cases[] = {
        {"{},1,{\"destination\":1},{\"destination\":\"/x\",\"source\":\"/dev/null\"}", false},
        {"{\"destination\":\"" OCI_PLUGIN_INSIDE "\",\"source\":\"/dev/null\"}", true},
        /* It may be out of our sight. */
        {"{\"destination\":\"" OCI_PLUGIN_INSIDE "\",\"source\":\"/nonexistent/x\"}", true},
        /* A VOLUME of the image, as a folder and as a tmpfs. */
        {"{\"destination\":\"" OCI_PLUGIN_INSIDE "\",\"source\":\"/tmp\"}", false},
        {"{\"destination\":\"" OCI_PLUGIN_INSIDE "\",\"source\":\"tmpfs\"}", false},
        {"{\"destination\":\"" OCI_PLUGIN_INSIDE "\"}", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        struct oci_state s = {0};
        struct oci_request request = {0};

        snprintf(text, sizeof(text), "{\"mounts\":[%s]}", cases[i].mounts);
        cleanup_json struct json_object *config = read_json(text);
        assert_int_equal(oci_request_find(&s, config, &request, NULL), 0);
        if (request.edited != cases[i].edited)
            fail_msg("%s", text);
        assert_null(request.devices);
    }
}

TEST(spec_selects_each_device_once_and_then_the_common_edits)
{
    static const struct {
        const char *names;
        const char *want; /* the edits' env, NULL: -ENODEV */
    } cases[] = {
        {"a", "Ac"},
        {"b,a", "BAc"},
        {"a, b ,a,virtgpu/apir=a", "ABc"},
        {"virtgpu/apir=b", "Bc"},
        {"none", "c"},
        {"c", NULL},
        {"virtgpu/apir=c", NULL},
        {"virtgpu/apix=a", NULL},
        {"virtgpu/api=a", NULL},
        {"=a", NULL},
        {"a=virtgpu/apir", NULL},
        {"a,c", NULL},
        {"", NULL},
        {",", NULL},
        {" ", NULL},
    };
    cleanup_json struct json_object *spec =
        read_json("{\"kind\":\"virtgpu/apir\",\"devices\":["
                  "{\"name\":\"a\",\"containerEdits\":{\"x\":\"A\"}},"
                  "{\"name\":\"b\",\"containerEdits\":{\"x\":\"B\"}},{\"name\":\"none\"}],"
                  "\"containerEdits\":{\"x\":\"c\"}}");

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json_object *edits[CDI_DEVICES_EDITS_MAX];
        char got[CDI_DEVICES_EDITS_MAX + 1] = "";
        int n = cdi_devices_select(spec, cases[i].names, edits, NULL);

        if (!cases[i].want) {
            if (n != -ENODEV)
                fail_msg("taken: %s", cases[i].names);
            continue;
        }
        for (int k = 0; k < n; k++)
            strcat(got, apir_json_string(edits[k], "x"));
        assert_string_equal(got, cases[i].want);
    }
}

TEST(no_more_devices_than_there_is_room_for)
{
    cleanup_json struct json_object *spec = json_object_new_object();
    struct json_object *devices = json_object_new_array(), *edits[CDI_DEVICES_EDITS_MAX];
    char names[512] = "";

    json_object_object_add(spec, "devices", devices);
    json_object_object_add(spec, "containerEdits", json_object_new_object());
    for (int i = 0; i < CDI_DEVICES_EDITS_MAX; i++) {
        struct json_object *device = json_object_new_object();
        char name[16];

        snprintf(name, sizeof(name), "d%d", i);
        json_object_object_add(device, "name", json_object_new_string(name));
        json_object_object_add(device, "containerEdits", json_object_new_object());
        json_object_array_add(devices, device);
        strcat(strcat(names, name), ",");
        int n = cdi_devices_select(spec, names, edits, NULL);
        assert_int_equal(n, i < CDI_DEVICES_EDITS_MAX - 1 ? i + 2 : -ENODEV);
    }
}
