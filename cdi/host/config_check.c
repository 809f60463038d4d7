/* SPDX-License-Identifier: Apache-2.0 */
/* apir config check */
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "backend/config/config.h"
#include "backend/config/mps.h"
#include "backend/server/unix/access.h"
#include "cdi/commands.h"
#include "common/json.h"
#include "common/text.h"
#include "common/error.h"

/* Returns the exit code, with *err set where that is not 0. */
static int check(const char *path, struct apir_config *config, struct apir_error *err)
{
    struct server_access access;
    int rc = apir_config_load(path, config, err);

    /* What is no configuration, or too much of one, has been read. */
    if (rc < 0)
        return rc == -EINVAL || rc == -EBADMSG || rc == -EFBIG ? CDI_EXIT_FAILED : CDI_EXIT_NOTHING;
    /* A server that does not find a user or a group, or MPS where it must have it, serves nobody.
     */
    char program[PATH_MAX];
    if (server_access_init(&access, config, err) < 0 ||
        (config->mps == APIR_CONFIG_REQUIRED &&
         apir_config_mps_find(config, program, sizeof(program), err) < 0)) {
        (void)apir_error_wrap(err, -EINVAL, "%s", path);
        return CDI_EXIT_FAILED;
    }
    return CDI_EXIT_OK;
}

static void print_keys(struct json_object *keys)
{
    json_object_object_foreach(keys, key, row)
    {
        struct json_object *value = json_object_object_get(row, "value");

        apir_text_print(stdout, "  %-26s %-24s %s\n", key,
                        value ? json_object_to_json_string_ext(
                                    value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
                              : "-",
                        json_object_get_string(json_object_object_get(row, "from")));
    }
}

static void print_json(const char *path, const struct apir_error *err, struct json_object *keys)
{
    cleanup_json struct json_object *all = json_object_new_object();

    json_object_object_add(all, "file", path ? json_object_new_string(path) : NULL);
    json_object_object_add(all, "valid", json_object_new_boolean(err->code == 0));
    if (err->code != 0)
        json_object_object_add(all, "error", json_object_new_string(err->msg));
    else
        json_object_object_add(all, "keys", json_object_get(keys));
    (void)apir_json_print(all);
}

int cdi_config_check_main(const struct cdi_args *args)
{
    const bool json = args->json;
    const char *path = args->n > 0 ? args->words[0] : apir_config_find();
    struct apir_config config;
    struct apir_error err = {0};
    int code = check(path, &config, &err);
    cleanup_json struct json_object *keys = apir_config_show(&config);

    if (json)
        print_json(path, &err, keys);
    else if (code != CDI_EXIT_OK)
        apir_text_print(stderr, "apir config check: %s\n", err.msg);
    else
        apir_text_print(stdout, "%s: valid\n", path ? path : "no configuration file, defaults");
    if (!json && code == CDI_EXIT_OK)
        print_keys(keys);
    apir_config_fini(&config);
    return code;
}
