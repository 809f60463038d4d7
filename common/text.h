/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of others (names out of an image, a spec, a configuration) on its way to a terminal or a
 * log. What a terminal would obey is taken out: control characters, those of C1 as well (U+0080 to
 * U+009F), those that turn the order of text around or end a line (U+202E and its like), and bytes
 * that are no UTF-8, which it may take for those.
 */
#pragma once

#include <stdarg.h>
#include <stdio.h>

/* Puts a question mark in the place of each such byte, newlines and tabs included. */
void apir_text_clean(char *text);
/* The same for an array of `size` bytes that a peer has filled: whatever is in it, it ends there.
 */
void apir_text_accept(char *text, size_t size);

/* Prints one line, or a part of one, so cleaned; tabs, and a newline at its end, are kept. */
void apir_text_print(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A text of the caller's, to free; NULL: no memory. */
char *apir_text_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *apir_text_vformat(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

/* A line of JSON, or several, on standard output: those characters as its escapes. 0 or -errno. */
int apir_text_print_json(const char *text);
