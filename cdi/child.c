/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/child.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cdi/program.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/parent.h"

enum cdi_child_end cdi_child_run(void (*work)(void *answer, const void *arg), const void *arg,
                                 unsigned timeout_ms, void *answer, size_t size, char *text,
                                 size_t text_size)
{
    int status = 0;
    /* The last byte says that the answer is whole: a library may end the process. */
    char *shared = mmap(NULL, size + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED) {
        snprintf(text, text_size, "memory: %s", strerror(errno));
        return CDI_CHILD_DIED;
    }
    fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        if (!apir_ends_with_parent(parent))
            _exit(1);
        /* What a library prints must not end up in a table or JSON of ours. */
        dup2(STDERR_FILENO, STDOUT_FILENO);
        work(shared, arg);
        shared[size] = 1;
        /* Without exit handlers: those of a GPU stack are none of our business. */
        _exit(0);
    }
    cleanup_fd int child = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (child < 0)
        snprintf(text, text_size, "%s: %s", pid < 0 ? "fork" : "pidfd_open", strerror(errno));
    int rc = child < 0 ? -errno : cdi_wait(child, apir_now_ms() + timeout_ms);
    if (pid > 0 && rc < 0)
        kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    const bool whole = shared[size] != 0;
    memcpy(answer, shared, size);
    munmap(shared, size + 1);
    if (child < 0)
        return CDI_CHILD_DIED;
    if (rc == 0 && whole)
        return CDI_CHILD_ANSWERED;
    if (rc == -ETIMEDOUT)
        snprintf(text, text_size, "no answer within %u s", timeout_ms / 1000);
    else if (WIFSIGNALED(status))
        snprintf(text, text_size, "it died: %s", strsignal(WTERMSIG(status)));
    else
        snprintf(text, text_size, "it ended without an answer");
    return rc == -ETIMEDOUT ? CDI_CHILD_LATE : CDI_CHILD_DIED;
}
