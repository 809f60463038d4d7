/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of this machine that are asked for something. As root nothing is run that another user
 * can put in its place, and nothing tells it to look at what is another user's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The path of the first program of that name on PATH, into path (PATH_MAX); parts of PATH that are
 * not absolute are left out, and as root also what others can change. Returns 0, -ENOENT, or
 * -EPERM where all that there is is of that kind.
 */
int cdi_program_find(const char *name, char *path);

/*
 * Runs argv, whose first word is looked for on PATH, for at most timeout_ms; quiet: without its
 * stderr. What it prints first is in text, NUL-terminated. Returns its exit code, or -errno as
 * above, -ETIMEDOUT where it was killed, -ECHILD where it ended in another way.
 */
int cdi_program_run(const char *const *argv, bool quiet, unsigned timeout_ms, char *text,
                    size_t size);

/* Waits until there is something of fd, or this time (apir_now_ms) has come: -ETIMEDOUT. Returns 0
 * or -errno. */
int cdi_wait(int fd, uint64_t deadline);

/*
 * Takes out of this process's environment, which sudo or su may have left to root from a user, what
 * would lead programs and libraries to daemons, and as root to folders and files of others.
 */
void cdi_program_clean_environment(void);
