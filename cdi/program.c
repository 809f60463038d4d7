/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cdi/folder.h"
#include "common/cleanup.h"
#include "common/clock.h"

extern char **environ;

/* Groups may have programs to share: that is for whoever gave them the folder. */
static bool is_safe(const char *path)
{
    return geteuid() != 0 || cdi_folder_check(path, 0002, NULL) == 0;
}

int cdi_program_find(const char *name, char *path)
{
    int rc = -ENOENT;

    for (const char *p = getenv("PATH"), *end; p && *p != '\0'; p = *end == ':' ? end + 1 : end) {
        struct stat st;
        char file[PATH_MAX];

        end = strchrnul(p, ':');
        if (*p != '/' ||
            snprintf(file, sizeof(file), "%.*s/%s", (int)(end - p), p, name) >= (int)sizeof(file))
            continue;
        if (stat(file, &st) < 0 || !S_ISREG(st.st_mode) || access(file, X_OK) < 0)
            continue;
        rc = -EPERM;
        if (!is_safe(file))
            continue;
        memcpy(path, file, sizeof(file));
        return 0;
    }
    return rc;
}

/* ---- what it says ------------------------------------------------------------------- */

int cdi_wait(int fd, uint64_t deadline)
{
    for (;;) {
        uint64_t now = apir_now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int rc = poll(&p, 1, now >= deadline ? 0 : (int)(deadline - now));

        if (rc >= 0 || errno != EINTR)
            return rc > 0 ? 0 : rc == 0 ? -ETIMEDOUT : -errno;
    }
}

/* Reads to the end, or the program would die of a closed pipe, and keeps the beginning. */
static int collect(int fd, uint64_t deadline, char *text, size_t size)
{
    size_t used = 0;

    for (;;) {
        char rest[512];
        bool keep = used + 1 < size;
        int rc = cdi_wait(fd, deadline);
        ssize_t n =
            rc < 0 ? 0 : read(fd, keep ? text + used : rest, keep ? size - 1 - used : sizeof(rest));

        if (n < 0 && errno == EINTR)
            continue;
        used += keep && n > 0 ? (size_t)n : 0;
        text[used] = '\0';
        if (n <= 0)
            return rc < 0 ? rc : n < 0 ? -errno : 0;
    }
}

static int spawn(const char *path, const char *const *argv, bool quiet, int out, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (quiet)
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    /* It does not write through argv; the interface lacks the const. */
    int rc = posix_spawn(ret_pid, path, &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}

int cdi_program_run(const char *const *argv, bool quiet, unsigned timeout_ms, char *text,
                    size_t size)
{
    uint64_t deadline = apir_now_ms() + timeout_ms;
    char path[PATH_MAX];
    int ends[2], status = 0;
    pid_t pid = -1;

    text[0] = '\0';
    int rc = cdi_program_find(argv[0], path);
    if (rc < 0)
        return rc;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    cleanup_fd int in = ends[0], out = ends[1];
    rc = spawn(path, argv, quiet, out, &pid);
    if (rc < 0)
        return rc;
    apir_close_fd(&out);
    rc = collect(in, deadline, text, size);
    /* It may have closed its output and go on. */
    cleanup_fd int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (rc == 0 && process >= 0)
        rc = cdi_wait(process, deadline);
    if (rc < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return rc < 0 ? rc : WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

/* ---- its environment ------------------------------------------------------------------ */

void cdi_program_clean_environment(void)
{
    static const char *const daemons[] = {"CONTAINER_HOST", "CONTAINER_CONNECTION", "DOCKER_HOST"};
    static const char *const places[] = {"HOME",
                                         "XDG_CONFIG_HOME",
                                         "XDG_DATA_HOME",
                                         "XDG_CACHE_HOME",
                                         "XDG_STATE_HOME",
                                         "XDG_RUNTIME_DIR",
                                         "CONTAINERS_CONF",
                                         "CONTAINERS_CONF_OVERRIDE",
                                         "CONTAINERS_STORAGE_CONF"};
    const struct passwd *root = geteuid() == 0 ? getpwuid(0) : NULL;

    for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++)
        unsetenv(daemons[i]);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const char *path = getenv(places[i]);

        if (path && (path[0] != '/' || !is_safe(path)))
            unsetenv(places[i]);
    }
    if (root)
        setenv("HOME", root->pw_dir, 0);
}
