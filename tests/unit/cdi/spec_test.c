/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include <json-c/json.h>

#include "common/json.h"
#include "common/oci/cdi_rules.h"
#include "cdi/spec/spec.h"
#include "common/error.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"

static const struct cdi_spec_device devices[] = {
    {0, "/dev/dri/renderD128", "6e1b0a3c-0000-0000-0000-00000000000f"},
    {3, "/dev/dri/renderD129", ""}};

static struct cdi_spec_options options(void)
{
    return (struct cdi_spec_options){
        .vendor = "virtgpu",
        .class_name = "apir",
        .plugin_path = CDI_PLUGIN_CONTAINER,
        .hook_path = "/usr/libexec/apir/apir-hook",
        .devices = devices,
        .n_devices = 2,
    };
}

static struct json_object *build(const struct cdi_spec_options *o)
{
    struct json_object *spec = NULL;

    assert_int_equal(cdi_spec_build(o, &spec, NULL), 0);
    return spec;
}

static size_t findings(struct json_object *spec)
{
    struct cdi_report report;

    cdi_report_init(&report);
    cdi_rules_check(spec, &report);
    size_t n = report.n;
    cdi_report_fini(&report);
    return n;
}

TEST(built_spec_is_spotless)
{
    struct cdi_spec_options o = options();
    cleanup_json struct json_object *spec = build(&o);

    assert_int_equal(findings(spec), 0);
    assert_string_equal(apir_json_string(spec, "cdiVersion"), "0.4.0");
    assert_string_equal(apir_json_string(spec, "kind"), "virtgpu/apir");
    const char *text = cdi_spec_text(spec);
    assert_non_null(strstr(text, "\"GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so\""));
    assert_non_null(strstr(text, "\"GGML_VK_VISIBLE_DEVICES=\""));
    assert_non_null(strstr(text, "\"/dev/dri/renderD129\""));
    assert_null(strstr(text, "hostPath\": \"/dev"));
    assert_null(strstr(text, "--plugin"));
    assert_non_null(strstr(text, "\"gpu0\""));
    assert_non_null(strstr(text, "\"gpu3\""));
    assert_non_null(strstr(text, "\"APIR_DEVICE_0=6e1b0a3c-0000-0000-0000-00000000000f\""));
    assert_non_null(
        strstr(text, "\"/usr/lib/apir/devices/gpu0=6e1b0a3c-0000-0000-0000-00000000000f\""));
    assert_null(strstr(text, "APIR_DEVICE_3"));
    assert_null(strstr(text, "devices/gpu3"));
    assert_null(strstr(text, "APIR_TRANSPORT"));
}

/* Much more than the hook gives itself (hook/main.c): it is a runtime's, which ends the container.
 */
TEST(a_hook_has_time_where_there_is_no_processor)
{
    struct cdi_spec_options o = options();
    struct json_object *spec = build(&o);
    struct json_object *edits = apir_json_member(spec, "containerEdits", json_type_object);
    struct json_object *hook =
        json_object_array_get_idx(apir_json_member(edits, "hooks", json_type_array), 0);

    assert_true(json_object_get_int(apir_json_member(hook, "timeout", json_type_int)) >= 100);
    json_object_put(spec);
}

TEST(plugin_elsewhere_is_told_to_the_hook)
{
    struct cdi_spec_options o = options();

    o.plugin_path = "/opt/x/libggml-apir.so";
    cleanup_json struct json_object *spec = build(&o);
    struct json_object *edits = apir_json_member(spec, "containerEdits", json_type_object);
    struct json_object *hook =
        json_object_array_get_idx(apir_json_member(edits, "hooks", json_type_array), 0);
    struct json_object *args = apir_json_member(hook, "args", json_type_array);
    assert_int_equal(json_object_array_length(args), 4);
    assert_string_equal(json_object_get_string(json_object_array_get_idx(args, 3)), o.plugin_path);
}

FOLDER_TEST(store_refuses_what_is_not_valid)
{
    char path[64];
    struct apir_error err = {0};

    snprintf(path, sizeof(path), "%s/apir.json", unit_folder);
    static const struct cdi_spec_device relative = {0, "renderD128", ""};
    struct cdi_spec_options broken[5] = {options(), options(), options(), options(), options()};
    broken[0].vendor = "1";
    broken[1].n_devices = 0;
    broken[2].hook_path = "relative";
    broken[3].devices = &relative;
    broken[3].n_devices = 1;
    broken[4].socket_dir = "relative";
    for (size_t i = 0; i < 5; i++) {
        cleanup_json struct json_object *spec = build(&broken[i]);
        assert_int_equal(cdi_spec_store(path, spec, &err), -EINVAL);
        assert_non_null(strstr(err.msg, "not written"));
        assert_int_equal(folder_entries(unit_folder), 0);
    }
}

FOLDER_TEST(store_that_fails_leaves_nothing)
{
    char path[64];
    struct cdi_spec_options o = options();
    cleanup_json struct json_object *spec = build(&o);
    struct apir_error err = {0};

    snprintf(path, sizeof(path), "%s/apir.json", unit_folder);
    /* The rename fails over a folder; the temporary file must be gone. */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(cdi_spec_store(path, spec, &err), -EISDIR);
    assert_int_equal(folder_entries(unit_folder), 1);
}
