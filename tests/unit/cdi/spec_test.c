/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "common/json.h"
#include "common/oci/cdi_rules.h"
#include "cdi/spec/spec.h"
#include "common/error.h"

static const struct cdi_spec_device devices[] = {
    {0, "/dev/dri/renderD128", "6e1b0a3c-0000-0000-0000-00000000000f"},
    {3, "/dev/dri/renderD129", NULL}};

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

static void built_spec_is_spotless(void **state)
{
    struct cdi_spec_options o = options();
    cleanup_json struct json_object *spec = build(&o);

    (void)state;
    assert_int_equal(findings(spec), 0);
    assert_string_equal(apir_json_string(spec, "cdiVersion"), "0.3.0");
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
    assert_null(strstr(text, "APIR_DEVICE_3"));
    assert_null(strstr(text, "APIR_TRANSPORT"));
}

static struct json_object *device_named(struct json_object *spec, const char *name)
{
    struct json_object *list = apir_json_member(spec, "devices", json_type_array);

    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *device = json_object_array_get_idx(list, i);
        if (strcmp(apir_json_string(device, "name"), name) == 0)
            return apir_json_member(device, "containerEdits", json_type_object);
    }
    return NULL;
}

static void host_socket_is_a_device_without_a_node(void **state)
{
    struct cdi_spec_options o = options();

    (void)state;
    o.socket_dir = "/srv/apir";
    for (o.n_devices = 0; o.n_devices <= 2; o.n_devices += 2) {
        cleanup_json struct json_object *spec = build(&o);
        struct json_object *edits = device_named(spec, "host0");

        assert_int_equal(findings(spec), 0);
        assert_string_equal(apir_json_string(spec, "cdiVersion"), "0.3.0");
        assert_int_equal(json_object_object_length(edits), 2);
        assert_string_equal(json_object_to_json_string_ext(edits, JSON_C_TO_STRING_NOSLASHESCAPE),
                            "{\"env\":[\"APIR_TRANSPORT=unix:/run/apir/host/apir.sock\"],"
                            "\"mounts\":[{\"hostPath\":\"/srv/apir\","
                            "\"containerPath\":\"/run/apir/host\","
                            "\"options\":[\"ro\",\"nosuid\",\"nodev\",\"bind\",\"rprivate\"]}]}");
        assert_int_equal(device_named(spec, "gpu0") != NULL, o.n_devices > 0);
    }
}

static void dotted_class_raises_the_version(void **state)
{
    struct cdi_spec_options o = options();

    (void)state;
    o.class_name = "apir.test";
    cleanup_json struct json_object *spec = build(&o);
    assert_string_equal(apir_json_string(spec, "cdiVersion"), "0.6.0");
    assert_int_equal(findings(spec), 0);
}

static void no_hook_leaves_no_hook(void **state)
{
    struct cdi_spec_options o = options();

    (void)state;
    o.hook_path = NULL;
    cleanup_json struct json_object *spec = build(&o);
    assert_null(strstr(cdi_spec_text(spec), "hooks"));
    assert_int_equal(findings(spec), 0);
}

static void plugin_elsewhere_is_told_to_the_hook(void **state)
{
    struct cdi_spec_options o = options();

    (void)state;
    o.plugin_path = "/opt/x/libggml-apir.so";
    cleanup_json struct json_object *spec = build(&o);
    struct json_object *edits = apir_json_member(spec, "containerEdits", json_type_object);
    struct json_object *hook =
        json_object_array_get_idx(apir_json_member(edits, "hooks", json_type_array), 0);
    struct json_object *args = apir_json_member(hook, "args", json_type_array);
    assert_int_equal(json_object_array_length(args), 4);
    assert_string_equal(json_object_get_string(json_object_array_get_idx(args, 3)), o.plugin_path);
}

static int entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

static void stored_spec_reads_back(void **state)
{
    char dir[] = "/tmp/spec_test.XXXXXX", path[64];
    struct cdi_spec_options o = options();
    cleanup_json struct json_object *spec = build(&o);
    cleanup_json struct json_object *back = NULL;
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/cdi/apir.json", dir);
    mode_t old = umask(0077);
    assert_int_equal(cdi_spec_store(path, spec, NULL), 0);
    /* Over itself, too. */
    assert_int_equal(cdi_spec_store(path, spec, NULL), 0);
    umask(old);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(cdi_spec_load(path, &back, NULL), 0);
    assert_true(json_object_equal(spec, back));
    path[strlen(path) - strlen("/apir.json")] = '\0';
    assert_int_equal(entries(path), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    snprintf(path, sizeof(path), "%s/cdi/apir.json", dir);
    unlink(path);
    path[strlen(path) - strlen("/apir.json")] = '\0';
    rmdir(path);
    rmdir(dir);
}

static void store_refuses_what_is_not_valid(void **state)
{
    char dir[] = "/tmp/spec_test.XXXXXX", path[64];
    struct apir_error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/apir.json", dir);
    static const struct cdi_spec_device relative = {0, "renderD128", NULL};
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
        assert_int_equal(entries(dir), 0);
    }
    rmdir(dir);
}

static void store_that_fails_leaves_nothing(void **state)
{
    char dir[] = "/tmp/spec_test.XXXXXX", path[64];
    struct cdi_spec_options o = options();
    cleanup_json struct json_object *spec = build(&o);
    struct apir_error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/apir.json", dir);
    /* The rename fails over a folder; the temporary file must be gone. */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(cdi_spec_store(path, spec, &err), -EISDIR);
    assert_int_equal(entries(dir), 1);
    rmdir(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_spec_is_spotless),
        cmocka_unit_test(host_socket_is_a_device_without_a_node),
        cmocka_unit_test(dotted_class_raises_the_version),
        cmocka_unit_test(no_hook_leaves_no_hook),
        cmocka_unit_test(plugin_elsewhere_is_told_to_the_hook),
        cmocka_unit_test(stored_spec_reads_back),
        cmocka_unit_test(store_refuses_what_is_not_valid),
        cmocka_unit_test(store_that_fails_leaves_nothing),
    };

    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
