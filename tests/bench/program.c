/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/lib/clock.h"

bool program_is_remoted(const struct option_side *side)
{
    return strncmp(side->device, "APIR", 4) == 0;
}

void program_arguments(const char *argv[], const char *const more[])
{
    size_t n = 0;
    while (argv[n])
        n++;
    for (; *more; more++) {
        if (n == PROGRAM_ARGUMENTS_MAX)
            fail("%s: more than %d arguments", argv[0], PROGRAM_ARGUMENTS_MAX);
        argv[n++] = *more;
    }
    argv[n] = NULL;
}

/* argv and, remoted, the device: without it llama.cpp would compute on its own CPU, unasked. */
static _Noreturn void program_exec(const struct option_side *side, const char *const argv[],
                                   int output, int log)
{
    const char *all[PROGRAM_ARGUMENTS_MAX + 3] = {NULL};
    size_t n = 0;
    for (; argv[n] && n < PROGRAM_ARGUMENTS_MAX; n++)
        all[n] = argv[n];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (program_is_remoted(side)) {
        setenv("GGML_VK_VISIBLE_DEVICES", "", 1);
        all[n++] = "-dev";
        all[n] = side->device;
    } else {
        unsetenv("GGML_BACKEND_PATH");
        unsetenv("APIR_TRANSPORT");
    }
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
        dup2(log, STDERR_FILENO) >= 0)
        execvp(all[0], (char *const *)(uintptr_t)all);
    dprintf(log, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

void program_path(char path[static 96], const char *end)
{
    const char *folder = getenv("TMPDIR");
    if (snprintf(path, 96, "%s/apir-bench-%s", folder ? folder : "/tmp", end) >= 96)
        fail("TMPDIR: its path is too long");
}

void program_start(struct program *p, const struct option_side *side, const char *const argv[],
                   bool talk)
{
    *p = (struct program){.side = side, .name = argv[0]};
    program_path(p->log, "XXXXXX");
    cleanup_fd int log = mkostemp(p->log, O_CLOEXEC);
    int ends[2] = {-1, -1};
    if (log < 0 || (talk && pipe2(ends, O_CLOEXEC) < 0))
        fail("%s: %m", argv[0]);
    fflush(NULL);
    p->began_ns = now_ns();
    p->pid = fork();
    if (p->pid == 0)
        program_exec(side, argv, talk ? ends[1] : log, log);
    if (p->pid < 0)
        fail("%s: %m", argv[0]);
    if (talk)
        close(ends[1]);
    p->output = ends[0];
}

/* The log's last bytes, with a NUL; to be freed. */
static char *log_end(const struct program *p, size_t most)
{
    char *text = allocate(most + 1, 1);
    cleanup_fd int fd = open(p->log, O_RDONLY | O_CLOEXEC);
    const off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    const off_t from = size > (off_t)most ? size - (off_t)most : 0;
    ssize_t n = fd < 0 ? 0 : pread(fd, text, most, from);
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

void program_fail(const struct program *p, const char *why)
{
    cleanup_free char *text = log_end(p, 2000);
    fprintf(stderr, "%s\n", text);
    unlink(p->log);
    fail("%s on %s: %s; the end of its log is above", p->name, p->side->name, why);
}

bool program_ended(const struct program *p)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid != 0;
}

static void program_forget(struct program *p)
{
    if (p->output >= 0)
        close(p->output);
    unlink(p->log);
    *p = (struct program){0};
}

void program_end(struct program *p)
{
    int status = 0;
    if (waitpid(p->pid, &status, 0) != p->pid || status != 0)
        program_fail(p, "it did not end well");
    program_forget(p);
}

void program_stop(struct program *p)
{
    kill(p->pid, SIGKILL);
    if (waitpid(p->pid, NULL, 0) != p->pid)
        program_fail(p, "it cannot be waited for");
    program_forget(p);
}
