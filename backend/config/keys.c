/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/config/keys.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

/* ---- texts ------------------------------------------------------------------- */

/* NULL: it is none, or holds a NUL. */
static const char *text_of(struct json_object *value)
{
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
    return text && strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
}

static void text_fini(void *member)
{
    char **text = member;
    free(*text);
    *text = NULL;
}

static int text_take(const struct config_key *key, const char *text, void *member,
                     struct apir_error *err)
{
    char **now = member, *copy = strdup(text);
    if (!copy)
        return apir_error_sys(err, ENOMEM, "\"%s\"", key->name);
    text_fini(member);
    *now = copy;
    return 0;
}

static struct json_object *text_show(const struct config_key *key, const void *member)
{
    char *const *text = member;
    (void)key;
    return *text ? json_object_new_string(*text) : NULL;
}

static int path_read(const struct config_key *key, struct json_object *value, void *member,
                     struct apir_error *err)
{
    const char *text = text_of(value);
    return text && text[0] == '/'
               ? text_take(key, text, member, err)
               : apir_error_set(err, EINVAL, "\"%s\" must be an absolute path", key->name);
}

static int path_or_false_read(const struct config_key *key, struct json_object *value, void *member,
                              struct apir_error *err)
{
    if (json_object_is_type(value, json_type_boolean) && !json_object_get_boolean(value)) {
        text_fini(member);
        return 0;
    }
    if (!json_object_is_type(value, json_type_string))
        return apir_error_set(err, EINVAL, "\"%s\" must be an absolute path or false", key->name);
    return path_read(key, value, member, err);
}

static struct json_object *path_or_false_show(const struct config_key *key, const void *member)
{
    struct json_object *text = text_show(key, member);
    return text ? text : json_object_new_boolean(0);
}

/* Part of a folder's name. */
static int name_read(const struct config_key *key, struct json_object *value, void *member,
                     struct apir_error *err)
{
    const char *text = text_of(value);
    const size_t n = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_") : 0;
    if (n < key->lowest || n > key->highest || text[n] != '\0')
        return apir_error_set(
            err, EINVAL, "\"%s\" must be a name of 1 to %u of the characters a-z, 0-9, - and _",
            key->name, key->highest);
    return text_take(key, text, member, err);
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

static struct json_object *number_show(const struct config_key *key, const void *member)
{
    const uint32_t *number = member;
    (void)key;
    return json_object_new_int64(*number);
}

static const char *const choices[] = {
    [APIR_CONFIG_OFF] = "off",
    [APIR_CONFIG_AUTO] = "auto",
    [APIR_CONFIG_REQUIRED] = "required",
};

static int choice_read(const struct config_key *key, struct json_object *value, void *member,
                       struct apir_error *err)
{
    uint32_t *choice = member;
    const char *text = text_of(value);
    for (uint32_t i = key->lowest; text && i <= key->highest; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *choice = i;
            return 0;
        }
    }
    return apir_error_set(err, EINVAL, "\"%s\" must be %s\"auto\" or \"required\"", key->name,
                          key->lowest == APIR_CONFIG_OFF ? "\"off\", " : "");
}

static struct json_object *choice_show(const struct config_key *key, const void *member)
{
    const uint32_t *choice = member;
    (void)key;
    return json_object_new_string(choices[*choice]);
}

static int flag_read(const struct config_key *key, struct json_object *value, void *member,
                     struct apir_error *err)
{
    bool *flag = member;
    if (!json_object_is_type(value, json_type_boolean))
        return apir_error_set(err, EINVAL, "\"%s\" must be true or false", key->name);
    *flag = json_object_get_boolean(value);
    return 0;
}

static struct json_object *flag_show(const struct config_key *key, const void *member)
{
    const bool *flag = member;
    (void)key;
    return json_object_new_boolean(*flag);
}

/* ---- lists ------------------------------------------------------------------- */

static void list_fini(void *member)
{
    struct apir_config_names *list = member;
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
    free(list->names);
    *list = (struct apir_config_names){0};
}

static bool device_ok(struct json_object *item)
{
    const char *text = text_of(item);
    return text && *text;
}

static bool path_ok(struct json_object *item)
{
    const char *text = text_of(item);
    return text && text[0] == '/';
}

static bool is_number(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0';
}

/* What a name means is looked up by who uses it: the server, and not each worker. */
static bool name_ok(struct json_object *item)
{
    const int64_t number = json_object_get_int64(item);
    /* ~0 means "no user" to the kernel. A string of digits is no name but a mistake. */
    if (json_object_is_type(item, json_type_int))
        return number >= 0 && number < UINT32_MAX;
    return device_ok(item) && !is_number(text_of(item));
}

/* `what`: of the list's items, for the user. */
static int list_read(const struct config_key *key, struct json_object *value, void *member,
                     const char *what, bool (*ok)(struct json_object *item), struct apir_error *err)
{
    struct apir_config_names *list = member;
    const size_t n = apir_json_length(value);
    list_fini(list);
    if (n < key->lowest || n > key->highest)
        return apir_error_set(err, EINVAL, "\"%s\" must be a list of 1 to %u %ss", key->name,
                              key->highest, what);
    list->names = calloc(n, sizeof(*list->names));
    for (; list->names && list->n < n; list->n++) {
        struct json_object *item = json_object_array_get_idx(value, list->n);
        if (!ok(item))
            return apir_error_set(err, EINVAL, "\"%s\" holds something that is no %s", key->name,
                                  what);
        list->names[list->n] = strdup(json_object_get_string(item));
        if (!list->names[list->n])
            break;
    }
    return list->n == n ? 0 : apir_error_sys(err, ENOMEM, "\"%s\"", key->name);
}

static int names_read(const struct config_key *key, struct json_object *value, void *member,
                      struct apir_error *err)
{
    return list_read(key, value, member, "name or number", name_ok, err);
}

static int paths_read(const struct config_key *key, struct json_object *value, void *member,
                      struct apir_error *err)
{
    return list_read(key, value, member, "absolute path", path_ok, err);
}

static int devices_read(const struct config_key *key, struct json_object *value, void *member,
                        struct apir_error *err)
{
    const char *text = text_of(value);
    list_fini(member);
    return text && strcmp(text, "auto") == 0
               ? 0
               : list_read(key, value, member, "device name", device_ok, err);
}

static struct json_object *list_show(const struct config_key *key, const void *member)
{
    const struct apir_config_names *list = member;
    struct json_object *array = list->n ? json_object_new_array() : NULL;
    for (size_t i = 0; array && i < list->n; i++) {
        const char *text = list->names[i];
        /* No user's or group's name is all digits: what is, has been a number. */
        const bool number = key->kind->read == names_read && is_number(text);
        json_object_array_add(array, number ? json_object_new_int64(strtoll(text, NULL, 10))
                                            : json_object_new_string(text));
    }
    return array;
}

static struct json_object *devices_show(const struct config_key *key, const void *member)
{
    struct json_object *list = list_show(key, member);
    return list ? list : json_object_new_string("auto");
}

/* ---- the table --------------------------------------------------------------- */

#define KIND(NAME, read, show, fini)                                                               \
    static const struct config_kind kind_##NAME = {read, show, fini}
KIND(NUMBER, number_read, number_show, NULL);
KIND(CHOICE, choice_read, choice_show, NULL);
KIND(FLAG, flag_read, flag_show, NULL);
KIND(NAME, name_read, text_show, text_fini);
KIND(PATH, path_read, text_show, text_fini);
KIND(PATH_OR_FALSE, path_or_false_read, path_or_false_show, text_fini);
KIND(NAMES, names_read, list_show, list_fini);
KIND(PATHS, paths_read, list_show, list_fini);
KIND(DEVICES, devices_read, devices_show, list_fini);

const struct config_key config_keys[] = {
#define K(kind, key, lowest, highest, otherwise)                                                   \
    {#key, &kind_##kind, offsetof(struct apir_config, key), lowest, highest, otherwise},
    APIR_CONFIG_KEYS(K)
#undef K
};
const size_t config_keys_n = sizeof(config_keys) / sizeof(config_keys[0]);
_Static_assert(sizeof(config_keys) / sizeof(config_keys[0]) <= 64, "bits of apir_config.given");
