/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comes before any header of the C library, in all that the Makefile builds. With _GNU_SOURCE
 * glibc's headers since 2.38 give a program the strtol() and sscanf() of C23, which older ones do
 * not have: what is built there would not start on Debian 12. This asks for those of C17. The names
 * are glibc's own, of 2.38 and of later ones; other C libraries have no use for them.
 */
#pragma once

/* glibc's own choices, which every other header of it takes first: a compiler's <limits.h> does not
 * where it is freestanding. */
#if __has_include(<features.h>)
#include <features.h>
#endif

#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0
