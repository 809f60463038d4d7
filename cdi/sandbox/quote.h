/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts without control characters, as each format wants them: what reads it back has the same
 * text. Errors of the stream are the stream's to keep.
 */
#pragma once

#include <stdio.h>

/* A word of a POSIX shell: before, and text behind it. */
void sandbox_put_word(FILE *out, const char *before, const char *text);
/* A string of YAML, with double quotes; a dollar is doubled, as compose wants it. */
void sandbox_put_compose(FILE *out, const char *text);
/* A string of a unit's file, with double quotes; for a command line, so without specifiers and
 * variables. */
void sandbox_put_unit(FILE *out, const char *text);
/* A part of systemd-nspawn's Bind=: a colon would end it. */
void sandbox_put_bind(FILE *out, const char *text);
/* A field of fstab. */
void sandbox_put_fstab(FILE *out, const char *text);
