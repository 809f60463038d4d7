/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container whose process exists, seen from the runtime's side: the pid that a
 * state names becomes descriptors once, and everything later goes through those.
 */
#pragma once

#include <stdint.h>

struct apir_error;

struct hook_container {
    int pidfd;
    int proc;      /* /proc/PID */
    int mounts;    /* its mount namespace */
    int users;     /* its user namespace, -1 where that is ours */
    int root;      /* what is / to it: before its root is entered the host's, there */
    int host_root; /* what is / to us */
};

#define HOOK_CONTAINER_NONE                                                                        \
    {.pidfd = -1, .proc = -1, .mounts = -1, .users = -1, .root = -1, .host_root = -1}

void hook_container_fini(struct hook_container *container);
#define cleanup_container __attribute__((cleanup(hook_container_fini)))

/*
 * Opens the process `pid`. Refused with a line that says so: no pid (0 or less), a
 * pid that is no process (any more), and one in our own mount namespace, where a
 * mount would be the host's. All descriptors are of one and the same process, since
 * its pidfd shows it alive after the last of them was opened.
 */
int hook_container_open(int64_t pid, struct hook_container *ret, struct apir_error *err);

/*
 * Enters its mount namespace and opens the container's root (an absolute path, by
 * the runtime) there. Refused: a root that is / of the host or of that process.
 * Then, where the container has a user namespace, becomes its root: what we make is
 * its own, and we have no rights left over anything else. There is no way back. Returns an O_PATH
 * descriptor or -errno with err set.
 */
int hook_container_enter(const struct hook_container *container, const char *root,
                         struct apir_error *err);
