/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/ggml/given.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <sys/stat.h>

#include "cdi/spec/spec.h"
#include "common/given.h"
#include "common/json.h"
#include "tests/lib/unit.h"

static struct given given;

static void make(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", unit_folder, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* The folder "devices" with these names; a second name of the plug-in is what a mount of it is. */
static void mounted(const char *const *names)
{
    char from[64], to[400];
    make("plugin", "the plug-in");
    snprintf(from, sizeof(from), "%s/plugin", unit_folder);
    snprintf(to, sizeof(to), "%s/devices", unit_folder);
    assert_int_equal(mkdir(to, 0755), 0);
    for (; *names; names++) {
        snprintf(to, sizeof(to), "%s/devices/%s", unit_folder, *names);
        assert_int_equal(link(from, to), 0);
    }
}

static void read_it(void)
{
    char folder[64], plugin[64];
    snprintf(folder, sizeof(folder), "%s/devices", unit_folder);
    snprintf(plugin, sizeof(plugin), "%s/plugin", unit_folder);
    given_read(folder, plugin, &given);
}

#define MOUNTED(...) mounted((const char *const[]){__VA_ARGS__, NULL})

FOLDER_TEST(nothing_was_given_without_the_folder_or_the_plugin)
{
    read_it();
    assert_true(!given.host && given.n_choices == 0);
    make("plugin", "the plug-in");
    read_it();
    assert_true(!given.host && given.n_choices == 0);
}

FOLDER_TEST(devices_add_up_by_number)
{
    MOUNTED("gpu10=ten", "gpu2=6e1b0a3c-0000_x.y:1", "gpu0=a%20b%2Fc");
    read_it();
    assert_false(given.host);
    assert_int_equal(given.n_choices, 3);
    assert_int_equal(given.choices[0].number, 0);
    assert_string_equal(given.choices[0].id, "a b/c");
    assert_int_equal(given.choices[1].number, 2);
    assert_string_equal(given.choices[1].id, "6e1b0a3c-0000_x.y:1");
    assert_int_equal(given.choices[2].number, 10);
    assert_string_equal(given.choices[2].id, "ten");
}

/* The devices of a process that has these variables, as "NUMBER=ID NUMBER=ID". */
static const char *chosen(const char *const *variables)
{
    static char text[256];
    struct choice named[CHOICE_MAX], ret[CHOICE_MAX];
    const uint32_t n_named = choice_read((char *const *)(uintptr_t)variables, named);
    const uint32_t n = given_choose(&given, named, n_named, ret);
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u=%s", i ? " " : "",
                 ret[i].number, ret[i].id);
    return text;
}
#define CHOSEN(...) chosen((const char *const[]){__VA_ARGS__, NULL})

FOLDER_TEST(host0_is_all_of_the_host_and_goes_before_nodes)
{
    MOUNTED("host0", "gpu0=abc", "host0-1=cpu");
    read_it();
    assert_true(given.host);
    /* In an exec, and with the variables that the spec sets. */
    assert_string_equal(CHOSEN(NULL), "");
    assert_string_equal(CHOSEN("APIR_DEVICE_0=abc", "APIR_DEVICE_10001=cpu"), "");
    /* What else somebody names is what there is. */
    assert_string_equal(CHOSEN("APIR_DEVICE_0=cpu"), "0=cpu");
    assert_string_equal(CHOSEN("APIR_DEVICE_10001=cpu"), "10001=cpu");
}

FOLDER_TEST(one_device_of_the_host_is_the_sockets)
{
    MOUNTED("gpu0=cpu", "host0-3=lavapipe");
    read_it();
    assert_true(given.host);
    assert_string_equal(CHOSEN(NULL), "10003=lavapipe");
    assert_string_equal(CHOSEN("APIR_DEVICE_0=cpu", "APIR_DEVICE_10003=lavapipe"),
                        "10003=lavapipe");
}

/* Two classes: one variable for both. */
FOLDER_TEST(devices_of_two_specs_with_one_number_are_two)
{
    MOUNTED("gpu0=cpu", "gpu0=lavapipe");
    read_it();
    const bool cpu_first = strcmp(given.choices[0].id, "cpu") == 0;
    const char *both = cpu_first ? "0=cpu 0=lavapipe" : "0=lavapipe 0=cpu";
    assert_string_equal(CHOSEN(NULL), both);
    assert_string_equal(CHOSEN("APIR_DEVICE_0=lavapipe"), both);
    assert_string_equal(CHOSEN("APIR_DEVICE_0=another"), "0=another");
}

/* A sandbox that brings no mounts, and a user's own. */
FOLDER_TEST(variables_alone_name_devices_of_one_way)
{
    read_it();
    assert_string_equal(CHOSEN("APIR_DEVICE_1=b", "APIR_DEVICE_0=a"), "0=a 1=b");
    assert_string_equal(CHOSEN("APIR_DEVICE_0=a", "APIR_DEVICE_10000=b"), "10000=b");
}

/* What an image may bring, and what engines leave behind. */
FOLDER_TEST(other_files_count_for_nothing)
{
    MOUNTED("gpu1=mine");
    char path[400];
    make("devices/gpu0=left-behind", "");
    make("devices/gpu2=the-images", "the plug-in");
    make("devices/host0", "the plug-in");
    snprintf(path, sizeof(path), "%s/devices/gpu3=link", unit_folder);
    assert_int_equal(symlink("../plugin", path), 0);
    snprintf(path, sizeof(path), "%s/devices/gpu4=folder", unit_folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/devices/gpu5=fifo", unit_folder);
    assert_int_equal(mkfifo(path, 0644), 0);
    read_it();
    assert_false(given.host);
    assert_int_equal(given.n_choices, 1);
    assert_string_equal(given.choices[0].id, "mine");
}

FOLDER_TEST(odd_names_count_for_nothing)
{
    char longest[80] = "gpu1=", longer[80] = "gpu2=";
    memset(longest + 5, 'x', APIR_ID_SIZE - 1);
    memset(longer + 5, 'x', APIR_ID_SIZE);
    MOUNTED("gpu", "gpu0", "gpu0=", "gpu=x", "gpu00=x", "gpu-1=x", "gpu10000=x", "gpu99999999999=x",
            "gpu1x=x", "GPU0=x", "xgpu0=x", "gpu0=a b", "gpu0=%", "gpu0=%4", "gpu0=%4g", "gpu0=%4f",
            "gpu0=%00", "gpu0=a=b", "gpu0=\xff", "host0=x", "host1", "host0-", "host0-1",
            "host0-1=", "host0-10000=x", "host00", longest, longer);
    read_it();
    assert_false(given.host);
    assert_int_equal(given.n_choices, 1);
    assert_int_equal(strlen(given.choices[0].id), APIR_ID_SIZE - 1);
}

FOLDER_TEST(more_than_there_is_room_for_is_left_out)
{
    enum { N = 5000 };
    char from[64], to[400];
    MOUNTED("gpu0=first");
    snprintf(from, sizeof(from), "%s/plugin", unit_folder);
    for (int i = 1; i < N; i++) {
        snprintf(to, sizeof(to), "%s/devices/gpu%d=x", unit_folder, i);
        assert_int_equal(link(from, to), 0);
    }
    read_it();
    assert_int_equal(given.n_choices, CHOICE_MAX);
    assert_int_equal(given.n_ids, GIVEN_MAX);
}

/* The names that a spec mounts are those that are read here. */
FOLDER_TEST(what_a_spec_mounts_is_read)
{
    static const struct cdi_spec_device gpus[] = {{7, "/dev/dri/renderD128", "a b%/\xc3\xa9"},
                                                  {9, "/dev/dri/renderD129", ""}},
                                        hosts[] = {{1, "", "0000:01:00.0"}};
    struct cdi_spec_options o = {.vendor = "virtgpu",
                                 .class_name = "apir",
                                 .plugin_path = "/p",
                                 .devices = gpus,
                                 .n_devices = 2,
                                 .socket_dir = "/run/apir/host",
                                 .host_devices = hosts,
                                 .n_host_devices = 1};
    cleanup_json struct json_object *spec = NULL;
    const char *names[8] = {NULL};
    size_t n = 0;
    assert_int_equal(cdi_spec_build(&o, &spec, NULL), 0);
    struct json_object *devices = apir_json_array(spec, "devices");
    assert_int_equal(apir_json_length(devices), 4);
    for (size_t i = 0; i < 4; i++) {
        struct json_object *edits =
            apir_json_object(json_object_array_get_idx(devices, i), "containerEdits");
        struct json_object *mounts = apir_json_array(edits, "mounts");
        for (size_t k = 0; k < apir_json_length(mounts); k++) {
            struct json_object *mount = json_object_array_get_idx(mounts, k);
            const char *to = apir_json_string(mount, "containerPath");
            if (strncmp(to, APIR_GIVEN_FOLDER "/", sizeof(APIR_GIVEN_FOLDER)) != 0)
                continue;
            assert_string_equal(apir_json_string(mount, "hostPath"), "/p");
            names[n++] = to + sizeof(APIR_GIVEN_FOLDER);
        }
    }
    assert_int_equal(n, 3);
    assert_string_equal(names[1], "host0");
    names[1] = names[2];
    names[2] = NULL;
    mounted(names);
    read_it();
    assert_string_equal(CHOSEN(NULL), "10001=0000:01:00.0");
    char path[400];
    snprintf(path, sizeof(path), "%s/devices/%s", unit_folder, names[1]);
    assert_int_equal(unlink(path), 0);
    read_it();
    assert_int_equal(given.n_choices, 1);
    assert_int_equal(given.choices[0].number, 7);
    assert_string_equal(given.choices[0].id, gpus[0].id);
}
