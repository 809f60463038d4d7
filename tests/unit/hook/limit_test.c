/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "hook/limit.h"
#include "common/cleanup.h"

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

/* It is gone, and waited for. A machine without a core for it for half a second leaves it to us:
 * then again. */
static void expect_ended(void)
{
    for (int i = 0; i < 20; i++) {
        assert_int_equal(hook_limit_run(hang, NULL, LIMIT_MS), -ETIMEDOUT);
        if (waitpid(-1, NULL, 0) < 0)
            return;
    }
    fail_msg("it was never waited for");
}

/* One that no signal reaches: tests/system/hook/slow.bats. */
TEST(what_the_engine_has_left_of_the_signal_changes_nothing)
{
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGALRM, SIG_IGN);
    expect_ended();
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
}

TEST(a_child_that_dies_is_told_from_one_that_is_late)
{
    assert_int_equal(hook_limit_run(die, NULL, LONG_MS), -ECHILD);
}
