/* SPDX-License-Identifier: Apache-2.0 */
/* What each system has in a way of its own of readiness and of descriptors: the same from all. */
#include "backend/server/loop.h"
#include "backend/server/system.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "tests/lib/unit.h"

static struct server_loop loop;
static struct server_source source;
static int ends[2];
static uint32_t told;
static unsigned times;

static void note(void *user, uint32_t events)
{
    (void)user;
    told = events;
    times++;
}

static int set_up(void **state)
{
    source = (struct server_source){0};
    told = times = 0;
    return unit_setup(state) || server_loop_init(&loop);
}

static int tear_down(void **state)
{
    server_loop_remove(&loop, &source);
    server_loop_fini(&loop);
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
    }
    return unit_teardown(state);
}

static void watch(uint32_t events)
{
    assert_int_equal(server_loop_add(&loop, &source, ends[0], events, note, NULL), 0);
}

/* What one turn tells; 0: nothing. */
static uint32_t turn(void)
{
    told = 0;
    assert_true(server_loop_turn(&loop, 0) >= 0);
    return told;
}

static void later(void *user)
{
    (void)user;
    loop.stop = true;
}

/* How often the loop wakes up until a timer that is due in a moment. */
static unsigned turns_until_later(void)
{
    struct server_timer timer = {0};
    unsigned n = 0;
    server_timer_arm(&loop, &timer, server_now_ms() + 20, later, NULL);
    for (; !loop.stop; n++)
        assert_true(server_loop_turn(&loop, -1) >= 0);
    loop.stop = false;
    return n;
}

static void end_close(void)
{
    close(ends[1]);
    ends[1] = -1;
}

TEST_WITHIN(a_pipes_end_is_told_once_all_is_read, set_up, tear_down)
{
    char byte;
    assert_int_equal(server_pipe(ends), 0);
    watch(SERVER_LOOP_IN);
    assert_int_equal(turn(), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    end_close();
    assert_true(turn() & SERVER_LOOP_IN);
    assert_true(turn() & SERVER_LOOP_IN); /* for as long as it is so */
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(turn(), SERVER_LOOP_HUP);
    assert_int_equal(turn(), SERVER_LOOP_HUP);
}

TEST_WITHIN(the_end_is_told_to_one_who_asks_for_nothing, set_up, tear_down)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    watch(0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(turn(), 0);
    assert_true(turns_until_later() <= 4); /* it is not looked at without end */
    server_loop_modify(&loop, &source, SERVER_LOOP_IN);
    assert_int_equal(turn(), SERVER_LOOP_IN);
    server_loop_modify(&loop, &source, 0);
    (void)turn(); /* it may look once more at what it is not to tell */
    assert_int_equal(told, 0);
    end_close();
    assert_true(turn() & SERVER_LOOP_HUP);
}

TEST_WITHIN(room_is_told_while_it_is_asked_for, set_up, tear_down)
{
    static const char block[4096];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    watch(SERVER_LOOP_IN | SERVER_LOOP_OUT);
    assert_int_equal(turn(), SERVER_LOOP_OUT);
    while (write(ends[0], block, sizeof(block)) > 0) {
    }
    assert_int_equal(turn(), 0);
    char all[sizeof(block)];
    while (read(ends[1], all, sizeof(all)) > 0) {
    }
    assert_int_equal(turn(), SERVER_LOOP_OUT);
    server_loop_modify(&loop, &source, SERVER_LOOP_IN);
    assert_int_equal(turn(), 0);
}

TEST_WITHIN(a_signal_is_told_and_taken_note_of, set_up, tear_down)
{
    sigset_t mask, before;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &mask, &before), 0);
    ends[1] = -1;
    ends[0] = server_signals_open(&mask);
    assert_true(ends[0] >= 0 && fcntl(ends[0], F_GETFD) == FD_CLOEXEC);
    watch(SERVER_LOOP_IN);
    assert_int_equal(turn(), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    assert_int_equal(turn(), SERVER_LOOP_IN);
    server_signals_read(ends[0]);
    assert_int_equal(turn(), 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

TEST(descriptors_of_a_range_are_closed_and_no_others)
{
    int fds[8];
    for (int i = 0; i < 8; i++)
        fds[i] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 200 + i);
    assert_int_equal(server_close_range(202, 204), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), i >= 2 && i <= 4 ? -1 : FD_CLOEXEC);
    assert_int_equal(server_close_range(200, 207), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), -1);
}

TEST(a_pipe_blocks_nobody_and_is_not_inherited)
{
    assert_int_equal(server_pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(fcntl(ends[i], F_GETFL) & O_NONBLOCK);
        assert_int_equal(fcntl(ends[i], F_GETFD), FD_CLOEXEC);
        close(ends[i]);
    }
}
