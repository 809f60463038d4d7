/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files of others: read whole, replaced whole or not at all, never
 * through a symbolic link.
 */
#ifndef APIR_CDI_ENGINE_FILE_H
#define APIR_CDI_ENGINE_FILE_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct apir_error;

#define CDI_FILE_SIZE_MAX (1u << 20)

struct cdi_file_owner {
    mode_t mode;
    uid_t uid;
    gid_t gid;
};

/*
 * The file's text (NUL-terminated, without a NUL in it), or NULL where there is no such
 * file. A symbolic link (-ELOOP), anything that is no regular file, and what is too large
 * is an error. owner may be NULL. Returns 0 or -errno.
 */
int cdi_file_read(const char *path, char **ret_text, struct cdi_file_owner *owner,
                  struct apir_error *err);

/* The same for a file that is only read: links are followed. */
int cdi_file_load(const char *path, char **ret_text, struct apir_error *err);

/*
 * Writes text to path by way of a temporary file beside it and a rename. A file that was
 * there keeps its mode, owner, access lists, labels and other attributes, or is not replaced; a
 * new one gets mode 0644. Missing folders are made (0755). Returns 0 or -errno.
 */
int cdi_file_write(const char *path, const char *text, struct apir_error *err);

/* The same for what may hold secrets: mode 0600 and our own in any case, in a folder of 0700
 * where that was missing. */
int cdi_file_write_private(const char *path, const char *text, struct apir_error *err);

/* Unlinks it; that it is not there is no error. */
int cdi_file_remove(const char *path, struct apir_error *err);

/* Prints what changes from `before` to `after` (NULL: no file), with - and + and some context. */
void cdi_file_print_change(FILE *out, const char *path, const char *before, const char *after);

#endif
