/* SPDX-License-Identifier: Apache-2.0 */
/* The container engines of this machine, and whether they know CDI. */
#ifndef APIR_CDI_ENGINE_H
#define APIR_CDI_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

/* The first "MAJOR.MINOR" in text. Returns false where there is none. */
bool cdi_engine_parse_version(const char *text, int *ret_major, int *ret_minor);

/*
 * Asks each known engine on PATH for its version. Puts one line about them into
 * text. Returns how many know CDI by themselves, 0 where some are there but
 * none does, -1 where there is no engine at all.
 */
int cdi_engine_find(char *text, size_t size);

#endif
