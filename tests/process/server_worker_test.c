/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that end, stop or go deaf: the guest learns it, the socket lives. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/server/vmm/render_protocol.h"
#include "backend/server/shm.h"
#include "protocol/atomic.h"
#include "tests/lib/clock.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/processes.h"

#define NO_STOCK "\"stock_server\": false"

static void expect_lost(struct fixture_context *c, const char *reason)
{
    fixture_wait_state(c, APIR_STATE_LOST);
    if (!strstr(c->ring->reason, reason))
        fail_msg("the reason is: %s", c->ring->reason);
    fixture_sync(c); /* the socket answers */
    fixture_doorbell(c, APIR_DOORBELL_PING, 4711);
    fixture_sync(c);
    assert_int_not_equal(c->ring->pong, 4711);
}

static void killed_worker_is_reported(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context c;
    struct fixture_context other;
    fixture_start(&f, NO_STOCK, NULL);
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, true);
    pid_t worker = fixture_child(&f, "fake_worker", NULL);
    fixture_open(&f, &other, 2);
    fixture_open_ring(&other, true);
    uint32_t wake = apir_load_acquire32(&c.ring->wake);

    const int64_t from = now_ms();
    kill(worker, SIGKILL);
    fixture_wait_state(&c, APIR_STATE_LOST);
    assert_true(now_ms() - from < 1000);
    expect_lost(&c, "worker killed by signal 9");
    assert_int_not_equal(apir_load_acquire32(&c.ring->wake), wake);

    /* The neighbour, and a newcomer, go on. */
    fixture_doorbell(&other, APIR_DOORBELL_PING, 1);
    fixture_sync(&other);
    assert_int_equal(other.ring->pong, 1);
    fixture_close(&other);
    fixture_open(&f, &other, 3);
    fixture_open_ring(&other, true);
    fixture_close(&other);
    fixture_close(&c);
    fixture_stop(&f);
}

/* Every fault is provoked with work; fences complete all the same. */
static void fault_is_reported(const char *config, const char *fault, const char *reason)
{
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, config, fault);
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, false);
    apir_store_release64(&c.ring->tail, 8);
    fixture_doorbell(&c, APIR_DOORBELL_KICK, 0);
    expect_lost(&c, reason);
    fixture_fence(&c, 1, 1);
    fixture_wait_timeline(&c, 1, 1);
    fixture_close(&c);
    fixture_stop(&f);
}

static void worker_that_exits_is_reported(void **state)
{
    (void)state;
    fault_is_reported(NO_STOCK, "exit", "worker exited with status 3");
}

static void worker_that_aborts_is_reported(void **state)
{
    (void)state;
    fault_is_reported(NO_STOCK, "crash", "worker killed by signal 6");
}

static void worker_that_stays_stopped_is_lost(void **state)
{
    (void)state;
    fault_is_reported(NO_STOCK, "stop", "worker was stopped");
}

static void worker_that_works_too_long_is_lost(void **state)
{
    (void)state;
    fault_is_reported(NO_STOCK ", \"seconds_per_graph\": 1", "busy", "seconds_per_graph: 1");
}

static void worker_that_takes_too_long_to_start_is_lost(void **state)
{
    (void)state;
    fault_is_reported(NO_STOCK ", \"seconds_to_start\": 1", "stuck", "seconds_to_start: 1");
}

static void worker_that_breaks_the_rules_is_lost(void **state)
{
    (void)state;
    static const char *const faults[] = {"rude-op", "rude-flags",   "rude-huge", "rude-id",
                                         "rude-fd", "rude-release", "rude-short"};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        fault_is_reported(NO_STOCK, faults[i], "breaks the rules of its control socket");
}

static void work(struct fixture_context *c)
{
    apir_store_release64(&c->ring->tail, 8);
    fixture_doorbell(c, APIR_DOORBELL_KICK, 0);
}

static void request_waits_for_room(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context a, b, c;
    fixture_start(&f, NO_STOCK ", \"device_memory_mib\": 100", "reserve");
    fixture_open(&f, &a, 1);
    fixture_open_ring(&a, true);
    fixture_open(&f, &b, 2);
    fixture_open_ring(&b, true);
    fixture_open(&f, &c, 3);
    fixture_open_ring(&c, true);
    work(&a);
    fixture_wait_head(&a, 8);
    /* Nobody ends: refused in the end. */
    work(&b);
    expect_lost(&b, "worker exited with status 6");
    /* There is room as soon as the other's process is gone. */
    work(&c);
    fixture_destroy_context(&f, 1);
    fixture_wait_head(&c, 8);
    fixture_close(&a);
    fixture_close(&b);
    fixture_close(&c);
    fixture_stop(&f);
}

static void worker_that_takes_no_answers_is_lost(void **state)
{
    (void)state;
    fault_is_reported(NO_STOCK, "hoard", "does not read its control socket");
}

/* Many messages one after another are no long one; nor is waiting for the guest. A worker that is
 * ready has started. */
static void worker_that_gets_on_is_kept(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, NO_STOCK ", \"seconds_per_graph\": 1, \"seconds_to_start\": 1", "slow");
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, true);
    for (uint32_t i = 1; i <= 4; i++) {
        apir_store_release64(&c.ring->tail, 8 * i);
        fixture_doorbell(&c, APIR_DOORBELL_KICK, 0);
        fixture_wait_head(&c, 8 * i);
    }
    assert_int_equal(apir_load_acquire32(&c.ring->state), APIR_STATE_READY);
    fixture_close(&c);
    fixture_stop(&f);
}

static void message_that_gets_on_is_no_long_one(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, NO_STOCK ", \"seconds_per_graph\": 1", "gets-on");
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, true);
    work(&c);
    fixture_wait_head(&c, 8);
    assert_int_equal(apir_load_acquire32(&c.ring->state), APIR_STATE_READY);
    fixture_close(&c);
    fixture_stop(&f);
}

static void worker_that_cannot_start_is_reported(void **state)
{
    (void)state;
    fault_is_reported(NO_STOCK ", \"worker\": \"/no/such/worker\"", NULL, "cannot start a worker");
    fault_is_reported(NO_STOCK ", \"worker\": \"/etc/passwd\"", NULL, "cannot start a worker");
    fault_is_reported(NO_STOCK ", \"worker\": \"/bin\"", NULL, "status 127");
}

static void worker_that_is_continued_is_kept(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, NO_STOCK, NULL);
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, true);
    pid_t worker = fixture_child(&f, "fake_worker", NULL);
    for (uint32_t i = 1; i <= 20; i++) {
        kill(worker, SIGSTOP);
        fixture_sync(&c);
        kill(worker, SIGCONT);
        apir_store_release64(&c.ring->tail, i);
        fixture_doorbell(&c, APIR_DOORBELL_KICK, 0);
        fixture_wait_head(&c, i);
    }
    assert_int_equal(apir_load_acquire32(&c.ring->state), APIR_STATE_READY);
    fixture_close(&c);
    fixture_stop(&f);
}

/* What is sent to it and not taken is memory that is given back and held: there is a limit of that.
 */
static void worker_that_reads_no_control_holds_little(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, NO_STOCK, "deaf");
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, true);
    for (uint32_t i = 0; i < 1000; i++) {
        int fd = fixture_create_blob(&c, 2, 1, 65536);
        if (fd >= 0)
            close(fd);
        assert_int_equal(fd >= 0, i < SERVER_SHM_LEFT_MAX);
        fixture_destroy_resource(&c, 2);
    }
    assert_int_equal(apir_load_acquire32(&c.ring->state), APIR_STATE_READY);
    fixture_close(&c);
    fixture_stop(&f);
}

static void kicks_that_nobody_takes_block_nobody(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, NO_STOCK, "deaf");
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, true);
    for (int i = 0; i < 20000; i++)
        fixture_doorbell(&c, APIR_DOORBELL_KICK, 0);
    fixture_sync(&c);
    assert_int_equal(apir_load_acquire32(&c.ring->state), APIR_STATE_READY);
    fixture_close(&c);
    fixture_stop(&f);
}

static void fatal_of_the_worker_is_not_overwritten(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, NO_STOCK, NULL);
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, true);
    pid_t worker = fixture_child(&f, "fake_worker", NULL);
    strcpy(c.ring->reason, "bad message");
    apir_store_release32(&c.ring->state, APIR_STATE_FATAL);
    kill(worker, SIGKILL);
    fixture_wait_reaped(worker);
    fixture_sync(&c); /* so the death has been seen */
    assert_int_equal(apir_load_acquire32(&c.ring->state), APIR_STATE_FATAL);
    assert_string_equal(c.ring->reason, "bad message");
    fixture_close(&c);
    fixture_stop(&f);
}

static void worker_inherits_its_descriptors_only(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context c[3];
    fixture_start(&f, NO_STOCK, "inherit");
    for (uint32_t i = 0; i < 3; i++) {
        fixture_open(&f, &c[i], i + 1);
        fixture_open_ring(&c[i], true);
    }
    for (uint32_t i = 0; i < 3; i++)
        fixture_close(&c[i]);
    fixture_stop(&f);
}

static void workers_end_with_a_killed_server(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, NO_STOCK, "deaf"); /* this one does not see its control socket end */
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, true);
    pid_t worker = fixture_child(&f, "fake_worker", NULL);
    kill(f.pid, SIGKILL);
    assert_int_equal(waitpid(f.pid, NULL, 0), f.pid);
    fixture_wait_gone(worker);
    fixture_close(&c);
    close(f.client);
    unlink(f.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_worker_is_reported),
        cmocka_unit_test(worker_that_exits_is_reported),
        cmocka_unit_test(worker_that_aborts_is_reported),
        cmocka_unit_test(worker_that_stays_stopped_is_lost),
        cmocka_unit_test(worker_that_works_too_long_is_lost),
        cmocka_unit_test(worker_that_takes_too_long_to_start_is_lost),
        cmocka_unit_test(worker_that_breaks_the_rules_is_lost),
        cmocka_unit_test(request_waits_for_room),
        cmocka_unit_test(worker_that_takes_no_answers_is_lost),
        cmocka_unit_test(worker_that_gets_on_is_kept),
        cmocka_unit_test(message_that_gets_on_is_no_long_one),
        cmocka_unit_test(worker_that_cannot_start_is_reported),
        cmocka_unit_test(worker_that_is_continued_is_kept),
        cmocka_unit_test(worker_that_reads_no_control_holds_little),
        cmocka_unit_test(kicks_that_nobody_takes_block_nobody),
        cmocka_unit_test(fatal_of_the_worker_is_not_overwritten),
        cmocka_unit_test(worker_inherits_its_descriptors_only),
        cmocka_unit_test(workers_end_with_a_killed_server),
    };
    return cmocka_run_group_tests_name("server_worker", tests, NULL, NULL);
}
