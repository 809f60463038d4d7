/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/container.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

void hook_container_fini(struct hook_container *c)
{
    apir_close_fd(&c->pidfd);
    apir_close_fd(&c->proc);
    apir_close_fd(&c->mounts);
    apir_close_fd(&c->users);
    apir_close_fd(&c->root);
    apir_close_fd(&c->host_root);
}

static bool same_file(int a, int b)
{
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int open_process(int64_t pid, struct hook_container *c, struct apir_error *err)
{
    char path[32];
    struct statfs fs;

    c->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (c->pidfd < 0)
        return apir_error_sys(err, errno, "the state's pid %d is no process", (int)pid);
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    c->proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (c->proc < 0)
        return apir_error_sys(err, errno, "%s", path);
    if (fstatfs(c->proc, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
        return apir_error_set(err, ENOTSUP, "%s is not the kernel's", path);
    c->mounts = openat(c->proc, "ns/mnt", O_RDONLY | O_CLOEXEC);
    if (c->mounts < 0)
        return apir_error_sys(err, errno, "mount namespace of process %d", (int)pid);
    c->users = openat(c->proc, "ns/user", O_RDONLY | O_CLOEXEC);
    if (c->users < 0)
        return apir_error_sys(err, errno, "user namespace of process %d", (int)pid);
    c->root = openat(c->proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (c->root < 0)
        return apir_error_sys(err, errno, "root of process %d", (int)pid);
    return 0;
}

int hook_container_open(int64_t pid, struct hook_container *ret, struct apir_error *err)
{
    cleanup_container struct hook_container c = HOOK_CONTAINER_NONE;

    if (pid <= 0)
        return apir_error_set(err, EINVAL, "the state names no process (pid %d)", (int)pid);
    int rc = open_process(pid, &c, err);
    if (rc < 0)
        return rc;
    cleanup_fd int own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (own < 0)
        return apir_error_sys(err, errno, "our own mount namespace");
    if (same_file(own, c.mounts))
        return apir_error_set(err, EINVAL,
                              "process %d of the state has no mount namespace of its own: "
                              "it is no container, or one that shares the host's mounts",
                              (int)pid);
    cleanup_fd int own_users = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    if (own_users < 0)
        return apir_error_sys(err, errno, "our own user namespace");
    if (same_file(own_users, c.users))
        apir_close_fd(&c.users);
    c.host_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (c.host_root < 0)
        return apir_error_sys(err, errno, "/");
    /* As long as it lives its number is not given to another. */
    struct pollfd alive = {.fd = c.pidfd, .events = POLLIN};
    if (poll(&alive, 1, 0) != 0)
        return apir_error_set(err, ESRCH, "process %d of the state has ended", (int)pid);
    *ret = c;
    c = (struct hook_container)HOOK_CONTAINER_NONE;
    return 0;
}

/*
 * File systems that were mounted in a user namespace take no files of users that are
 * none in there, and the host's root is none. Of the groups that we bring none is
 * left either, unless they are kept from being changed there.
 */
static int become_root(int users, struct apir_error *err)
{
    if (setns(users, CLONE_NEWUSER) < 0)
        return apir_error_sys(err, errno, "enter the container's user namespace");
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        return apir_error_sys(err, errno, "leave our groups");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return apir_error_sys(err, errno, "the container's user namespace has no root");
    return 0;
}

int hook_container_enter(const struct hook_container *c, const char *root, struct apir_error *err)
{
    /*
     * Below what is / to that process. The path is the runtime's and leads through
     * the host's folders, whose links the runtime has followed as well.
     */
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };

    if (setns(c->mounts, CLONE_NEWNS) < 0)
        return apir_error_sys(err, errno, "enter the container's mount namespace");
    cleanup_fd int fd = (int)syscall(SYS_openat2, c->root, root, &how, sizeof(how));
    if (fd < 0)
        return apir_error_sys(err, errno, "the container's root %s", root);
    if (same_file(fd, c->host_root) || same_file(fd, c->root))
        return apir_error_set(err, EINVAL, "%s is no container's root", root);
    /* Only now: the folders that lead to the root are the host's. */
    int rc = c->users < 0 ? 0 : become_root(c->users, err);
    return rc < 0 ? rc : steal_fd(&fd);
}
