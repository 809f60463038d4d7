/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/cleanup.h"
#include "common/clock.h"

#define GRACE_MS 500

/* In the child. The engine's own pipes are closed: one that hangs must not keep them open. */
static void set_up(int out, int limit_ms)
{
    struct itimerval limit = {
        .it_value = {.tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000}};
    sigset_t alarm_only;

    /* Standard input as well: it can be written to, so reading it fails. */
    for (int fd = 0; fd <= 2; fd++)
        if (dup2(out, fd) < 0)
            _exit(1);
    /* Whatever the engine has left us: this signal is to end us. */
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    if (signal(SIGALRM, SIG_DFL) == SIG_ERR || sigprocmask(SIG_UNBLOCK, &alarm_only, NULL) < 0 ||
        setitimer(ITIMER_REAL, &limit, NULL) < 0)
        _exit(1);
}

/* Passes on what there is; false at the end. */
static bool pass_on(int from)
{
    char text[4096];
    ssize_t n = read(from, text, sizeof(text));

    if (n > 0)
        (void)apir_file_write(STDERR_FILENO, text, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Returns 0 once the child has ended, -ETIMEDOUT where it does not in time. */
static int wait_for(int child, int from, int limit_ms)
{
    uint64_t deadline = apir_now_ms() + (uint64_t)limit_ms;
    struct pollfd fds[] = {{.fd = from, .events = POLLIN}, {.fd = child, .events = POLLIN}};

    while (fds[1].revents == 0) {
        uint64_t now = apir_now_ms();
        int rc = now >= deadline ? 0 : poll(fds, 2, (int)(deadline - now));

        if (rc < 0 && errno == EINTR)
            continue;
        if (rc <= 0)
            return -ETIMEDOUT;
        if (fds[0].revents != 0 && !pass_on(from))
            fds[0].fd = -1;
    }
    /* What it has left in the pipe, which a process of its own may still hold open. */
    while (fds[0].fd >= 0 && pass_on(from))
        ;
    return 0;
}

int hook_limit_run(int (*work)(const void *arg), const void *arg, int limit_ms)
{
    int ends[2], status = 0;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return work(arg);
    cleanup_fd int in = ends[0], out = ends[1];
    pid_t pid = fork();
    if (pid == 0) {
        set_up(out, limit_ms);
        int rc = work(arg);
        (void)fflush(NULL);
        _exit(rc); /* what is to be done at the end of the program is the parent's */
    }
    apir_close_fd(&out);
    if (pid < 0)
        return work(arg);
    cleanup_fd int child = (int)syscall(SYS_pidfd_open, pid, 0);
    if (child < 0 || fcntl(in, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    if (wait_for(child, in, limit_ms + GRACE_MS) < 0 || waitpid(pid, &status, WNOHANG) != pid)
        return -ETIMEDOUT;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return WTERMSIG(status) == SIGALRM ? -ETIMEDOUT : -ECHILD;
}
