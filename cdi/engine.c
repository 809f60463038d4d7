/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/engine.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/cleanup.h"

#define TIMEOUT_MS 10000

extern char **environ;

static const struct {
    const char *program;
    int major, minor; /* the first version with CDI, without a setting */
} engines[] = {
    {"podman", 4, 1},
    {"docker", 28, 2},
    {"containerd", 2, 0},
    {"crio", 1, 23},
};

bool cdi_engine_parse_version(const char *text, int *ret_major, int *ret_minor)
{
    for (const char *p = text; *p != '\0'; p++) {
        char *end = NULL;

        if (!isdigit((unsigned char)*p) ||
            (p > text && isalnum((unsigned char)p[-1]) && p[-1] != 'v'))
            continue;
        long major = strtol(p, &end, 10);
        if (*end != '.' || !isdigit((unsigned char)end[1]) || major > 9999) {
            p = end - 1;
            continue;
        }
        long minor = strtol(end + 1, NULL, 10);
        if (minor > 9999)
            return false;
        *ret_major = (int)major;
        *ret_minor = (int)minor;
        return true;
    }
    return false;
}

/* Output of `program --version`, or false where it is not there or says nothing. */
static bool ask_version(const char *program, char *text, size_t size)
{
    int pipe_fds[2];
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    char *argv[] = {(char *)(uintptr_t)program, (char[]){"--version"}, NULL};

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return false;
    cleanup_fd int in = pipe_fds[0];
    cleanup_fd int out = pipe_fds[1];
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int r = posix_spawnp(&pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (r != 0)
        return false;
    apir_close_fd(&out);

    struct pollfd p = {.fd = in, .events = POLLIN};
    ssize_t n = poll(&p, 1, TIMEOUT_MS) > 0 ? read(in, text, size - 1) : -1;
    /* An engine that does not answer must not hang the doctor. */
    if (n < 0)
        kill(pid, SIGKILL);
    apir_close_fd(&in);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

int cdi_engine_find(char *text, size_t size)
{
    int found = 0, good = 0;
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
        char version[256];
        int major = 0, minor = 0;

        if (!ask_version(engines[i].program, version, sizeof(version)) ||
            !cdi_engine_parse_version(version, &major, &minor))
            continue;
        bool ok =
            major > engines[i].major || (major == engines[i].major && minor >= engines[i].minor);
        int n = snprintf(text + used, size - used, "%s%s %d.%d%s", found == 0 ? "" : ", ",
                         engines[i].program, major, minor, ok ? "" : " (CDI not on by default)");
        if (n > 0)
            used = used + (size_t)n < size ? used + (size_t)n : size - 1;
        found++;
        good += ok;
    }
    return found == 0 ? -1 : good;
}
