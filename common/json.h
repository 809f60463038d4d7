/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that others wrote: bounded, strict, and never taken for more than it is.
 * Shared by apir, apir-hook, and the configuration of server and worker.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct apir_error;
struct json_object;

/*
 * Parses exactly one JSON object: UTF-8, at most 32 levels deep, nothing behind
 * it, no name twice in an object (the readers of runc and crun, and ours, would
 * each take another one), and none of json-c's own liberties. data[size] is a NUL.
 * *ret_object is the caller's to put. Returns 0 or -errno.
 */
int apir_json_parse(const char *data, size_t size, struct json_object **ret_object,
                    struct apir_error *err);

/* The same for a file of at most max bytes; its name is in the error text. */
int apir_json_load(const char *path, size_t max, struct json_object **ret_object,
                   struct apir_error *err);

/* The member's string, or NULL where it is absent, no string, or holds a NUL. */
const char *apir_json_string(struct json_object *object, const char *key);

/* The member if it has this type (enum json_type), else NULL. Borrowed. */
struct json_object *apir_json_member(struct json_object *object, const char *key, int type);

/* The same if it is a list, or an object. */
struct json_object *apir_json_array(struct json_object *object, const char *key);
struct json_object *apir_json_object(struct json_object *object, const char *key);

/* How many items a list has; 0 for what is none, NULL too. */
size_t apir_json_length(struct json_object *array);
/* Its i-th item, as apir_json_string. */
const char *apir_json_string_at(struct json_object *array, size_t i);
/* Whether one of its items is this string. */
bool apir_json_has_string(struct json_object *array, const char *text);

/*
 * Builders. Each takes `value`, also where it fails; NULL in any place is for want of memory, so
 * that what makes the value needs no check of its own. Returns 0 or -ENOMEM.
 */
int apir_json_set(struct json_object *object, const char *key, struct json_object *value);
int apir_json_append(struct json_object *array, struct json_object *value);

/* On standard output, laid out, fit for a terminal (common/text.h). Returns 0 or -errno. */
int apir_json_print(struct json_object *object);

void apir_json_put(struct json_object **object);
#define cleanup_json __attribute__((cleanup(apir_json_put)))
