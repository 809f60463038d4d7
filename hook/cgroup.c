/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hook/mounts.h"
#include "common/cleanup.h"
#include "common/text.h"

#define ANSWER_MS 2000 /* a frozen cgroup gives none */

enum answer { MAY = 0, DENIED = 3, UNKNOWN = 4 };

/* The process's cgroup in the hierarchy that rules over devices: "devices" of version 1, else 2. */
static int find_path(int proc, char **ret_path, int *ret_version)
{
    cleanup_free char *line = NULL, *v2 = NULL;
    size_t size = 0;

    cleanup_fd int fd = openat(proc, "cgroup", O_RDONLY | O_CLOEXEC);
    FILE *opened = fd < 0 ? NULL : fdopen(fd, "re");
    if (!opened)
        return -errno;
    steal_fd(&fd);
    cleanup_file FILE *file = opened;
    while (getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        *path++ = '\0';
        if (strcmp(controllers, ":devices") == 0) {
            *ret_path = strdup(path);
            *ret_version = 1;
            return *ret_path ? 0 : -ENOMEM;
        }
        if (strcmp(line, "0:") == 0 && !v2)
            v2 = strdup(path);
    }
    if (!v2)
        return -ENODATA;
    *ret_path = steal_pointer(&v2);
    *ret_version = 2;
    return 0;
}

/* cgroup.procs of the process's cgroup, to write. */
static int open_procs(int proc)
{
    cleanup_free char *path = NULL;
    struct statfs fs;
    int version = 0;
    struct open_how how = {
        .flags = O_WRONLY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };

    int rc = find_path(proc, &path, &version);
    if (rc < 0)
        return rc;
    cleanup_fd int top = open(version == 1 ? "/sys/fs/cgroup/devices" : "/sys/fs/cgroup",
                              O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return -errno;
    if (fstatfs(top, &fs) < 0 ||
        fs.f_type != (version == 1 ? CGROUP_SUPER_MAGIC : CGROUP2_SUPER_MAGIC))
        return -ENOTSUP;
    cleanup_free char *file = apir_text_format(".%s/cgroup.procs", path);
    if (!file)
        return -ENOMEM;
    int fd = (int)syscall(SYS_openat2, top, file, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

/* In the child: nothing but system calls. */
static int try(int procs, const char *node)
{
    if (write(procs, "0", 1) != 1)
        return UNKNOWN;
    if (open(node, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) >= 0)
        return MAY;
    /* A file mode would be EACCES. */
    return errno == EPERM ? DENIED : UNKNOWN;
}

int hook_cgroup_may_open(int proc, const char *node)
{
    int status = 0, ends[2];
    cleanup_fd int procs = open_procs(proc);

    if (procs < 0)
        return procs;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    cleanup_fd int reading = ends[0], writing = ends[1];
    pid_t child = fork();
    if (child < 0)
        return -errno;
    if (child == 0)
        _exit(try(procs, node));
    apir_close_fd(&writing);
    struct pollfd ended = {.fd = reading};
    if (poll(&ended, 1, ANSWER_MS) <= 0)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (!WIFEXITED(status))
        return -ETIMEDOUT;
    if (WEXITSTATUS(status) == UNKNOWN)
        return -EPERM;
    return WEXITSTATUS(status) == MAY;
}
