/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the configuration: what each may be, and how it is shown. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "backend/config/settings.h"
#include "common/error.h"

struct json_object;
struct config_key;

struct config_kind {
    /* Replaces what the key has been so far. Returns 0 or -errno with *err set. */
    int (*read)(const struct config_key *key, struct json_object *value, void *member,
                struct apir_error *err);
    /* To be put; NULL stands for JSON's null. */
    struct json_object *(*show)(const struct config_key *key, const void *member);
    void (*fini)(void *member); /* NULL: it owns nothing */
};

struct config_key {
    const char *name;
    const struct config_kind *kind;
    size_t offset;                       /* of its member of struct apir_config */
    uint32_t lowest, highest, otherwise; /* as in APIR_CONFIG_KEYS */
};

/* config_keys_n of them, 64 at most. */
extern const struct config_key config_keys[];
extern const size_t config_keys_n;
