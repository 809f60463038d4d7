/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's configuration: what is understood can be shown, and what is shown is understood as
 * the same. Input: the file.
 */
#include "tests/hostile/fuzz/fuzz.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/config/config.h"
#include "backend/config/keys.h"

const char fuzz_corpus[] = "config";

/* Whether or not the file was understood: no value is beyond its key's bounds. */
static void check_numbers(const struct apir_config *config)
{
    for (size_t i = 0; i < config_keys_n; i++) {
        const struct config_key *key = &config_keys[i];
        uint32_t value;
        if (key->highest == 0 || key->kind->fini)
            continue;
        memcpy(&value, (const uint8_t *)config + key->offset, sizeof(value));
        FUZZ_CHECK(value >= key->lowest && value <= key->highest);
    }
}

/* The values as a file that says them all. */
static struct json_object *as_file(const struct apir_config *config)
{
    struct json_object *shown = apir_config_show(config), *file = json_object_new_object();
    FUZZ_CHECK(shown && file);
    json_object_object_foreach(shown, key, entry)
    {
        struct json_object *value = json_object_object_get(entry, "value");
        if (value)
            FUZZ_CHECK(json_object_object_add(file, key, json_object_get(value)) == 0);
    }
    json_object_put(shown);
    return file;
}

static void check_again(const struct apir_config *config)
{
    struct apir_config again;
    struct apir_error err = {0};
    struct json_object *file = as_file(config);
    size_t size = 0;
    const char *text = json_object_to_json_string_length(file, JSON_C_TO_STRING_PLAIN, &size);
    FUZZ_CHECK(apir_config_parse(text, size, &again, &err) == 0);
    struct json_object *file_again = as_file(&again);
    FUZZ_CHECK(json_object_equal(file, file_again));
    json_object_put(file_again);
    json_object_put(file);
    apir_config_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct apir_config config;
    struct apir_error err = {0};
    char *text = calloc(1, size + 1);
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    int rc = apir_config_parse(text, size, &config, &err);
    free(text);
    FUZZ_CHECK((rc < 0) == (err.msg[0] != '\0'));
    FUZZ_CHECK(rc == 0 || config.given == 0);
    check_numbers(&config);
    check_again(&config);
    apir_config_fini(&config);
    return 0;
}
