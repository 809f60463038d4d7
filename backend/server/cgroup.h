/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control group for each worker, where a service manager has given us ours to divide (systemd's
 * Delegate=): then the kernel itself keeps a context's share of the main memory, and a worker under
 * foreign control that takes more than it was granted ends alone. Without that (a VMM's child, a
 * server that was started by hand) the books and the worker's own limits are all there is.
 *
 * No call that changes a group is made by the server's one thread: the kernel has one lock for all
 * groups of the machine, and whoever moves a process may hold it until all processors have done
 * what they were at. A worker makes its group and enters it before its exec; a thread of closer.h
 * removes it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "backend/config/settings.h"

/* What drivers take of the main memory beside what a context asks for: their own tables, compilers
 * and code. Seen with NVIDIA's: 241 MiB of a worker (Vulkan, a model of 1B), 208 of a small program
 * of CUDA and cuBLAS. */
#define SERVER_CGROUP_DRIVERS_MIB 1024u

struct server_cgroups {
    char folder[PATH_MAX]; /* of the service; "": there is none of ours */
    char memory_max[32];   /* "max": no limit */
    char pids_max[16];
};

/*
 * Takes the service's group, if it is ours to divide: this process moves into a group `server`
 * below it, and the controllers are handed down. To be called before there is any other process,
 * and not from the loop. What it did, or why not, is in *ret_text for the log: the caller's, with
 * room for size.
 */
void server_cgroups_init(struct server_cgroups *groups, const struct apir_config *config,
                         char *ret_text, size_t size);

/* In a child, before its exec: makes a group for this process and enters it. Returns 0 or -errno.
 */
int server_cgroups_enter(const struct server_cgroups *groups);

/* Whether a process that has ended was killed because there was no memory left for it; before: */
bool server_cgroups_starved(const struct server_cgroups *groups, pid_t pid);
/* The process has been reaped: its group is removed, a little later. */
void server_cgroups_leave(const struct server_cgroups *groups, pid_t pid);
