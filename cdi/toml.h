/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much TOML as it takes to find one value in an engine's configuration and to
 * change it without touching another byte. The whole text is scanned: where it is
 * not TOML, or says the same thing twice, the answer is an error with the line, and
 * nobody writes into a file that was not understood.
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
    size_t line;                   /* from 1; of the key */
    size_t line_start;             /* offset of that line */
    size_t start, end;             /* the value's bytes */
    bool table_found;              /* the table that holds it (or would) has a header of its own */
    size_t table_start, table_end; /* of the header's line, without and with its newline */
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

/*
 * The text with the value at `path` set to `value` (TOML, as it is to be written): in place
 * where there is one, else as a new line below the table's header, else in a new table at
 * the end. NULL: take the value's line out. *ret_text is the caller's. Returns 0 or -errno.
 */
int cdi_toml_set(const char *text, const char *const *path, size_t n, const char *value,
                 char **ret_text, struct apir_error *err);

/* As a string that is read as this text. */
void cdi_toml_put_string(FILE *out, const char *text);

#endif
