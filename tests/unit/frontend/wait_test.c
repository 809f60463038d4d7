/* SPDX-License-Identifier: Apache-2.0 */
/* How a client waits for a host in the same kernel, which wakes it. */
#include "tests/lib/unit.h"

#include <limits.h>
#include <pthread.h>

#include "frontend/link/client.h"

#define MS  UINT64_C(1000000)
#define POS 64u

static uint32_t alive = 1;
static struct apir_ring_header header;
static struct client client;

/* Who looks offers its core between two looks: how often it did. */
static unsigned looks;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long args[6];
    va_list ap;
    va_start(ap, number);
    for (size_t i = 0; i < 6; i++) /* what was not given is not read by the kernel either */
        args[i] = va_arg(ap, long);
    va_end(ap);
    looks += number == SYS_sched_yield;
    return __real_syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/* The host: does its work once the client sleeps. */
static void *host_works(void *arg)
{
    (void)arg;
    while (!apir_load_acquire32(&header.waiting))
        os_sleep_ns(MS / 20);
    /* In two steps: who waits for the second must not be content with the first. */
    for (uint64_t head = POS / 2; head <= POS; head += POS / 2) {
        os_sleep_ns(5 * MS);
        apir_store_release64(&header.head, head);
        apir_add32(&header.wake, 1);
        syscall(SYS_futex, &header.wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    return NULL;
}

static void begin(void)
{
    looks = 0;
    header = (struct apir_ring_header){.state = APIR_STATE_READY};
    client = (struct client){.alive = &alive, .ring.header = &header};
    client.transport.same_kernel = true;
    client.transport.silence_ns = 15000 * MS;
}

static void wait_for_host(int (*wait)(struct client *c, uint64_t pos, uint64_t expect_ns),
                          uint64_t expect_ns)
{
    pthread_t host;
    begin();
    assert_int_equal(pthread_create(&host, NULL, host_works, NULL), 0);
    assert_int_equal(wait(&client, POS, expect_ns), 0);
    assert_true(apir_load_acquire64(&header.head) == POS);
    assert_int_equal(pthread_join(host, NULL), 0);
    assert_int_equal(header.waiting, 0);
}

TEST(who_waits_asleep_does_not_look)
{
    /* Where so much is expected of the first, a client that looks does so for 1.7 ms at once. */
    const uint64_t expect[] = {MS - 1, 0, 12 * MS};
    for (size_t i = 0; i < sizeof(expect) / sizeof(expect[0]); i++) {
        wait_for_host(client_wait_asleep, expect[i]);
        assert_int_equal(looks, 0);
    }
}

TEST(who_looks_sleeps_in_the_end)
{
    wait_for_host(client_wait, 0);
    assert_true(looks > 0);
}

TEST(what_is_there_is_not_waited_for)
{
    begin();
    header.head = POS;
    assert_int_equal(client_wait_asleep(&client, POS, 12 * MS), 0);
    assert_int_equal(client_wait(&client, POS, 12 * MS), 0);
    client.lost = 1;
    assert_int_equal(client_wait_asleep(&client, POS + 8, 12 * MS), -ENODEV);
}

static bool over;

static void *head_goes_back(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        apir_store_release64(&header.head, POS);
        apir_store_release64(&header.head, 0);
    }
    return NULL;
}

static int answers_pings(struct transport *t, const struct apir_doorbell *bell)
{
    (void)t;
    apir_store_release32(&header.pong, (uint32_t)bell->value);
    return 0;
}

/* Whoever has waited goes by what is said, and not by the host's head a second time. */
TEST(what_was_there_is_no_loss)
{
    pthread_t host;
    begin();
    client.transport.doorbell = answers_pings;
    assert_int_equal(pthread_create(&host, NULL, head_goes_back, NULL), 0);
    for (int i = 0; i < 20000; i++)
        assert_int_equal(client_wait(&client, POS, 0), 0);
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(host, NULL), 0);
    assert_int_equal(client.lost, 0);
}

int main(void)
{
    return unit_run("frontend_wait");
}
