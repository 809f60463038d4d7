/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cdi/program.h"
#include "common/file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/parent.h"

/* Returns 0 once `size` bytes have come, -ETIMEDOUT, or -EPIPE where fewer come. */
static int read_answer(int fd, unsigned timeout_ms, char *answer, size_t size)
{
    uint64_t deadline = apir_now_ms() + timeout_ms;

    while (size > 0) {
        int rc = cdi_wait(fd, deadline);

        if (rc == -ETIMEDOUT)
            return rc;
        ssize_t n = rc < 0 ? -1 : read(fd, answer, size);
        if (n < 0 && rc == 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -EPIPE;
        answer += n;
        size -= (size_t)n;
    }
    return 0;
}

enum cdi_child_end cdi_child_run(void (*work)(void *answer, const void *arg), const void *arg,
                                 unsigned timeout_ms, void *answer, size_t size, char *text,
                                 size_t text_size)
{
    int pipe_fds[2], status = 0;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        snprintf(text, text_size, "pipe: %s", strerror(errno));
        return CDI_CHILD_DIED;
    }
    cleanup_fd int in = pipe_fds[0];
    cleanup_fd int out = pipe_fds[1];
    fflush(NULL);
    memset(answer, 0, size);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        snprintf(text, text_size, "fork: %s", strerror(errno));
        return CDI_CHILD_DIED;
    }
    if (pid == 0) {
        if (!apir_ends_with_parent(parent))
            _exit(1);
        /* What a library prints must not end up in a table or JSON of ours. */
        dup2(STDERR_FILENO, STDOUT_FILENO);
        work(answer, arg);
        /* Without exit handlers: those of a GPU stack are none of our business. */
        _exit(apir_file_write(out, answer, size) == 0 ? 0 : 1);
    }
    apir_close_fd(&out);
    int rc = read_answer(in, timeout_ms, answer, size);
    if (rc == -ETIMEDOUT)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (rc == 0)
        return CDI_CHILD_ANSWERED;
    if (rc == -ETIMEDOUT)
        snprintf(text, text_size, "no answer within %u s", timeout_ms / 1000);
    else if (WIFSIGNALED(status))
        snprintf(text, text_size, "it died: %s", strsignal(WTERMSIG(status)));
    else
        snprintf(text, text_size, "it ended without an answer");
    return rc == -ETIMEDOUT ? CDI_CHILD_LATE : CDI_CHILD_DIED;
}
