/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of others and of ours: read whole, replaced whole or not at all.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct apir_error;

#define CDI_FILE_SIZE_MAX    (1u << 20)
#define CDI_FILE_ENTRIES_MAX 20000u

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

/*
 * The same for a file that is ours alone: this mode, our own in any case, and in a folder of mode
 * `folder` where that was missing; whatever the umask.
 */
int cdi_file_replace(const char *path, const char *text, mode_t mode, mode_t folder,
                     struct apir_error *err);

/*
 * Calls fn for each file of the folder whose name ends with `suffix`, in the order of their names,
 * until it returns non-zero. Returns fn's last result, or -errno: -E2BIG where the folder has more
 * than CDI_FILE_ENTRIES_MAX entries.
 */
int cdi_file_each(const char *dir, const char *suffix, int (*fn)(const char *path, void *user),
                  void *user);
bool cdi_file_ends_with(const char *name, const char *end);

/* Unlinks it; that it is not there is no error. */
int cdi_file_remove(const char *path, struct apir_error *err);

/* Prints what changes from `before` to `after` (NULL: no file), with - and + and some context. */
void cdi_file_print_change(FILE *out, const char *path, const char *before, const char *after);
