/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's configuration, one JSON object: the file named by APIR_CONFIG,
 * else /etc/apir/backend.json where it exists, else the defaults. Server and
 * worker read the same file. Every key is optional; an unknown key, a key twice, a
 * wrong type or a value out of range is an error that names the key.
 */
#pragma once

#include <stddef.h>

#include "backend/config/settings.h"
#include "common/error.h"

#define APIR_CONFIG_DEFAULT_PATH "/etc/apir/backend.json"
#define APIR_CONFIG_STOCK_SERVER "/usr/libexec/virgl_render_server"

/* The file that apir_config_load reads for path NULL; NULL: there is none. */
const char *apir_config_find(void);

/*
 * Fills *config from `path` (NULL: apir_config_find(), else the defaults).
 * Returns 0 or -errno with *err set, and then *config holds the defaults. The
 * caller calls apir_config_fini either way.
 */
int apir_config_load(const char *path, struct apir_config *config, struct apir_error *err);
/* The same from the file's text; text[size] is a NUL. */
int apir_config_parse(const char *text, size_t size, struct apir_config *config,
                      struct apir_error *err);
void apir_config_fini(struct apir_config *config);

/*
 * All keys in their order, each {"value": …, "from": "file" or "default"}; a value that
 * is found when it is needed is null. The caller puts it. NULL: no memory.
 */
struct json_object;
struct json_object *apir_config_show(const struct apir_config *config);

/* How many threads a worker may have: two pools of one for each processor (of `threads`, if that is
 * more), and 256 for drivers and their compilers. A worker on an NVIDIA GPU was seen with 6. */
uint32_t apir_config_worker_threads(const struct apir_config *config);
