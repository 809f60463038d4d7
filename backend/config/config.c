/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/config/keys.h"
#include "common/file.h"
#include "common/json.h"
#include "common/regular.h"
#include "common/cleanup.h"

/* Of a worker. The pools are ggml's and a BLAS library's. */
#define THREADS_OTHER 256u
#define THREADS_POOLS 2u

#define CONFIG_SIZE_MAX (1u << 20)

/* ---- keys -------------------------------------------------------------------- */

static void *member(struct apir_config *config, const struct config_key *key)
{
    return (char *)config + key->offset;
}

struct json_object *apir_config_show(const struct apir_config *config)
{
    struct json_object *all = json_object_new_object();
    for (size_t i = 0; all && i < config_keys_n; i++) {
        const struct config_key *key = &config_keys[i];
        const bool given = config->given >> i & 1;
        struct json_object *row = json_object_new_object();
        json_object_object_add(row, "value",
                               key->kind->show(key, (const char *)config + key->offset));
        json_object_object_add(row, "from", json_object_new_string(given ? "file" : "default"));
        json_object_object_add(all, key->name, row);
    }
    return all;
}

static int config_set_defaults(struct apir_config *config)
{
    *config = (struct apir_config){.stock_server = strdup(APIR_CONFIG_STOCK_SERVER)};
    for (size_t i = 0; i < config_keys_n; i++) {
        if (config_keys[i].otherwise)
            *(uint32_t *)member(config, &config_keys[i]) = config_keys[i].otherwise;
    }
    return config->stock_server ? 0 : -ENOMEM;
}

static int config_read_key(const char *name, struct json_object *value, struct apir_config *config,
                           struct apir_error *err)
{
    for (size_t i = 0; i < config_keys_n; i++) {
        if (strcmp(config_keys[i].name, name) != 0)
            continue;
        config->given |= UINT64_C(1) << i;
        return config_keys[i].kind->read(&config_keys[i], value, member(config, &config_keys[i]),
                                         err);
    }
    return apir_error_set(err, EINVAL, "unknown key \"%s\"", name);
}

/* ---- the text ---------------------------------------------------------------- */

/*
 * The line of a key of the outermost object, which json-c does not tell; 0 where it is written in
 * another way (\u0061 for a). The text is JSON, and text[size] is NUL.
 */
static unsigned config_line(const char *text, size_t size, const char *name)
{
    unsigned line = 1, depth = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"') {
            const size_t began = i + 1;
            for (i++; i < size && text[i] != '"'; i++)
                i += text[i] == '\\';
            if (i >= size)
                break;
            const bool is_key = text[i + 1 + strspn(text + i + 1, " \t\r\n")] == ':';
            if (is_key && depth == 1 && i - began == strlen(name) &&
                memcmp(text + began, name, i - began) == 0)
                return line;
        }
        depth += text[i] == '{' || text[i] == '[';
        depth -= text[i] == '}' || text[i] == ']';
        line += text[i] == '\n';
    }
    return 0;
}

/* Says where the key at fault is. Returns rc. */
static int config_place(const char *text, size_t size, const char *name, int rc,
                        struct apir_error *err)
{
    const unsigned line = config_line(text, size, name);
    return line ? apir_error_wrap(err, "line %u", line) : rc;
}

/* text[size] is NUL. */
static int config_parse(const char *text, size_t size, struct apir_config *config,
                        struct apir_error *err)
{
    cleanup_json struct json_object *json = NULL;
    int rc = apir_json_parse(text, size, &json, err);
    if (rc < 0)
        return rc;
    json_object_object_foreach(json, key, value)
    {
        rc = config_read_key(key, value, config, err);
        if (rc == 0)
            continue;
        return config_place(text, size, key, rc, err);
    }
    if (config->context_gpu_percent != 100 && config->mps == APIR_CONFIG_OFF) {
        rc = apir_error_set(
            err, EINVAL, "\"context_gpu_percent\" holds through MPS alone: give \"mps\" as well");
        return config_place(text, size, "context_gpu_percent", rc, err);
    }
    if (config->latency && config->weight == 0) {
        rc = apir_error_set(err, EINVAL,
                            "\"latency\" is within a class's share: give \"weight\" as well");
        return config_place(text, size, "latency", rc, err);
    }
    return 0;
}

int apir_config_parse(const char *text, size_t size, struct apir_config *config,
                      struct apir_error *err)
{
    int rc = config_set_defaults(config);
    if (rc < 0)
        return apir_error_sys(err, -rc, "configuration");
    if (size > CONFIG_SIZE_MAX)
        return apir_error_set(err, EFBIG, "more than 1 MiB");
    cleanup_free char *copy = malloc(size + 1);
    if (!copy)
        return apir_error_sys(err, ENOMEM, "cannot parse");
    memcpy(copy, text, size);
    copy[size] = '\0';
    rc = config_parse(copy, size, config, err);
    if (rc < 0) {
        apir_config_fini(config);
        (void)config_set_defaults(config);
    }
    return rc;
}

/* ---- the file ---------------------------------------------------------------- */

/* The whole file, to be freed; at most CONFIG_SIZE_MAX bytes. */
static int config_read_file(const char *path, char **ret_text, size_t *ret_size,
                            struct apir_error *err)
{
    cleanup_fd int fd = apir_regular_open(AT_FDCWD, path, 0);
    if (fd == -EINVAL)
        return apir_error_set(err, EINVAL, "not a regular file");
    if (fd < 0)
        return apir_error_sys(err, -fd, "cannot open");
    return apir_file_read(fd, CONFIG_SIZE_MAX, ret_text, ret_size, err);
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
    int rc = config_set_defaults(config);
    if (rc < 0)
        return apir_error_sys(err, -rc, "configuration");
    if (!path)
        path = apir_config_find();
    if (!path)
        return 0;

    cleanup_free char *text = NULL;
    size_t size = 0;
    rc = config_read_file(path, &text, &size, err);
    if (rc == 0) {
        apir_config_fini(config);
        rc = apir_config_parse(text, size, config, err);
    }
    return rc < 0 ? apir_error_wrap(err, "%s", path) : 0;
}

void apir_config_fini(struct apir_config *config)
{
    for (size_t i = 0; i < config_keys_n; i++) {
        if (config_keys[i].kind->fini)
            config_keys[i].kind->fini(member(config, &config_keys[i]));
    }
    *config = (struct apir_config){0};
}

uint32_t apir_config_worker_threads(const struct apir_config *config)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t pool = cores > (long)config->threads ? (uint32_t)cores : config->threads;
    return THREADS_OTHER + THREADS_POOLS * pool;
}
