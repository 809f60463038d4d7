/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TOML, as far as engines' configurations are asked for anything: tables become objects, arrays
 * lists; strings, booleans and whole numbers are what they are, and all else (dates, strings of
 * several lines) is null. Where the text is not TOML, or sets the same value twice, the answer
 * is an error with the line. A table that has two headers is taken, though an engine refuses it.
 */
#ifndef APIR_CDI_ENGINE_TOML_H
#define APIR_CDI_ENGINE_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct apir_error;
struct json_object;

#define CDI_TOML_DEPTH_MAX 16
#define CDI_STRINGS_MAX    32

/* *ret_top is the caller's to put. Returns 0 or -errno: -EBADMSG with the line in *err. */
int cdi_toml_parse(const char *text, struct json_object **ret_top, struct apir_error *err);

struct cdi_strings {
    size_t n;
    char *items[CDI_STRINGS_MAX];
};
void cdi_strings_fini(struct cdi_strings *list);
/* Takes a copy. -ENOSPC, -ENOMEM. */
int cdi_strings_add(struct cdi_strings *list, const char *item);
bool cdi_strings_have(const struct cdi_strings *list, const char *item);
#define cleanup_strings __attribute__((cleanup(cdi_strings_fini)))

/*
 * The value as a list of strings, added to *list. An element {append = true}, which
 * podman's files may have, sets *ret_append and is left out. -EBADMSG where it is none.
 */
int cdi_toml_strings(struct json_object *value, struct cdi_strings *list, bool *ret_append);

/* As a string that is read as this text. */
void cdi_toml_put_string(FILE *out, const char *text);

#endif
