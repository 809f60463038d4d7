/* SPDX-License-Identifier: Apache-2.0 */
/* The trial of the devices: contexts wait for it, and what it says is told them. With real devices:
 * tests/system/trial.bats. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "protocol/atomic.h"
#include "tests/lib/clock.h"
#include "tests/lib/processes.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/unit.h"

#define SPARES(n) NO_STOCK ", \"spare_workers\": " #n

static pid_t trial(const struct fixture *f, unsigned *ret_n)
{
    unsigned n = 0;
    const pid_t pid = fixture_child(f, "--try-devices", &n);
    if (ret_n)
        *ret_n = n;
    return pid;
}

static bool is_held(pid_t pid)
{
    return strcmp(process_look(pid).name, "fake_waits") == 0;
}

/* A context with its ring, whose trial has begun and goes on with a SIGTERM. */
static pid_t start_held(struct fixture *f, struct fixture_context *c, const char *config)
{
    fixture_start(f, config, "trial-held");
    fixture_open(f, c, 1);
    fixture_open_ring(c, false);
    WAIT_FOR(is_held(trial(f, NULL)), FIXTURE_WAIT_MS);
    const pid_t pid = trial(f, NULL);
    assert_true(is_held(pid));
    return pid;
}

/* A test of that: `pid` is the trial. Both are ended after it. */
#define HELD_TEST(test, config)                                                                    \
    static void test##_held(struct fixture *f, struct fixture_context *c, pid_t pid);              \
    TEST(test)                                                                                     \
    {                                                                                              \
        struct fixture f;                                                                          \
        struct fixture_context c;                                                                  \
        test##_held(&f, &c, start_held(&f, &c, config));                                           \
        fixture_close(&c);                                                                         \
        fixture_stop(&f);                                                                          \
    }                                                                                              \
    static void test##_held(struct fixture *f __attribute__((unused)), struct fixture_context *c,  \
                            pid_t pid __attribute__((unused)))

static void lost_with(const char *fault, const char *members, const char *reason)
{
    struct fixture f;
    struct fixture_context c;
    fixture_start(&f, members, fault);
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, false);
    fixture_expect_lost(&c, reason);
    /* The next one is told at once: nothing is tried again. */
    struct fixture_context next;
    fixture_open(&f, &next, 2);
    fixture_open_ring(&next, false);
    assert_int_equal(apir_load_acquire32(&next.ring->state), APIR_STATE_LOST);
    assert_string_equal(next.ring->reason, c.ring->reason);
    fixture_close(&next);
    fixture_close(&c);
    fixture_wait_childless(&f);
    fixture_stop(&f);
}

/* ---- while it runs ------------------------------------------------------------------- */

HELD_TEST(context_waits_and_its_worker_gets_all_that_was_made_meanwhile, NO_STOCK)
{
    /* It is told that somebody is there. */
    fixture_doorbell(c, APIR_DOORBELL_PING, 4711);
    fixture_sync(c);
    assert_int_equal(apir_load_acquire32(&c->ring->pong), 4711);
    assert_int_equal(apir_load_acquire32(&c->ring->state), APIR_STATE_STARTING);
    /* What has gone again is not handed on; what is left comes before the ring. */
    fixture_take_blob(c, 3, 2, 65536);
    fixture_take_blob(c, 2, APIR_ARENA_BLOB_ID, 65536);
    fixture_destroy_resource(c, 3);
    fixture_work(c, 8);
    assert_int_equal(fixture_workers(f), 1);

    kill(pid, SIGTERM);
    fixture_wait_head(c, 8);
    fixture_expect_alive(c);
    /* It is that very process, and there is no other. */
    assert_int_equal(trial(f, NULL), pid);
    assert_int_equal(fixture_workers(f), 1);
}

HELD_TEST(context_that_leaves_meanwhile_is_nobodys_loss, NO_STOCK)
{
    fixture_take_blob(c, 2, APIR_ARENA_BLOB_ID, 65536);
    fixture_destroy_resource(c, 1); /* the ring */
    fixture_wait_state(c, APIR_STATE_LOST);
    fixture_close(c);
    kill(pid, SIGTERM);
    fixture_wait_gone(pid); /* nobody takes it */
    fixture_open_ready(f, c, 2);
    assert_int_equal(trial(f, NULL), -1);
}

/* Before there is an account of it, too. */
HELD_TEST(memory_is_limited_meanwhile, NO_STOCK ", \"context_host_memory_mib\": 2")
{
    fixture_take_blob(c, 2, APIR_ARENA_BLOB_ID, 1 << 20);
    assert_int_equal(fixture_create_blob(c, 3, 2, 65536), -1);
}

TEST(trial_ends_with_the_server)
{
    struct fixture f;
    struct fixture_context c;
    const pid_t pid = start_held(&f, &c, NO_STOCK);
    fixture_close(&c);
    fixture_stop(&f);
    fixture_wait_gone(pid);
}

/* ---- what comes of it ---------------------------------------------------------------- */

/* What is printed first, made printable; more than there is room for is cut. */
TEST(what_a_device_says_is_the_reason)
{
    static const char reason[] =
        "the host's device GPU0 cannot compute: out of?[2J luck; line 0 of a "
        "trace; line 1 of a trace";
    lost_with("trial-says", SPARES(0), reason);
    lost_with("trial-says", SPARES(1), reason);
}

/* Nothing is known of its devices then, and a worker that nobody has tried serves. */
TEST(trial_that_is_ended_by_others_or_says_nonsense_is_no_devices_fault)
{
    static const char *const faults[] = {"trial-killed", "trial-rude", "trial-nameless"};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct fixture f;
        struct fixture_context c;
        fixture_start(&f, NO_STOCK, faults[i]);
        fixture_open_ready(&f, &c, 1);
        fixture_expect_alive(&c);
        assert_int_equal(trial(&f, NULL), -1);
        fixture_close(&c);
        fixture_stop(&f);
    }
}
