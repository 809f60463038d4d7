/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that others wrote: bounded, strict, and never taken for more than it is.
 * Shared by apir, apir-hook, and the configuration of server and worker.
 */
#ifndef APIR_CDI_JSON_H
#define APIR_CDI_JSON_H

#include <stddef.h>

struct apir_error;
struct json_object;

/*
 * Reads fd to its end into *ret_data (NUL-terminated, to be freed by the
 * caller). More than max bytes is -EFBIG: nothing is ever truncated silently.
 * Returns 0 or -errno.
 */
int cdi_json_read_fd(int fd, size_t max, char **ret_data, size_t *ret_size, struct apir_error *err);

/* Writes all of it. Returns 0 or -errno. */
int cdi_json_write_fd(int fd, const char *data, size_t size);

/*
 * Parses exactly one JSON object: UTF-8, at most 32 levels deep, nothing behind
 * it, no name twice in an object (the readers of runc and crun, and ours, would
 * each take another one), and none of json-c's own liberties. data[size] is a NUL.
 * *ret_object is the caller's to put. Returns 0 or -errno.
 */
int cdi_json_parse(const char *data, size_t size, struct json_object **ret_object,
                   struct apir_error *err);

/* Both of the above for a file; its name is in the error text. */
int cdi_json_load(const char *path, size_t max, struct json_object **ret_object,
                  struct apir_error *err);

/* The member's string, or NULL where it is absent, no string, or holds a NUL. */
const char *cdi_json_string(struct json_object *object, const char *key);

/* The member if it has this type (enum json_type), else NULL. Borrowed. */
struct json_object *cdi_json_member(struct json_object *object, const char *key, int type);

void cdi_json_put(struct json_object **object);
#define cleanup_json __attribute__((cleanup(cdi_json_put)))

#endif
