/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of processes, their descriptors and their signals each system has in a way of its own.
 * Linux' way is all there is (docs/macos.md).
 */
#ifndef APIR_SERVER_SYSTEM_H
#define APIR_SERVER_SYSTEM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A descriptor for the loop that is ready when one of these signals, which the caller blocks, has
 * come; -errno where there is none. server_signals_read: what has come is taken note of.
 */
int server_signals_open(const sigset_t *mask);
void server_signals_read(int fd);

/* Closes all from first to last; last < 0: to the highest. Returns 0 or -errno. */
int server_close_range(int first, int last);

/* The path of this very program, with its NUL. Returns 0 or -errno. */
int server_self_path(char *path, size_t size);
/* Whether a path leads to this very program. */
bool server_self_is(const char *path);

/* The folder apir/NAME below the one that systemd gives a user's session, made where it is missing:
 * -ENOENT where there is no session, -EPERM where it is another user's. Returns 0 or -errno. */
int server_session_folder(const char *name, char *path, size_t size);

/* Less than a quarter of this machine's memory is available. False where it cannot be told. */
bool server_memory_is_scarce(void);
/* The same of a text as that of /proc/meminfo. */
bool server_meminfo_is_scarce(const char *text);

/* What the calling thread has computed so far, and how often it has slept of its own. */
struct server_self_use {
    int64_t cpu_us;
    long sleeps;
};
struct server_self_use server_self_used(void);

/* In a child: where memory runs out the kernel is to end it before others. */
void server_self_goes_first(void);

#endif
