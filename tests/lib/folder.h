/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APIR_TEST_FOLDER_H
#define APIR_TEST_FOLDER_H

/* Removes it with all that is in it, but for what is mounted there. */
int folder_remove(const char *path);
/* How many entries it has, or -1. */
int folder_entries(const char *path);

#endif
