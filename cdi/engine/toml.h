/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value of an engine's configuration in TOML: of the text only names, tables and where a value
 * ends are understood. What is no TOML may pass, where that is not what was asked for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct apir_error;

#define CDI_STRINGS_MAX 32

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
 * Where in text the first value of that name begins, into *ret_value: "engine.hooks_dir", a quoted
 * part of the name without its quotes. Tables within a value ({...}) are not looked into. Returns
 * 1, 0 where it is not there, or -EBADMSG with the line in *err.
 */
int cdi_toml_find(const char *text, const char *name, const char **ret_value,
                  struct apir_error *err);

/*
 * Its value as a list of strings, added to *list. An element {append = true}, which podman's files
 * may have, sets *ret_append (NULL: it is none that may be there) and is left out. As
 * cdi_toml_find; -EBADMSG where it is no such list, too, -ENOSPC, -ENOMEM.
 */
int cdi_toml_list(const char *text, const char *name, struct cdi_strings *list, bool *ret_append,
                  struct apir_error *err);

/* As a string that is read as this text. */
void cdi_toml_put_string(FILE *out, const char *text);
