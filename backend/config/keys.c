/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "common/c17.h"

#include "backend/config/keys.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- paths ------------------------------------------------------------------- */

static int path_read(const struct config_key *key, struct json_object *value, void *member,
                     struct apir_error *err)
{
    char **path = member;
    const char *text = json_object_get_string(value);
    if (!json_object_is_type(value, json_type_string) || !text || text[0] != '/' ||
        strlen(text) != (size_t)json_object_get_string_len(value))
        return apir_error_set(err, EINVAL, "\"%s\" must be an absolute path", key->name);
    char *copy = strdup(text);
    if (!copy)
        return apir_error_sys(err, ENOMEM, "\"%s\"", key->name);
    free(*path);
    *path = copy;
    return 0;
}

static struct json_object *path_show(const void *member)
{
    char *const *path = member;
    return *path ? json_object_new_string(*path) : NULL;
}

static int stock_server_read(const struct config_key *key, struct json_object *value, void *member,
                             struct apir_error *err)
{
    char **path = member;
    if (json_object_is_type(value, json_type_boolean) && !json_object_get_boolean(value)) {
        free(*path);
        *path = NULL;
        return 0;
    }
    if (!json_object_is_type(value, json_type_string))
        return apir_error_set(err, EINVAL, "\"%s\" must be an absolute path or false", key->name);
    return path_read(key, value, member, err);
}

static struct json_object *stock_server_show(const void *member)
{
    char *const *path = member;
    return *path ? json_object_new_string(*path) : json_object_new_boolean(0);
}

/* ---- numbers ----------------------------------------------------------------- */

static int number_read(const struct config_key *key, struct json_object *value, void *member,
                       struct apir_error *err)
{
    uint32_t *number = member;
    int64_t n = json_object_get_int64(value);
    if (!json_object_is_type(value, json_type_int) || n < key->lowest || n > key->highest)
        return apir_error_set(err, EINVAL, "\"%s\" must be a whole number from %u to %u", key->name,
                              key->lowest, key->highest);
    *number = (uint32_t)n;
    return 0;
}

static struct json_object *number_show(const void *member)
{
    const uint32_t *number = member;
    return json_object_new_int64(*number);
}

/* ---- lists ------------------------------------------------------------------- */

void config_names_free(struct apir_config_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct apir_config_names){0};
}

/* Returns the list's length, or 0 where it is no list of 1 to `max`; or -ENOMEM. */
static int list_begin(struct json_object *value, size_t max, struct apir_config_names *list)
{
    config_names_free(list);
    size_t n = json_object_is_type(value, json_type_array) ? json_object_array_length(value) : 0;
    if (n == 0 || n > max)
        return 0;
    list->names = calloc(n, sizeof(*list->names));
    return list->names ? (int)n : -ENOMEM;
}

static bool device_ok(struct json_object *item)
{
    const char *text = json_object_get_string(item);
    return json_object_is_type(item, json_type_string) && *text &&
           strlen(text) == (size_t)json_object_get_string_len(item);
}

static bool name_ok(struct json_object *item)
{
    const char *text = json_object_get_string(item);
    const int64_t number = json_object_get_int64(item);
    /* ~0 means "no user" to the kernel. A string of digits is no name but a mistake. */
    if (json_object_is_type(item, json_type_int))
        return number >= 0 && number < UINT32_MAX;
    return json_object_is_type(item, json_type_string) && *text &&
           strlen(text) == (size_t)json_object_get_string_len(item) &&
           text[strspn(text, "0123456789")] != '\0';
}

static bool path_ok(struct json_object *item)
{
    const char *text = json_object_get_string(item);
    return json_object_is_type(item, json_type_string) && text[0] == '/' &&
           strlen(text) == (size_t)json_object_get_string_len(item);
}

/* `what`: of the list's items, for the user. */
static int list_read(const struct config_key *key, struct json_object *value, void *member,
                     size_t max, const char *what, bool (*ok)(struct json_object *item),
                     struct apir_error *err)
{
    struct apir_config_names *list = member;
    int n = list_begin(value, max, list);
    if (n == 0)
        return apir_error_set(err, EINVAL, "\"%s\" must be a list of 1 to %zu %ss", key->name, max,
                              what);
    for (int i = 0; i < n; i++) {
        struct json_object *item = json_object_array_get_idx(value, (size_t)i);
        if (!ok(item))
            return apir_error_set(err, EINVAL, "\"%s\" holds something that is no %s", key->name,
                                  what);
        list->names[i] = strdup(json_object_get_string(item));
        if (!list->names[i])
            return apir_error_sys(err, ENOMEM, "\"%s\"", key->name);
        list->n = (size_t)i + 1;
    }
    return n < 0 ? apir_error_sys(err, ENOMEM, "\"%s\"", key->name) : 0;
}

/* What a name means is looked up by who uses it: the server, and not each worker. */
static int names_read(const struct config_key *key, struct json_object *value, void *member,
                      struct apir_error *err)
{
    return list_read(key, value, member, APIR_CONFIG_NAMES_MAX, "name or number", name_ok, err);
}

static int paths_read(const struct config_key *key, struct json_object *value, void *member,
                      struct apir_error *err)
{
    return list_read(key, value, member, APIR_CONFIG_NAMES_MAX, "absolute path", path_ok, err);
}

static int devices_read(const struct config_key *key, struct json_object *value, void *member,
                        struct apir_error *err)
{
    if (json_object_is_type(value, json_type_string) &&
        strcmp(json_object_get_string(value), "auto") == 0) {
        config_names_free(member);
        return 0;
    }
    return list_read(key, value, member, APIR_CONFIG_DEVICES_MAX, "device name", device_ok, err);
}

static struct json_object *list_show(const void *member)
{
    const struct apir_config_names *list = member;
    struct json_object *array = list->n ? json_object_new_array() : NULL;
    for (size_t i = 0; array && i < list->n; i++)
        json_object_array_add(array, json_object_new_string(list->names[i]));
    return array;
}

/* No name is all digits: what is, has been a number. */
static struct json_object *names_show(const void *member)
{
    const struct apir_config_names *list = member;
    struct json_object *array = list->n ? json_object_new_array() : NULL;
    for (size_t i = 0; array && i < list->n; i++) {
        const char *text = list->names[i];
        bool number = text[strspn(text, "0123456789")] == '\0';
        json_object_array_add(array, number ? json_object_new_int64(strtoll(text, NULL, 10))
                                            : json_object_new_string(text));
    }
    return array;
}

static struct json_object *devices_show(const void *member)
{
    const struct apir_config_names *list = member;
    return list->n ? list_show(member) : json_object_new_string("auto");
}

/* ---- the sandbox ------------------------------------------------------------- */

static int sandbox_read(const struct config_key *key, struct json_object *value, void *member,
                        struct apir_error *err)
{
    bool *required = member;
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    *required = strcmp(text, "required") == 0;
    if (*required || strcmp(text, "auto") == 0)
        return 0;
    return apir_error_set(err, EINVAL, "\"%s\" must be \"auto\" or \"required\"", key->name);
}

static struct json_object *sandbox_show(const void *member)
{
    const bool *required = member;
    return json_object_new_string(*required ? "required" : "auto");
}

/* ---- turns ------------------------------------------------------------------- */

static int bool_read(const struct config_key *key, struct json_object *value, void *member,
                     struct apir_error *err)
{
    bool *flag = member;
    if (!json_object_is_type(value, json_type_boolean))
        return apir_error_set(err, EINVAL, "\"%s\" must be true or false", key->name);
    *flag = json_object_get_boolean(value);
    return 0;
}

static struct json_object *bool_show(const void *member)
{
    const bool *flag = member;
    return json_object_new_boolean(*flag);
}

/* ---- MPS --------------------------------------------------------------------- */

static const char *const mps_names[] = {
    [APIR_CONFIG_MPS_OFF] = "off",
    [APIR_CONFIG_MPS_AUTO] = "auto",
    [APIR_CONFIG_MPS_REQUIRED] = "required",
};

static int mps_read(const struct config_key *key, struct json_object *value, void *member,
                    struct apir_error *err)
{
    enum apir_config_mps *mps = member;
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    for (size_t i = 0; i < sizeof(mps_names) / sizeof(mps_names[0]); i++) {
        if (strcmp(text, mps_names[i]) == 0) {
            *mps = (enum apir_config_mps)i;
            return 0;
        }
    }
    return apir_error_set(err, EINVAL, "\"%s\" must be \"off\", \"auto\" or \"required\"",
                          key->name);
}

static struct json_object *mps_show(const void *member)
{
    const enum apir_config_mps *mps = member;
    return json_object_new_string(mps_names[*mps]);
}

/* Part of a folder's name. */
static int group_read(const struct config_key *key, struct json_object *value, void *member,
                      struct apir_error *err)
{
    char **group = member;
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    const size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_");
    if (n == 0 || n > APIR_CONFIG_GROUP_MAX || n != (size_t)json_object_get_string_len(value))
        return apir_error_set(
            err, EINVAL, "\"%s\" must be a name of 1 to %u of the characters a-z, 0-9, - and _",
            key->name, APIR_CONFIG_GROUP_MAX);
    char *copy = strdup(text);
    if (!copy)
        return apir_error_sys(err, ENOMEM, "\"%s\"", key->name);
    free(*group);
    *group = copy;
    return 0;
}

/* ---- the table --------------------------------------------------------------- */

#define AT(field)    offsetof(struct apir_config, field)
#define PATH(field)  {#field, path_read, path_show, AT(field), 0, 0, 0}
#define NAMES(field) {#field, names_read, names_show, AT(field), 0, 0, 0}
#define PATHS(field) {#field, paths_read, list_show, AT(field), 0, 0, 0}
#define NUMBER(field, lo, hi, otherwise)                                                           \
    {#field, number_read, number_show, AT(field), lo, hi, otherwise}

/* clang-format off */
const struct config_key config_keys[] = {
    {"devices", devices_read, devices_show, AT(devices), 0, 0, 0},
    NUMBER(threads, 0, APIR_CONFIG_THREADS_MAX, 0),
    NUMBER(max_contexts, 1, APIR_CONFIG_CONTEXTS_MAX, 64),
    NUMBER(max_contexts_per_user, 1, APIR_CONFIG_CONTEXTS_MAX, 32),
    NUMBER(max_contexts_per_device, 0, 65536, 0),
    NUMBER(device_memory_mib, 0, APIR_CONFIG_MIB_MAX, 0),
    NUMBER(class_device_memory_mib, 0, APIR_CONFIG_MIB_MAX, 0),
    NUMBER(class_shm_mib, 0, APIR_CONFIG_MIB_MAX, 0),
    NUMBER(context_device_memory_mib, 0, APIR_CONFIG_MIB_MAX, 0),
    NUMBER(context_host_memory_mib, 0, APIR_CONFIG_MIB_MAX, 0),
    NUMBER(context_shm_mib, 1, 65536, 1024),
    NUMBER(context_graph_mib, 1, 65536, 1024),
    NUMBER(context_queue_mib, 1, 65536, 256),
    NUMBER(seconds_per_graph, 0, APIR_CONFIG_SECONDS_MAX, 600),
    NUMBER(seconds_to_start, 0, APIR_CONFIG_SECONDS_MAX, 300),
    NUMBER(spare_workers, 0, APIR_CONFIG_SPARES_MAX, 1),
    NUMBER(spare_seconds, 1, APIR_CONFIG_SECONDS_MAX, 600),
    NUMBER(shader_seconds, 0, APIR_CONFIG_SECONDS_MAX, 300),
    {"mps", mps_read, mps_show, AT(mps), 0, 0, 0},
    {"mps_group", group_read, path_show, AT(mps_group), 0, 0, 0},
    PATH(mps_control),
    NUMBER(context_gpu_percent, 1, 100, 100),
    NUMBER(weight, 0, 100, 0),
    {"latency", bool_read, bool_show, AT(latency), 0, 0, 0},
    PATH(limits_dir),
    NAMES(allow_users),
    NAMES(allow_groups),
    {"sandbox", sandbox_read, sandbox_show, AT(sandbox_required), 0, 0, 0},
    PATHS(sandbox_read),
    PATHS(sandbox_write),
    PATH(ggml),
    PATH(ggml_backends_dir),
    {"stock_server", stock_server_read, stock_server_show, AT(stock_server), 0, 0, 0},
    PATH(worker),
};
/* clang-format on */
const size_t config_keys_n = sizeof(config_keys) / sizeof(config_keys[0]);
_Static_assert(sizeof(config_keys) / sizeof(config_keys[0]) <= 64, "bits of apir_config.given");
