/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/config/config.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/config/keys.h"
#include "common/json.h"

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

static int config_set_defaults(struct apir_config *config, struct apir_error *err)
{
    *config = (struct apir_config){.stock_server = strdup(APIR_CONFIG_STOCK_SERVER)};
    for (size_t i = 0; i < config_keys_n; i++) {
        if (config_keys[i].otherwise)
            *(uint32_t *)member(config, &config_keys[i]) = config_keys[i].otherwise;
    }
    return config->stock_server ? 0 : apir_error_sys(err, ENOMEM, "configuration");
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

/* ---- the file ---------------------------------------------------------------- */

/* Puts what the file says over the defaults in *config, which hold again where that is wrong. */
static int config_take(struct json_object *json, struct apir_config *config, struct apir_error *err)
{
    int rc = 0;
    json_object_object_foreach(json, key, value)
    {
        rc = config_read_key(key, value, config, err);
        if (rc < 0)
            break;
    }
    if (rc == 0 && config->context_gpu_percent != 100 && config->mps == APIR_CONFIG_OFF)
        rc = apir_error_set(
            err, EINVAL, "\"context_gpu_percent\" holds through MPS alone: give \"mps\" as well");
    if (rc == 0 && config->latency && config->weight == 0)
        rc = apir_error_set(err, EINVAL,
                            "\"latency\" is within a class's share: give \"weight\" as well");
    if (rc < 0) {
        apir_config_fini(config);
        (void)config_set_defaults(config, NULL);
    }
    return rc;
}

int apir_config_parse(const char *text, size_t size, struct apir_config *config,
                      struct apir_error *err)
{
    cleanup_json struct json_object *json = NULL;
    int rc = config_set_defaults(config, err);
    if (rc == 0)
        rc = apir_json_parse(text, size, &json, err);
    return rc == 0 ? config_take(json, config, err) : rc;
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
    cleanup_json struct json_object *json = NULL;
    int rc = config_set_defaults(config, err);
    if (!path)
        path = apir_config_find();
    if (rc < 0 || !path)
        return rc;
    rc = apir_json_load(path, CONFIG_SIZE_MAX, &json, err);
    return rc < 0 ? rc : apir_error_wrap(err, config_take(json, config, err), "%s", path);
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
