/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that end, stop or go deaf: the guest learns it, the socket lives. */
#include <signal.h>
#include <sys/wait.h>

#include "backend/server/vmm/render_protocol.h"
#include "backend/server/shm.h"
#include "protocol/atomic.h"
#include "tests/lib/clock.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/unit.h"

static void expect_lost(const struct fixture_context *c, const char *reason)
{
    fixture_expect_lost(c, reason);
    fixture_doorbell(c, APIR_DOORBELL_PING, 4711);
    fixture_sync(c);
    assert_int_not_equal(c->ring->pong, 4711);
}

/* Every fault is provoked with work; fences complete all the same. */
static void fault_is_reported(const char *config, const char *fault, const char *reason)
{
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, config, fault);
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, false);
    fixture_work(&c, 8);
    expect_lost(&c, reason);
    fixture_fence(&c, 1, 1);
    fixture_wait_timeline(&c, 1, 1);
    fixture_close(&c);
    fixture_stop(&f);
}

TEST(ends_and_silence_of_a_worker_are_reported)
{
    static const struct {
        const char *config, *fault, *reason;
    } rows[] = {
        {NO_STOCK, "exit", "worker exited with status 3"},
        {NO_STOCK, "crash", "worker killed by signal 6"},
        {NO_STOCK, "stop", "worker was stopped"},
        {NO_STOCK ", \"seconds_per_graph\": 1", "busy", "seconds_per_graph: 1"},
        {NO_STOCK ", \"seconds_to_start\": 1", "stuck", "seconds_to_start: 1"},
        {NO_STOCK, "hoard", "does not read its control socket"},
        {NO_STOCK ", \"worker\": \"/no/such/worker\"", NULL, "cannot start a worker"},
        {NO_STOCK ", \"worker\": \"/etc/passwd\"", NULL, "cannot start a worker"},
        {NO_STOCK ", \"worker\": \"/bin\"", NULL, "status 127"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        fault_is_reported(rows[i].config, rows[i].fault, rows[i].reason);
}

TEST(worker_that_breaks_the_rules_is_lost)
{
    static const char *const faults[] = {"rude-op", "rude-flags",   "rude-huge", "rude-id",
                                         "rude-fd", "rude-release", "rude-short"};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        fault_is_reported(NO_STOCK, faults[i], "breaks the rules of its control socket");
}

CONTEXT_TEST(request_waits_for_room, NO_STOCK ", \"device_memory_mib\": 100", "reserve")
{
    struct fixture_context second, third;
    fixture_open_ready(f, &second, 2);
    fixture_open_ready(f, &third, 3);
    fixture_work(c, 8);
    fixture_wait_head(c, 8);
    /* Nobody ends: refused in the end. */
    fixture_work(&second, 8);
    expect_lost(&second, "worker exited with status 6");
    /* There is room as soon as the other's process is gone. */
    fixture_work(&third, 8);
    fixture_destroy_context(f, 1);
    fixture_wait_head(&third, 8);
    fixture_close(&second);
    fixture_close(&third);
}

/* Many messages one after another are no long one; nor is waiting for the guest. A worker that is
 * ready has started. */
CONTEXT_TEST(worker_that_gets_on_is_kept,
             NO_STOCK ", \"seconds_per_graph\": 3, \"seconds_to_start\": 3", "slow")
{
    for (uint32_t i = 1; i <= 7; i++) {
        fixture_work(c, 8 * i);
        fixture_wait_head(c, 8 * i);
    }
    fixture_expect_alive(c);
}

CONTEXT_TEST(message_that_gets_on_is_no_long_one, NO_STOCK ", \"seconds_per_graph\": 3", "gets-on")
{
    fixture_work(c, 8);
    fixture_wait_head(c, 8);
    fixture_expect_alive(c);
}

CONTEXT_TEST(worker_that_is_continued_is_kept, NO_STOCK, NULL)
{
    pid_t worker = fixture_child(f, "fake_worker", NULL);
    for (uint32_t i = 1; i <= 20; i++) {
        kill(worker, SIGSTOP);
        fixture_sync(c);
        kill(worker, SIGCONT);
        fixture_work(c, i);
        fixture_wait_head(c, i);
    }
    fixture_expect_alive(c);
}

/* What is sent to it and not taken is memory that is given back and held: there is a limit of that.
 */
CONTEXT_TEST(worker_that_reads_no_control_holds_little, NO_STOCK, "deaf")
{
    for (uint32_t i = 0; i < 1000; i++) {
        int fd = fixture_create_blob(c, 2, 1, 65536);
        if (fd >= 0)
            close(fd);
        assert_int_equal(fd >= 0, i < SERVER_SHM_HELD_MAX);
        fixture_destroy_resource(c, 2);
    }
    fixture_expect_alive(c);
}

CONTEXT_TEST(kicks_that_nobody_takes_block_nobody, NO_STOCK, "deaf")
{
    for (int i = 0; i < 20000; i++)
        fixture_doorbell(c, APIR_DOORBELL_KICK, 0);
    fixture_expect_alive(c);
}

CONTEXT_TEST(fatal_of_the_worker_is_not_overwritten, NO_STOCK, NULL)
{
    pid_t worker = fixture_child(f, "fake_worker", NULL);
    strcpy(c->ring->reason, "bad message");
    apir_store_release32(&c->ring->state, APIR_STATE_FATAL);
    kill(worker, SIGKILL);
    fixture_wait_reaped(worker);
    fixture_sync(c); /* so the death has been seen */
    assert_int_equal(apir_load_acquire32(&c->ring->state), APIR_STATE_FATAL);
    assert_string_equal(c->ring->reason, "bad message");
}

CONTEXT_TEST(worker_inherits_its_descriptors_only, NO_STOCK, "inherit")
{
    struct fixture_context second, third;
    fixture_open_ready(f, &second, 2);
    fixture_open_ready(f, &third, 3);
    fixture_close(&second);
    fixture_close(&third);
}
