/* SPDX-License-Identifier: Apache-2.0 */
/* Files, read and written whole, and the beginning of one. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct apir_error;

/*
 * Reads fd to its end into *ret_data (NUL-terminated, to be freed by the
 * caller). More than max bytes is -EFBIG: nothing is ever truncated silently.
 * Returns 0 or -errno.
 */
int apir_file_read(int fd, size_t max, char **ret_data, size_t *ret_size, struct apir_error *err);

/* What one read gives of the beginning of the file, as text; "" where that is nothing. Returns its
 * length, or -errno. */
ssize_t apir_file_begin(const char *path, char *text, size_t size);

/* Writes all of it. Returns 0 or -errno. */
int apir_file_write(int fd, const char *data, size_t size);
