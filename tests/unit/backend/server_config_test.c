/* SPDX-License-Identifier: Apache-2.0 */
/* The host's configuration file. */
#include <fcntl.h>
#include <sys/stat.h>

#include <json-c/json.h>

#include "backend/config/config.h"
#include "tests/lib/unit.h"

static int load(const char *text, size_t size, struct apir_config *config, struct apir_error *err)
{
    char path[] = "/tmp/apir-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), (ssize_t)size);
    close(fd);
    int rc = apir_config_load(path, config, err);
    unlink(path);
    return rc;
}

static void expect_defaults(const struct apir_config *config)
{
    assert_string_equal(config->stock_server, APIR_CONFIG_STOCK_SERVER);
    assert_null(config->worker);
    assert_int_equal(config->max_contexts, 64);
    assert_int_equal(config->context_shm_mib, 1024);
    assert_int_equal(config->device_memory_mib, 0);
    assert_int_equal(config->max_contexts_per_device, 0);
    assert_int_equal(config->context_device_memory_mib, 0);
    assert_int_equal(config->context_host_memory_mib, 0);
    assert_int_equal(config->context_graph_mib, 1024);
    assert_int_equal(config->context_queue_mib, 256);
    assert_int_equal(config->seconds_per_graph, 600);
    assert_int_equal(config->seconds_to_start, 300);
    assert_int_equal(config->spare_workers, 1);
    assert_int_equal(config->spare_seconds, 600);
    assert_int_equal(config->shader_seconds, 300);
    assert_int_equal(config->weight, 0);
    assert_false(config->latency);
    assert_null(config->limits_dir);
    assert_int_equal(config->given, 0);
    assert_null(config->ggml);
    assert_null(config->ggml_backends_dir);
    assert_int_equal(config->devices.n, 0);
    assert_int_equal(config->threads, 0);
    assert_int_equal(config->allow_users.n, 0);
    assert_int_equal(config->allow_groups.n, 0);
    assert_int_equal(config->max_contexts_per_user, 32);
    assert_int_equal(config->sandbox, APIR_CONFIG_AUTO);
    assert_int_equal(config->sandbox_read.n, 0);
    assert_int_equal(config->sandbox_write.n, 0);
}

static void expect_sharing(const struct apir_config *config)
{
    assert_int_equal(config->mps, APIR_CONFIG_REQUIRED);
    assert_string_equal(config->mps_control, "/i");
    assert_string_equal(config->mps_group, "g-1_b");
    assert_int_equal(config->weight, 100);
    assert_true(config->latency);
    assert_int_equal(config->context_gpu_percent, 11);
}

/* No key that the test forgets. */
static void expect_all_read(const struct apir_config *config)
{
    struct json_object *shown = apir_config_show(config);
    json_object_object_foreach(shown, key, row)
    {
        if (strcmp(json_object_get_string(json_object_object_get(row, "from")), "file") != 0)
            fail_msg("%s is not read", key);
    }
    json_object_put(shown);
}

TEST(every_key_is_read)
{
    static const char text[] =
        "{ \"stock_server\": \"/a\", \"worker\": \"/b\", \"max_contexts\": 3,\n"
        "  \"context_shm_mib\": 77, \"ggml\": \"/c/libggml.so.0\", \"ggml_backends_dir\": \"/d\",\n"
        "  \"devices\": [\"CPU\", \"Vulkan0\"], \"threads\": 5,\n"
        "  \"allow_users\": [\"ada\", 1001], \"allow_groups\": [4294967294],\n"
        "  \"max_contexts_per_user\": 9, \"sandbox\": \"required\",\n"
        "  \"sandbox_read\": [\"/e\", \"/f\"], \"sandbox_write\": [\"/g\"],\n"
        "  \"device_memory_mib\": 1, \"max_contexts_per_device\": 2,\n"
        "  \"class_device_memory_mib\": 12, \"class_shm_mib\": 13, \"context_device_memory_mib\": "
        "67108864, "
        "\"context_host_memory_mib\": 4,\n"
        "  \"context_graph_mib\": 5, \"context_queue_mib\": 6, \"seconds_per_graph\": 0,\n"
        "  \"seconds_to_start\": 7, \"spare_workers\": 16, \"spare_seconds\": 8, "
        "\"shader_seconds\": 10, \"limits_dir\": \"/h\",\n"
        "  \"mps\": \"required\", \"mps_control\": \"/i\", \"mps_group\": \"g-1_b\", "
        "\"context_gpu_percent\": 11, \"weight\": 100, \"latency\": true }\n\n";
    struct apir_config config;
    struct apir_error err = {0};
    assert_int_equal(load(text, sizeof(text) - 1, &config, &err), 0);
    assert_string_equal(config.stock_server, "/a");
    assert_string_equal(config.worker, "/b");
    assert_int_equal(config.max_contexts, 3);
    assert_int_equal(config.context_shm_mib, 77);
    assert_string_equal(config.ggml, "/c/libggml.so.0");
    assert_string_equal(config.ggml_backends_dir, "/d");
    assert_int_equal(config.devices.n, 2);
    assert_string_equal(config.devices.names[0], "CPU");
    assert_string_equal(config.devices.names[1], "Vulkan0");
    assert_int_equal(config.threads, 5);
    assert_int_equal(config.allow_users.n, 2);
    assert_string_equal(config.allow_users.names[0], "ada");
    assert_string_equal(config.allow_users.names[1], "1001");
    assert_int_equal(config.allow_groups.n, 1);
    assert_string_equal(config.allow_groups.names[0], "4294967294");
    assert_int_equal(config.max_contexts_per_user, 9);
    assert_int_equal(config.sandbox, APIR_CONFIG_REQUIRED);
    assert_int_equal(config.sandbox_read.n, 2);
    assert_string_equal(config.sandbox_read.names[1], "/f");
    assert_int_equal(config.sandbox_write.n, 1);
    assert_string_equal(config.sandbox_write.names[0], "/g");
    assert_int_equal(config.device_memory_mib, 1);
    assert_int_equal(config.max_contexts_per_device, 2);
    assert_int_equal(config.class_device_memory_mib, 12);
    assert_int_equal(config.class_shm_mib, 13);
    assert_int_equal(config.context_device_memory_mib, 67108864);
    assert_int_equal(config.context_host_memory_mib, 4);
    assert_int_equal(config.context_graph_mib, 5);
    assert_int_equal(config.context_queue_mib, 6);
    assert_int_equal(config.seconds_per_graph, 0);
    assert_int_equal(config.seconds_to_start, 7);
    assert_int_equal(config.spare_workers, 16);
    assert_int_equal(config.spare_seconds, 8);
    assert_int_equal(config.shader_seconds, 10);
    assert_string_equal(config.limits_dir, "/h");
    expect_sharing(&config);
    expect_all_read(&config);
    apir_config_fini(&config);
}

TEST(empty_object_gives_the_defaults)
{
    static const char *const texts[] = {"{}",
                                        " {\n}\n",
                                        "{\"devices\": \"auto\"}",
                                        "{\"sandbox\": \"auto\"}",
                                        "{\"mps\": \"off\"}",
                                        "{\"context_gpu_percent\": 100}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct apir_config config;
        struct apir_error err = {0};
        assert_int_equal(load(texts[i], strlen(texts[i]), &config, &err), 0);
        config.given = 0;
        expect_defaults(&config);
        apir_config_fini(&config);
    }
}

static const struct {
    const char *text;
    const char *says;
} bad[] = {
    {"", "line 1"},
    {"[]", "not an object"},
    {"null", "line 1"},
    {"{'threads': 1}", "single quotes"},
    {"{\"threads\": -01}", "a number such as 01"},
    {"{", "line 1"},
    {"{\n\"threads\": 1,\n}", "line 3"},
    {"{} {}", ""},
    {"{\"threads\": 1} x", ""},
    {"{\"thread\": 1}", "unknown key \"thread\""},
    {"{\"threads\": \"1\"}", "\"threads\" must be a whole number from 0 to 1024"},
    {"{\"threads\": 1.5}", "\"threads\""},
    {"{\"threads\": -1}", "\"threads\""},
    {"{\"threads\": 99999999999999999999}", ""},
    {"{\n\"threads\":\n1,\n\"threads\": 2}", "line 4, byte 16: a name comes twice"},
    {"{\"threads\": 1, \"thread\\u0073\": 2}", "line 1, byte 15: a name comes twice"},
    {"{\"threads\": 1,\n\"sandbox\": \"\\\"\",\n \"ggml\" :\n 1}", "\"sandbox\""},
    {"{\"allow_users\": [\"\\\\\", \"}\"],\n\n \"ggml\" :\n 1}", "\"ggml\""},
    {"{\"device_memory_mib\": 67108865}", "\"device_memory_mib\""},
    {"{\"context_graph_mib\": 0}", "\"context_graph_mib\""},
    {"{\"seconds_per_graph\": 86401}", "\"seconds_per_graph\""},
    {"{\"seconds_to_start\": 86401}", "\"seconds_to_start\""},
    {"{\"spare_workers\": 17}", "\"spare_workers\""},
    {"{\"spare_seconds\": 0}", "\"spare_seconds\""},
    {"{\"shader_seconds\": 86401}", "\"shader_seconds\""},
    {"{\"mps\": \"on\"}", "\"mps\" must be \"off\", \"auto\" or \"required\""},
    {"{\"mps\": true}", "\"mps\""},
    {"{\"mps_group\": \"\"}", "\"mps_group\" must be a name"},
    {"{\"mps_group\": \"../x\"}", "\"mps_group\" must be a name"},
    {"{\"mps_group\": \"a\\u0000b\"}", "\"mps_group\" must be a name"},
    {"{\"mps_group\": \"abcdefghijklmnopqrstuvwxy\"}", "\"mps_group\" must be a name"},
    {"{\"mps_group\": 1}", "\"mps_group\" must be a name"},
    {"{\"mps_control\": \"nvidia-cuda-mps-control\"}", "\"mps_control\" must be"},
    {"{\"mps\": \"auto\",\n\"context_gpu_percent\": 0}",
     "\"context_gpu_percent\" must be a whole number from 1 to 100"},
    {"{\"mps\": \"auto\", \"context_gpu_percent\": 101}", "\"context_gpu_percent\""},
    {"{\n\"context_gpu_percent\": 50}", "\"context_gpu_percent\" holds through MPS alone"},
    {"{\"weight\": 101}", "\"weight\" must be a whole number from 0 to 100"},
    {"{\"weight\": true}", "\"weight\""},
    {"{\"weight\": 1, \"latency\": 1}", "\"latency\" must be true or false"},
    {"{\n\n\"latency\": true}", "\"latency\" is within a class's share"},
    {"{\"weight\": 0,\n\"latency\": true}", "\"latency\" is within a class's share"},
    {"{\"limits_dir\": \"limits\"}", "\"limits_dir\" must be an absolute path"},
    {"{\"max_contexts\": 0}", "\"max_contexts\""},
    {"{\"max_contexts\": 257}", "\"max_contexts\""},
    {"{\"context_shm_mib\": null}", "\"context_shm_mib\""},
    {"{\"worker\": \"apir-worker\"}", "\"worker\" must be an absolute path"},
    {"{\"worker\": \"/a\\u0000b\"}", "\"worker\""},
    {"{\"worker\": [\"/a\"]}", "\"worker\""},
    {"{\"stock_server\": true}", "\"stock_server\""},
    {"{\"stock_server\": \"\"}", "\"stock_server\""},
    {"{\"devices\": []}", "\"devices\""},
    {"{\"devices\": \"CPU\"}", "\"devices\""},
    {"{\"devices\": [1]}", "\"devices\""},
    {"{\"devices\": [\"a\", \"\"]}", "\"devices\""},
    {"{\"allow_users\": []}", "\"allow_users\" must be a list"},
    {"{\"allow_users\": \"ada\"}", "\"allow_users\""},
    {"{\"allow_users\": [\"\"]}", "\"allow_users\" holds"},
    {"{\"allow_users\": [\"1001\"]}", "\"allow_users\" holds"},
    {"{\"allow_users\": [\"a\\u0000b\"]}", "\"allow_users\" holds"},
    {"{\"allow_users\": [-1]}", "\"allow_users\" holds"},
    {"{\"allow_groups\": [4294967295]}", "\"allow_groups\" holds"},
    {"{\"allow_groups\": [\"a\", null]}", "\"allow_groups\" holds"},
    {"{\"max_contexts_per_user\": 0}", "\"max_contexts_per_user\""},
    {"{\"sandbox\": \"off\"}", "\"sandbox\" must be \"auto\" or \"required\""},
    {"{\"sandbox\": true}", "\"sandbox\""},
    {"{\"sandbox_read\": []}", "\"sandbox_read\" must be a list"},
    {"{\"sandbox_read\": \"/a\"}", "\"sandbox_read\" must be a list"},
    {"{\"sandbox_read\": [\"/a\", \"b\"]}",
     "\"sandbox_read\" holds something that is no absolute path"},
    {"{\"sandbox_write\": [1]}", "\"sandbox_write\""},
    {"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}", "unknown key"},
    {"{\"ggml\": \"/\xff\xfe\"}", "line 1"},
};

TEST(what_is_wrong_is_named)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct apir_config config;
        struct apir_error err = {0};
        if (load(bad[i].text, strlen(bad[i].text), &config, &err) >= 0)
            fail_msg("accepted: %s", bad[i].text);
        if (!strstr(err.msg, bad[i].says) || !strstr(err.msg, "/tmp/apir-test-"))
            fail_msg("for %s: %s", bad[i].text, err.msg);
        expect_defaults(&config);
        apir_config_fini(&config);
    }
}

FOLDER_TEST(odd_files_are_refused)
{
    char fifo[64];
    snprintf(fifo, sizeof(fifo), "%s/fifo", unit_folder);
    assert_int_equal(mkfifo(fifo, 0600), 0); /* it does not hang there */
    const char *const odd[] = {"/no/such/file", "/dev/zero", "/", fifo};
    struct apir_config config;
    struct apir_error err = {0};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        if (apir_config_load(odd[i], &config, &err) >= 0)
            fail_msg("accepted: %s", odd[i]);
        apir_config_fini(&config);
    }
    static char big[(1 << 20) + 2];
    memset(big, ' ', sizeof(big));
    assert_true(load(big, sizeof(big), &config, &err) < 0);
    expect_defaults(&config);
    apir_config_fini(&config);
}
