/* SPDX-License-Identifier: Apache-2.0 */
/* Spare workers: who gets one, when there is one, and that each serves one context at most. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "backend/server/ahead/spare.h"
#include "tests/lib/clock.h"
#include "tests/lib/processes.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/unit.h"

#define SPARES(n, seconds) NO_STOCK ", \"spare_workers\": " #n ", \"spare_seconds\": " #seconds
#define WAIT_MS            (SERVER_SPARES_AFTER_MS + FIXTURE_WAIT_MS)

/* How many have begun as spare ones; *ret_last: who did last. */
static unsigned spares(const struct fixture *f, pid_t *ret_last)
{
    unsigned n = 0;
    *ret_last = fixture_child(f, "--spare", &n);
    return n;
}

static bool is_ready(pid_t pid)
{
    return strcmp(process_look(pid).name, "fake_spare") == 0;
}

/* So many soon, the last of them ready, whose process this returns. */
static pid_t wait_for_spares(const struct fixture *f, unsigned n)
{
    pid_t last = -1;
    WAIT_FOR(spares(f, &last) == n && is_ready(last), WAIT_MS);
    assert_int_equal(spares(f, &last), n);
    assert_true(is_ready(last));
    return last;
}

CONTEXT_TEST(several_wait, SPARES(2, 600), NULL)
{
    wait_for_spares(f, 2);
    assert_int_equal(fixture_workers(f), 3);
    struct fixture_context second, third, fourth;
    fixture_open_ready(f, &second, 2);
    fixture_open_ready(f, &third, 3);
    assert_int_equal(fixture_workers(f), 3);
    fixture_open_ready(f, &fourth, 4);
    assert_int_equal(fixture_workers(f), 4);
    fixture_close(&second);
    fixture_close(&third);
    fixture_close(&fourth);
}

CONTEXT_TEST(none_is_started_where_none_is_wanted, SPARES(0, 600), NULL)
{
    WAIT_FOR(fixture_workers(f) > 1, SERVER_SPARES_AFTER_MS + 500);
    assert_int_equal(fixture_workers(f), 1);
}

CONTEXT_TEST(spare_that_nobody_takes_ends, SPARES(1, 3), NULL)
{
    const pid_t spare = wait_for_spares(f, 1);
    WAIT_FOR(!process_lives(spare), WAIT_MS);
    assert_false(process_lives(spare));
    fixture_expect_alive(c);
    /* And another comes with the next context. */
    struct fixture_context next;
    fixture_open_ready(f, &next, 2);
    wait_for_spares(f, 1);
    fixture_close(&next);
}

/* A container that is started after a change is to have what was changed. */
CONTEXT_TEST(spare_of_an_old_configuration_is_not_taken, SPARES(1, 600), NULL)
{
    const pid_t spare = wait_for_spares(f, 1);
    int fd = open(f->config, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "\n", 1), 1);
    close(fd);
    struct fixture_context next;
    fixture_open_ready(f, &next, 2);
    fixture_wait_gone(spare);
    fixture_close(&next);
}

/* It costs a context nothing, and none follows it at once. */
CONTEXT_TEST(spare_that_ends_is_nobodys_loss, SPARES(1, 600), "spare-exit")
{
    pid_t spare = -1;
    WAIT_FOR(spares(f, &spare) == 1, WAIT_MS);
    assert_true(spare > 0);
    assert_int_equal(fixture_workers(f), 2);
    kill(spare, SIGTERM);
    WAIT_FOR(fixture_workers(f) == 1, FIXTURE_WAIT_MS);
    assert_int_equal(fixture_workers(f), 1);
    struct fixture_context next;
    fixture_open_ready(f, &next, 2);
    WAIT_FOR(fixture_workers(f) > 2, SERVER_SPARES_AFTER_MS + 500);
    assert_int_equal(fixture_workers(f), 2);
    fixture_expect_alive(&next);
    fixture_expect_alive(c);
    fixture_close(&next);
}

CONTEXT_TEST(spare_that_is_not_ready_is_not_taken, SPARES(1, 600) ", \"seconds_to_start\": 3",
             "spare-stuck")
{
    pid_t spare = -1;
    WAIT_FOR(spares(f, &spare) == 1, WAIT_MS);
    assert_true(spare > 0);
    struct fixture_context next;
    fixture_open_ready(f, &next, 2);
    /* Nor does it hang for longer than others may. */
    fixture_wait_gone(spare);
    fixture_expect_alive(&next);
    fixture_close(&next);
}

CONTEXT_TEST(spare_that_is_stopped_is_not_taken, SPARES(1, 600), NULL)
{
    const pid_t spare = wait_for_spares(f, 1);
    kill(spare, SIGSTOP);
    WAIT_FOR(process_look(spare).state == 'T', FIXTURE_WAIT_MS);
    fixture_sync(c); /* the server has seen it, too */
    struct fixture_context next;
    fixture_open_ready(f, &next, 2);
    fixture_wait_gone(spare);
    fixture_close(&next);
}

/* Its guest's memory is accounted from its first byte on. */
CONTEXT_TEST(spare_keeps_to_the_limits, SPARES(1, 600) ", \"device_memory_mib\": 100", "reserve")
{
    wait_for_spares(f, 1);
    fixture_work(c, 8);
    fixture_wait_head(c, 8);
    struct fixture_context next;
    fixture_open_ready(f, &next, 2);
    assert_int_equal(fixture_workers(f), 2);
    fixture_work(&next, 8);
    fixture_wait_state(&next, APIR_STATE_LOST);
    assert_string_equal(next.ring->reason, "worker exited with status 6");
    fixture_close(&next);
}
