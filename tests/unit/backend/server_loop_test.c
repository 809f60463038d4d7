/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of the loop: however many timers are due, or children have ended, sockets are served
 * between. */
#include "backend/server/child.h"
#include "backend/server/loop.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/lib/unit.h"

#define MANY 100

static struct server_loop loop;
static unsigned fired, ready, ended;

static int set_up(void **state)
{
    fired = ready = ended = 0;
    return unit_setup(state) || server_loop_init(&loop);
}

static int tear_down(void **state)
{
    server_loop_fini(&loop);
    return unit_teardown(state);
}

static void fire(void *user)
{
    (void)user;
    fired++;
}

static void serve(void *user, uint32_t events)
{
    (void)user;
    (void)events;
    ready++;
}

TEST_WITHIN(timers_that_are_due_together_let_sockets_in, set_up, tear_down)
{
    struct server_timer timers[MANY] = {0};
    struct server_source source = {0};
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(server_loop_add(&loop, &source, fds[0], SERVER_LOOP_IN, serve, NULL), 0);
    for (unsigned i = 0; i < MANY; i++)
        server_timer_arm(&loop, &timers[i], server_now_ms(), fire, NULL);
    for (unsigned i = 1; i <= MANY; i++) {
        assert_int_equal(server_loop_turn(&loop, -1), 1);
        assert_int_equal(fired, i);
        assert_int_equal(ready, i);
    }
    server_loop_remove(&loop, &source);
    close(fds[0]);
    close(fds[1]);
}

TEST_WITHIN(a_turn_waits_no_longer_than_for_the_next_timer, set_up, tear_down)
{
    struct server_timer soon = {0}, late = {0};
    server_timer_arm(&loop, &late, server_now_ms() + 3600000, fire, NULL);
    server_timer_arm(&loop, &soon, server_now_ms() + 1, fire, NULL);
    assert_int_equal(server_loop_turn(&loop, -1), 0);
    while (!fired)
        assert_int_equal(server_loop_turn(&loop, 0), 0);
    assert_int_equal(fired, 1);
    assert_true(late.armed && !soon.armed);
}

static void changed(void *user, enum server_child_change change, int status)
{
    (void)user;
    (void)status;
    ended += change == SERVER_CHILD_EXITED;
}

TEST_WITHIN(children_that_end_together_are_told_in_parts, set_up, tear_down)
{
    static const char *const argv[] = {"/bin/true", NULL};
    static struct server_child all[MANY];
    struct server_children children;
    assert_int_equal(server_children_init(&children, &loop), 0);
    for (unsigned i = 0; i < MANY; i++) {
        const struct server_child_spec spec = {.argv = argv};
        all[i] = (struct server_child){0};
        assert_int_equal(server_child_start(&children, &all[i], &spec, changed, NULL), 0);
    }
    for (unsigned i = 0; i < MANY; i++) {
        siginfo_t info;
        assert_int_equal(waitid(P_PID, (id_t)all[i].pid, &info, WEXITED | WNOWAIT), 0);
    }
    unsigned turns = 0, most = 0;
    while (ended < MANY) {
        const unsigned before = ended;
        assert_true(server_loop_turn(&loop, 0) >= 0);
        most = ended - before > most ? ended - before : most;
        turns++;
    }
    /* A timer and an event in one turn, at most. */
    assert_uint_in_range(most, 1, MANY / 4);
    assert_uint_in_range(turns, 4, MANY);
    assert_int_equal(children.alive, 0);
    server_children_fini(&children);
}
