/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes: started with exactly the fds named, watched by SIGCHLD
 * through a signalfd, always reaped. A child whose owner has forgotten it is
 * reaped all the same.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "backend/server/cgroup.h"
#include "backend/server/loop.h"

#define SERVER_CHILD_FDS_MAX 4u

enum server_child_change {
    SERVER_CHILD_EXITED,  /* status: exit status */
    SERVER_CHILD_KILLED,  /* status: signal; SERVER_CHILD_STARVED: by the kernel, for memory */
    SERVER_CHILD_STOPPED, /* status: signal */
    SERVER_CHILD_CONTINUED,
};

#define SERVER_CHILD_STARVED (-1)

/* Embedded in its owner. pid 0: none, or reaped. */
struct server_child {
    struct server_child *next;
    pid_t pid;
    void (*changed)(void *user, enum server_child_change change, int status);
    void *user;
};

struct server_children {
    struct server_loop *loop;
    struct server_source source;
    int signal_fd;
    struct server_timer more; /* armed: others may have changed */
    struct server_child *first;
    const struct server_cgroups *groups; /* the creator's; NULL: workers get none */
    /* The creator's: what the environment of workers has besides, "NAME=VALUE" texts up to NULL,
     * and without "=" what it has not; or NULL. */
    const char *const *environment;
    unsigned alive;       /* started and not yet reaped, forgotten ones included */
    struct rlimit nofile; /* as we got it, for the children */
};

struct server_child_spec {
    const char *const *argv; /* argv[0] is the path; NULL-terminated */
    const int *fds;          /* become 3, 4, … in the child; stay the caller's */
    size_t n_fds;
    bool is_worker; /* dies with us, stdin from /dev/null, clean environment */
    bool in_group;  /* a control group of its own, where there are any */
    int output;     /* of a worker: its stdout and stderr, and stays the caller's; 0: our stderr */
    const char *const *environment; /* of a worker, in place of server_children's; or NULL */
};

/*
 * SIGCHLD is blocked and its disposition reset first: virgl_test_server leaves
 * it ignored across exec, which would hide every exit. Returns 0 or -errno.
 */
int server_children_init(struct server_children *children, struct server_loop *loop);
void server_children_fini(struct server_children *children);

/*
 * Returns 0 or -errno. An exec that fails shows as exit status 127. changed()
 * is called from the loop; for EXITED and KILLED it is the last call, and the
 * child is forgotten before it.
 */
int server_child_start(struct server_children *children, struct server_child *child,
                       const struct server_child_spec *spec,
                       void (*changed)(void *user, enum server_child_change change, int status),
                       void *user);

/* SIGKILL; the exit is still reported. */
void server_child_kill(struct server_child *child);
/* The process is `to`'s from now on, if there is one. */
void server_child_move(struct server_children *children, struct server_child *from,
                       struct server_child *to,
                       void (*changed)(void *user, enum server_child_change change, int status),
                       void *user);
/* No further calls of changed(); the process itself is left as it is. */
void server_child_forget(struct server_children *children, struct server_child *child);
