/* SPDX-License-Identifier: Apache-2.0 */
/* What of descriptors, signals and threads each system has in a way of its own. */
#pragma once

#include <signal.h>
#include <stdint.h>

/*
 * A descriptor for the loop that is ready when one of these signals, which the caller blocks, has
 * come; -errno where there is none. server_signals_read: what has come is taken note of.
 */
int server_signals_open(const sigset_t *mask);
void server_signals_read(int fd);

/* A pipe, close-on-exec, neither end of which blocks. Returns 0 or -errno. */
int server_pipe(int fds[2]);

/* Closes all from first to last; last < 0: to the highest. Returns 0 or -errno. */
int server_close_range(int first, int last);

/* What the calling thread has computed so far, and how often it has slept of its own. */
struct server_self_use {
    int64_t cpu_us;
    long sleeps;
};
struct server_self_use server_self_used(void);
