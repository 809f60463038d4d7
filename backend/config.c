/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/config.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/cleanup.h"

#define CONFIG_SIZE_MAX  (1u << 20)
#define CONFIG_DEPTH_MAX 8

static void config_put_json(struct json_object **json)
{
    json_object_put(*json);
}

static void config_free_tokener(struct json_tokener **tokener)
{
    if (*tokener)
        json_tokener_free(*tokener);
}

static int config_read_path(const char *key, struct json_object *value, char **ret_path,
                            struct apir_error *err)
{
    const char *text = json_object_get_string(value);
    if (!json_object_is_type(value, json_type_string) || !text || text[0] != '/' ||
        strlen(text) != (size_t)json_object_get_string_len(value))
        return apir_error_set(err, EINVAL, "\"%s\" must be an absolute path", key);
    char *copy = strdup(text);
    if (!copy)
        return apir_error_sys(err, ENOMEM, "\"%s\"", key);
    free(*ret_path);
    *ret_path = copy;
    return 0;
}

static int config_read_number(const char *key, struct json_object *value, uint32_t lowest,
                              uint32_t highest, uint32_t *ret_number, struct apir_error *err)
{
    int64_t number = json_object_get_int64(value);
    if (!json_object_is_type(value, json_type_int) || number < lowest || number > highest)
        return apir_error_set(err, EINVAL, "\"%s\" must be a whole number from %u to %u", key,
                              lowest, highest);
    *ret_number = (uint32_t)number;
    return 0;
}

static int config_read_stock_server(struct json_object *value, struct apir_config *config,
                                    struct apir_error *err)
{
    if (json_object_is_type(value, json_type_boolean) && !json_object_get_boolean(value)) {
        free(config->stock_server);
        config->stock_server = NULL;
        return 0;
    }
    if (!json_object_is_type(value, json_type_string))
        return apir_error_set(err, EINVAL, "\"stock_server\" must be an absolute path or false");
    return config_read_path("stock_server", value, &config->stock_server, err);
}

static void config_free_devices(struct apir_config *config)
{
    for (size_t i = 0; i < config->n_devices; i++)
        free(config->devices[i]);
    free(config->devices);
    config->devices = NULL;
    config->n_devices = 0;
}

static int config_read_devices(struct json_object *value, struct apir_config *config,
                               struct apir_error *err)
{
    config_free_devices(config);
    if (json_object_is_type(value, json_type_string) &&
        strcmp(json_object_get_string(value), "auto") == 0)
        return 0;
    size_t n = json_object_is_type(value, json_type_array) ? json_object_array_length(value) : 0;
    if (n == 0 || n > APIR_CONFIG_DEVICES_MAX)
        return apir_error_set(err, EINVAL,
                              "\"devices\" must be \"auto\" or a list of 1 to %u device names",
                              APIR_CONFIG_DEVICES_MAX);
    config->devices = calloc(n, sizeof(*config->devices));
    if (!config->devices)
        return apir_error_sys(err, ENOMEM, "\"devices\"");
    for (size_t i = 0; i < n; i++) {
        struct json_object *item = json_object_array_get_idx(value, i);
        if (!json_object_is_type(item, json_type_string) || !*json_object_get_string(item))
            return apir_error_set(err, EINVAL, "\"devices\" holds something not a device name");
        config->devices[i] = strdup(json_object_get_string(item));
        if (!config->devices[i])
            return apir_error_sys(err, ENOMEM, "\"devices\"");
        config->n_devices = i + 1;
    }
    return 0;
}

static void config_free_names(struct apir_config_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct apir_config_names){0};
}

/* What a name means is looked up by who uses it: the server, and not each worker. */
static int config_read_names(const char *key, struct json_object *value,
                             struct apir_config_names *names, struct apir_error *err)
{
    config_free_names(names);
    size_t n = json_object_is_type(value, json_type_array) ? json_object_array_length(value) : 0;
    if (n == 0 || n > APIR_CONFIG_NAMES_MAX)
        return apir_error_set(err, EINVAL, "\"%s\" must be a list of 1 to %u names or numbers", key,
                              APIR_CONFIG_NAMES_MAX);
    names->names = calloc(n, sizeof(*names->names));
    if (!names->names)
        return apir_error_sys(err, ENOMEM, "\"%s\"", key);
    for (size_t i = 0; i < n; i++) {
        struct json_object *item = json_object_array_get_idx(value, i);
        const char *text = json_object_get_string(item);
        const int64_t number = json_object_get_int64(item);
        /* ~0 means "no user" to the kernel. A string of digits is no name but a mistake. */
        const bool is_number =
            json_object_is_type(item, json_type_int) && number >= 0 && number < UINT32_MAX;
        const bool is_name = json_object_is_type(item, json_type_string) && *text &&
                             strlen(text) == (size_t)json_object_get_string_len(item) &&
                             text[strspn(text, "0123456789")] != '\0';
        if (!is_number && !is_name)
            return apir_error_set(err, EINVAL, "\"%s\" holds something not a name or number", key);
        names->names[i] = strdup(text);
        if (!names->names[i])
            return apir_error_sys(err, ENOMEM, "\"%s\"", key);
        names->n = i + 1;
    }
    return 0;
}

static int config_read_paths(const char *key, struct json_object *value,
                             struct apir_config_names *paths, struct apir_error *err)
{
    config_free_names(paths);
    size_t n = json_object_is_type(value, json_type_array) ? json_object_array_length(value) : 0;
    if (n == 0 || n > APIR_CONFIG_NAMES_MAX)
        return apir_error_set(err, EINVAL, "\"%s\" must be a list of 1 to %u absolute paths", key,
                              APIR_CONFIG_NAMES_MAX);
    paths->names = calloc(n, sizeof(*paths->names));
    if (!paths->names)
        return apir_error_sys(err, ENOMEM, "\"%s\"", key);
    for (; paths->n < n; paths->n++) {
        int ret = config_read_path(key, json_object_array_get_idx(value, paths->n),
                                   &paths->names[paths->n], err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int config_read_sandbox(struct json_object *value, struct apir_config *config,
                               struct apir_error *err)
{
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    config->sandbox_required = strcmp(text, "required") == 0;
    if (config->sandbox_required || strcmp(text, "auto") == 0)
        return 0;
    return apir_error_set(err, EINVAL, "\"sandbox\" must be \"auto\" or \"required\"");
}

static int config_read_key(const char *key, struct json_object *value, struct apir_config *config,
                           struct apir_error *err)
{
    if (strcmp(key, "stock_server") == 0)
        return config_read_stock_server(value, config, err);
    if (strcmp(key, "worker") == 0)
        return config_read_path(key, value, &config->worker, err);
    if (strcmp(key, "ggml") == 0)
        return config_read_path(key, value, &config->ggml, err);
    if (strcmp(key, "ggml_backends_dir") == 0)
        return config_read_path(key, value, &config->ggml_backends_dir, err);
    if (strcmp(key, "devices") == 0)
        return config_read_devices(value, config, err);
    if (strcmp(key, "max_contexts") == 0)
        return config_read_number(key, value, 1, APIR_CONFIG_CONTEXTS_MAX, &config->max_contexts,
                                  err);
    if (strcmp(key, "context_shm_mib") == 0)
        return config_read_number(key, value, 1, 65536, &config->context_shm_mib, err);
    if (strcmp(key, "threads") == 0)
        return config_read_number(key, value, 0, APIR_CONFIG_THREADS_MAX, &config->threads, err);
    if (strcmp(key, "allow_users") == 0)
        return config_read_names(key, value, &config->allow_users, err);
    if (strcmp(key, "allow_groups") == 0)
        return config_read_names(key, value, &config->allow_groups, err);
    if (strcmp(key, "max_contexts_per_user") == 0)
        return config_read_number(key, value, 1, APIR_CONFIG_CONTEXTS_MAX,
                                  &config->max_contexts_per_user, err);
    if (strcmp(key, "sandbox") == 0)
        return config_read_sandbox(value, config, err);
    if (strcmp(key, "sandbox_read") == 0)
        return config_read_paths(key, value, &config->sandbox_read, err);
    if (strcmp(key, "sandbox_write") == 0)
        return config_read_paths(key, value, &config->sandbox_write, err);
    return apir_error_set(err, EINVAL, "unknown key \"%s\"", key);
}

/* The whole file, NUL-terminated, to be freed; at most CONFIG_SIZE_MAX bytes. */
static int config_read_file(const char *path, char **ret_text, size_t *ret_size,
                            struct apir_error *err)
{
    /* O_NONBLOCK: a fifo in its place must not hang us. */
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return apir_error_sys(err, errno, "cannot open");
    struct stat st;
    if (fstat(fd, &st) < 0)
        return apir_error_sys(err, errno, "cannot stat");
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)CONFIG_SIZE_MAX)
        return apir_error_set(err, EINVAL, "not a regular file of at most 1 MiB");
    cleanup_free char *text = malloc(CONFIG_SIZE_MAX + 1);
    if (!text)
        return apir_error_sys(err, ENOMEM, "cannot read");
    size_t size = 0;
    for (;;) {
        ssize_t n = read(fd, text + size, CONFIG_SIZE_MAX - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return apir_error_sys(err, errno, "cannot read");
        if (n == 0)
            break;
        size += (size_t)n;
    }
    text[size] = '\0';
    *ret_size = size;
    *ret_text = steal_pointer(&text);
    return 0;
}

static int config_parse(const char *text, size_t size, struct apir_config *config,
                        struct apir_error *err)
{
    struct json_tokener *tokener __attribute__((cleanup(config_free_tokener))) =
        json_tokener_new_ex(CONFIG_DEPTH_MAX);
    if (!tokener)
        return apir_error_sys(err, ENOMEM, "cannot parse");
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    /* With the NUL: a number or literal at the very end is complete only then. */
    struct json_object *json __attribute__((cleanup(config_put_json))) =
        json_tokener_parse_ex(tokener, text, (int)size + 1);
    enum json_tokener_error bad = json_tokener_get_error(tokener);
    size_t end = json_tokener_get_parse_end(tokener);
    if (bad != json_tokener_success) {
        size_t line = 1;
        for (size_t i = 0; i < end && i < size; i++)
            line += text[i] == '\n';
        return apir_error_set(err, EINVAL, "line %zu: %s", line, json_tokener_error_desc(bad));
    }
    if (strspn(text + end, " \t\r\n") != size - end && end < size)
        return apir_error_set(err, EINVAL, "something follows the object");
    if (!json_object_is_type(json, json_type_object))
        return apir_error_set(err, EINVAL, "not a JSON object");
    json_object_object_foreach(json, key, value)
    {
        int ret = config_read_key(key, value, config, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int config_set_defaults(struct apir_config *config)
{
    *config = (struct apir_config){
        .stock_server = strdup(APIR_CONFIG_STOCK_SERVER),
        .max_contexts = 64,
        .context_shm_mib = 1024,
        .max_contexts_per_user = 32,
    };
    return config->stock_server ? 0 : -ENOMEM;
}

const char *apir_config_find(void)
{
    const char *path = getenv("APIR_CONFIG");
    if (path && *path)
        return path;
    struct stat st;
    /* One that is there but cannot be read is an error, not a reason for defaults. */
    if (stat(APIR_CONFIG_DEFAULT_PATH, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return APIR_CONFIG_DEFAULT_PATH;
    return NULL;
}

int apir_config_load(const char *path, struct apir_config *config, struct apir_error *err)
{
    int ret = config_set_defaults(config);
    if (ret < 0)
        return apir_error_sys(err, -ret, "configuration");
    if (!path)
        path = apir_config_find();
    if (!path)
        return 0;

    cleanup_free char *text = NULL;
    size_t size = 0;
    ret = config_read_file(path, &text, &size, err);
    if (ret == 0)
        ret = config_parse(text, size, config, err);
    if (ret < 0) {
        apir_config_fini(config);
        (void)config_set_defaults(config);
        (void)apir_error_wrap(err, "%s", path);
        return ret;
    }
    return 0;
}

void apir_config_fini(struct apir_config *config)
{
    free(config->stock_server);
    free(config->worker);
    free(config->ggml);
    free(config->ggml_backends_dir);
    config_free_devices(config);
    config_free_names(&config->allow_users);
    config_free_names(&config->allow_groups);
    config_free_names(&config->sandbox_read);
    config_free_names(&config->sandbox_write);
    *config = (struct apir_config){0};
}
