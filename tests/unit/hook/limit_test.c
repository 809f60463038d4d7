/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "hook/limit.h"
#include "common/cleanup.h"
#include "common/clock.h"

#define LIMIT_MS 50
#define LONG_MS  60000

static int say(const void *arg)
{
    char byte;

    /* Nothing to be read: the engine's own input is closed here. */
    if (read(STDIN_FILENO, &byte, 1) >= 0)
        return 1;
    dprintf(STDOUT_FILENO, "out %s\n", (const char *)arg);
    dprintf(STDERR_FILENO, "err\n");
    return 7;
}

static int hang(const void *arg)
{
    (void)arg;
    while (pause() < 0)
        ;
    return 0;
}

/* As a process that hangs in the kernel: the signal that is to end it does not. */
static int hang_for_good(const void *arg)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    /* Its number, for the test to end it. */
    pid_t pid = getpid();
    if (write(*(const int *)arg, &pid, sizeof(pid)) != sizeof(pid))
        return 1;
    return hang(NULL);
}

static int die(const void *arg)
{
    (void)arg;
    raise(SIGKILL);
    return 0;
}

/* Standard error is a pipe while fn runs; returns its reading end. */
static int run_piped(int (*fn)(const void *), const void *arg, int limit_ms, int *ret_code)
{
    int ends[2], old = dup(STDERR_FILENO);

    assert_true(old >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    *ret_code = hook_limit_run(fn, arg, limit_ms);
    dup2(old, STDERR_FILENO);
    close(old);
    return ends[0];
}

TEST(what_the_child_says_and_returns_is_ours)
{
    char text[64];
    int code = -1;

    cleanup_fd int in = run_piped(say, "x", LONG_MS, &code);
    assert_int_equal(code, 7);
    ssize_t n = read(in, text, sizeof(text));
    assert_int_equal(n, strlen("out x\nerr\n"));
    assert_memory_equal(text, "out x\nerr\n", (size_t)n);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(a_child_that_is_late_is_ended)
{
    assert_int_equal(hook_limit_run(hang, NULL, LIMIT_MS), -ETIMEDOUT);
    /* It is gone, and waited for. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(what_the_engine_has_left_of_the_signal_changes_nothing)
{
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGALRM, SIG_IGN);
    assert_int_equal(hook_limit_run(hang, NULL, LIMIT_MS), -ETIMEDOUT);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
}

TEST(a_child_that_cannot_be_ended_keeps_nobody_waiting)
{
    int tells[2], code = -1;
    pid_t pid = -1;

    assert_int_equal(pipe2(tells, O_CLOEXEC), 0);
    uint64_t start = apir_now_ms();
    cleanup_fd int in = run_piped(hang_for_good, &tells[1], LIMIT_MS, &code);
    assert_true(apir_now_ms() - start < LONG_MS / 4);
    assert_int_equal(code, -ETIMEDOUT);
    assert_int_equal(read(tells[0], &pid, sizeof(pid)), sizeof(pid));
    /* It is still there, and standard error is closed all the same. */
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    struct pollfd end = {.fd = in, .events = POLLIN};
    assert_int_equal(poll(&end, 1, 0), 1);
    assert_int_equal(end.revents, POLLHUP);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(tells[0]);
    close(tells[1]);
}

TEST(a_child_that_dies_is_told_from_one_that_is_late)
{
    assert_int_equal(hook_limit_run(die, NULL, LONG_MS), -ECHILD);
}
