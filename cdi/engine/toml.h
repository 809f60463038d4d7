/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much TOML as it takes to find one value in an engine's configuration. The whole text is
 * scanned: where it is not TOML, or says the same thing twice, the answer is an error with the
 * line.
 */
#ifndef APIR_CDI_TOML_H
#define APIR_CDI_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct apir_error;

#define CDI_TOML_DEPTH_MAX 16
#define CDI_STRINGS_MAX    32

/* Where a value is: offsets into the text. */
struct cdi_toml_place {
    bool found;
    size_t line;       /* from 1; of the key */
    size_t start, end; /* the value's bytes */
    bool table_found;  /* the table that holds it (or would) has a header of its own */
};

/*
 * Finds path[n - 1] in the table path[0] … path[n - 2] (n 1: at the top). *ret_place is
 * filled whether the value is there or not. -EBADMSG: not TOML, or written in a way that
 * must be changed by hand (an inline table, a dotted key in the middle); *err says
 * where. Returns 0 or -errno.
 */
int cdi_toml_find(const char *text, const char *const *path, size_t n,
                  struct cdi_toml_place *ret_place, struct apir_error *err);

struct cdi_strings {
    size_t n;
    char *items[CDI_STRINGS_MAX];
};
void cdi_strings_fini(struct cdi_strings *list);
/* Takes a copy. -ENOSPC, -ENOMEM. */
int cdi_strings_add(struct cdi_strings *list, const char *item);
bool cdi_strings_have(const struct cdi_strings *list, const char *item);
#define cleanup_strings __attribute__((cleanup(cdi_strings_fini)))

/* The value at place as true or false; -EBADMSG where it is neither. */
int cdi_toml_bool(const char *text, const struct cdi_toml_place *place, bool *ret);

/*
 * The value at place as a list of strings, added to *list. An element {append = true}, which
 * podman's files may have, sets *ret_append and is left out. -EBADMSG where it is none.
 */
int cdi_toml_strings(const char *text, const struct cdi_toml_place *place, struct cdi_strings *list,
                     bool *ret_append);

/* As a string that is read as this text. */
void cdi_toml_put_string(FILE *out, const char *text);

#endif
