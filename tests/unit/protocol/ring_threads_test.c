/* SPDX-License-Identifier: Apache-2.0 */
/* The ring between two threads: what arrives, who sleeps, and who is woken. A header that changes
 * while it is read is an attack (ref-double-fetch). */
#include "tests/unit/protocol/ring_ends.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "protocol/atomic.h"
#include "protocol/messages.h"
#include "tests/lib/unit.h"

/* ---- two threads ----------------------------------------------------------------- */

#ifdef APIR_TSAN
#define STREAM_MESSAGES 100000u
#else
#define STREAM_MESSAGES 500000u
#endif

struct consumer {
    struct ends *e;
    unsigned count;
    const char *failed; /* NULL: fine */
};

static void *consume_stream(void *user)
{
    struct consumer *c = user;
    static uint8_t got[APIR_MESSAGE_MAX];
    uint64_t seed = 5;
    int64_t until = now_ms() + LIMIT_MS;
    for (unsigned i = 0; i < c->count;) {
        size_t size;
        int rc = apir_ring_host_take(&c->e->host, got, sizeof(got), &size);
        if (rc == -EAGAIN) {
            if (now_ms() > until) {
                c->failed = "nothing came";
                return NULL;
            }
            sched_yield();
            continue;
        }
        if (rc) {
            c->failed = "a message was refused";
            return NULL;
        }
        if (size != random_size(&seed) || !message_is(got, size, i)) {
            c->failed = "a message arrived changed";
            return NULL;
        }
        complete(&c->e->host);
        until = now_ms() + LIMIT_MS;
        i++;
    }
    return NULL;
}

static void stream(uint64_t start, unsigned count)
{
    struct ends e;
    ends_open(&e);
    ends_start_at(&e, start);
    struct consumer c = {.e = &e, .count = count};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, consume_stream, &c), 0);
    static uint8_t msg[APIR_MESSAGE_MAX];
    uint64_t seed = 5, chance = 17, pos = start;
    int64_t until = now_ms() + LIMIT_MS;
    const char *failed = NULL;
    for (unsigned i = 0; i < count && !failed; i++) {
        size_t size = random_size(&seed);
        while (!apir_ring_guest_has_room(&e.guest, size) && !failed) {
            apir_ring_guest_publish(&e.guest);
            if (now_ms() > until)
                failed = "room never came";
            sched_yield();
        }
        message_fill(msg, size, i);
        if (!failed)
            pos = apir_ring_guest_put(&e.guest, msg, size);
        if (unit_random(&chance) % 4 == 0) /* several messages to one tail store */
            apir_ring_guest_publish(&e.guest);
        if (i % 1024 == 0)
            until = now_ms() + LIMIT_MS;
    }
    apir_ring_guest_publish(&e.guest);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (failed || c.failed)
        fail_msg("%s", failed ? failed : c.failed);
    assert_true(apir_ring_guest_head(&e.guest) == pos);
    ends_close(&e);
}

TEST(a_stream_between_threads_arrives_whole_and_in_order)
{
    stream(0, STREAM_MESSAGES);
}

TEST(a_stream_over_the_end_of_the_offsets_arrives_too)
{
    stream(0 - (uint64_t)(CMD_SIZE * 4 + 40), STREAM_MESSAGES / 4);
}

/* ---- sleep and kick --------------------------------------------------------------- */

#define KICK_ROUNDS 100000u

struct sleeper {
    struct ends *e;
    int kick_fd;
    unsigned count;
    unsigned slept;
    const char *failed;
};

/* The worker's loop: no spinning, so that it goes to sleep whenever it can. */
static void *consume_sleeping(void *user)
{
    struct sleeper *s = user;
    uint8_t got[APIR_MESSAGE_MAX];
    uint64_t chance = 3;
    for (unsigned i = 0; i < s->count;) {
        size_t size;
        int rc = apir_ring_host_take(&s->e->host, got, sizeof(got), &size);
        if (rc == 0) {
            complete(&s->e->host);
            i++;
            continue;
        }
        if (rc != -EAGAIN) {
            s->failed = "a message was refused";
            return NULL;
        }
        for (uint64_t n = unit_random(&chance) % 64; n; n--)
            apir_cpu_relax(); /* shift the two sides against each other */
        if (apir_ring_host_prepare_sleep(&s->e->host)) {
            struct pollfd p = {.fd = s->kick_fd, .events = POLLIN};
            s->slept++;
            if (poll(&p, 1, LIMIT_MS) != 1) {
                s->failed = "asleep with a message on the ring: the kick was lost";
                apir_ring_host_awake(&s->e->host);
                return NULL;
            }
            uint64_t kicks;
            ssize_t ignored = read(s->kick_fd, &kicks, sizeof(kicks));
            (void)ignored;
        }
        apir_ring_host_awake(&s->e->host);
    }
    return NULL;
}

/* every: how many messages go out before the guest waits for them. */
static void kick_rounds(unsigned rounds, unsigned every)
{
    struct ends e;
    ends_open(&e);
    struct sleeper s = {
        .e = &e, .kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .count = rounds};
    assert_true(s.kick_fd >= 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, consume_sleeping, &s), 0);
    uint8_t msg[64];
    uint64_t chance = 11;
    unsigned kicks = 0, round = 0;
    bool ok = true;
    for (; round < rounds && ok; round++) {
        message_fill(msg, sizeof(msg), round);
        uint64_t pos = apir_ring_guest_put(&e.guest, msg, sizeof(msg));
        for (uint64_t n = unit_random(&chance) % 64; n; n--)
            apir_cpu_relax();
        if (apir_ring_guest_publish(&e.guest)) {
            uint64_t one = 1;
            kicks++;
            ok = write(s.kick_fd, &one, sizeof(one)) == sizeof(one);
        }
        if (ok && round % every == every - 1)
            ok = wait_head(e.header, pos);
    }
    if (!ok && !s.failed) { /* let the other side end */
        apir_store_release64(&e.header->tail, e.guest.tail - CMD_SIZE * 2);
        uint64_t one = 1;
        ssize_t ignored = write(s.kick_fd, &one, sizeof(one));
        (void)ignored;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(s.kick_fd);
    if (s.failed)
        fail_msg("round %u: %s", round, s.failed);
    if (!ok)
        fail_msg("round %u: the head moved and the waiter slept on", round);
    assert_true(kicks > 0 && s.slept > 0);
    assert_true(kicks <= rounds);
    /* At most one kick per sleep: a sleep that ends by itself may have drawn one, too. */
    assert_int_equal(apir_load_acquire32(&e.header->idle), 0);
    ends_close(&e);
}

TEST(no_wake_up_is_lost_when_each_message_is_waited_for)
{
    kick_rounds(KICK_ROUNDS, 1);
}

TEST(no_wake_up_is_lost_in_bursts)
{
    kick_rounds(KICK_ROUNDS, 32);
}

ENDS_TEST(a_host_about_to_sleep_sees_what_came_meanwhile, ends_open)
{
    assert_true(apir_ring_host_prepare_sleep(&e->host));
    assert_true(publish(e, 8, 1));                    /* idle: kick */
    assert_false(publish(e, 8, 1));                   /* one kick is enough */
    assert_false(apir_ring_guest_publish(&e->guest)); /* and nothing new wants none */
    apir_ring_host_awake(&e->host);
    for (int i = 0; i < 2; i++) {
        expect_taken(e, 8, 1);
        complete(&e->host);
    }
    publish(e, 8, 1);
    assert_false(apir_ring_host_prepare_sleep(&e->host)); /* do not: a message is there */
    apir_ring_host_awake(&e->host);
}

static void *wake_when_asleep(void *user)
{
    struct ends *e = user;
    while (!apir_ring_host_sleeps(e->header))
        apir_cpu_relax();
    apir_ring_wake_host(e->header);
    return NULL;
}

ENDS_TEST(a_host_knows_whether_somebody_woke_it, ends_open)
{
    assert_false(apir_ring_host_sleeps(e->header));
    assert_true(apir_ring_host_prepare_sleep(&e->host));
    assert_true(apir_ring_host_sleeps(e->header));
    assert_false(apir_ring_host_sleep(&e->host, 1000000)); /* nobody: a millisecond is over */
    apir_ring_host_awake(&e->host);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_when_asleep, e), 0);
    assert_true(apir_ring_host_prepare_sleep(&e->host));
    assert_true(apir_ring_host_sleep(&e->host, UINT64_C(60) * 1000000000));
    apir_ring_host_awake(&e->host);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

ENDS_TEST(completion_wakes_only_where_somebody_waits, ends_open)
{
    for (uint32_t waiting = 0; waiting < 2; waiting++) {
        publish(e, 8, 1);
        apir_store_release32(&e->header->waiting, waiting);
        uint32_t before = apir_load_acquire32(&e->header->wake);
        expect_taken(e, 8, 1);
        complete(&e->host);
        assert_int_equal(apir_load_acquire32(&e->header->wake), before + waiting);
    }
}

/* ---- both sides at the very same moment ------------------------------------------- */

/*
 * The loops above sleep, so their two sides seldom meet within the few
 * nanoseconds in which a store has not left its core yet. Here they meet on
 * purpose, round after round; what each saw is compared afterwards. Before each
 * round either side writes to the cache line that it is about to read, beside the
 * word: its load is then quick, and the other's store to that line slow. Without
 * the full fences in ring.c, this finds a lost wake-up in nearly every run.
 */
#ifdef APIR_TSAN
#define MEETINGS 50000u
#else
#define MEETINGS 200000u
#endif

struct meeting {
    struct ends *e;
    void (*act)(struct meeting *m); /* the thread's part of a round */
    bool slept;                     /* what act found */
    unsigned rounds, lost, kicks;   /* the guest's counts */
    uint8_t *line[2];               /* a spare byte of the line that each side reads */
    uint8_t pad0[64];
    uint32_t arrived[2]; /* count of meetings of each side; both spin for the other */
    uint32_t stuck;
    uint8_t pad1[64];
};

/* Both leave within a cache miss of each other. False: the other never came. */
static bool meet(struct meeting *m, int side)
{
    uint32_t mine = apir_add32(&m->arrived[side], 1);
    int64_t until = 0;
    for (unsigned spins = 1; (int32_t)(apir_load_acquire32(&m->arrived[!side]) - mine) < 0;
         spins++) {
        if (spins % 4096)
            continue;
        sched_yield(); /* the other may want this very core */
        int64_t now = now_ms();
        until = until ? until : now + LIMIT_MS;
        if (now > until || apir_load_acquire32(&m->stuck)) {
            apir_store_release32(&m->stuck, 1);
            return false;
        }
    }
    return true;
}

static bool meet_ready(struct meeting *m, int side, uint64_t *chance)
{
    if (!meet(m, side))
        return false;
    __atomic_fetch_add(m->line[side], 1, __ATOMIC_RELAXED);
    if (!meet(m, side))
        return false;
    for (uint64_t n = unit_random(chance) % 128; n; n--)
        __asm__ __volatile__("" ::: "memory");
    return true;
}

static void *meeting_thread(void *user)
{
    struct meeting *m = user;
    uint64_t chance = 41;
    for (uint32_t i = 0; i < MEETINGS; i++) {
        if (!meet_ready(m, 1, &chance))
            break;
        m->act(m);
        if (!meet(m, 1))
            break;
    }
    return NULL;
}

/* The guest's part of each round is guest_round; false: it cannot go on. */
static void run_meetings(struct meeting *m,
                         bool (*guest_round)(struct meeting *m, uint64_t *chance))
{
    pthread_t thread;
    uint64_t chance = 43;
    assert_int_equal(pthread_create(&thread, NULL, meeting_thread, m), 0);
    for (uint32_t i = 0; i < MEETINGS && guest_round(m, &chance); i++)
        m->rounds++;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(m->stuck, 0);
    assert_int_equal(m->rounds, MEETINGS);
    assert_int_equal(m->lost, 0);
}

static void act_prepare_sleep(struct meeting *m)
{
    m->slept = apir_ring_host_prepare_sleep(&m->e->host);
}

static bool publish_round(struct meeting *m, uint64_t *chance)
{
    struct ends *e = m->e;
    put(e, 8, 1);
    if (!meet_ready(m, 0, chance))
        return false;
    bool kick = apir_ring_guest_publish(&e->guest);
    if (!meet(m, 0))
        return false;
    /* The thread waits for the next round: the host is ours until then. */
    m->kicks += kick;
    m->lost += m->slept && !kick;
    apir_ring_host_awake(&e->host);
    uint8_t got[8];
    size_t size;
    if (apir_ring_host_take(&e->host, got, sizeof(got), &size) == 0)
        complete(&e->host);
    return true;
}

/* Either the guest sees that the host sleeps, or the host that there is a message. */
ENDS_TEST(a_message_is_never_left_behind_a_sleeping_host, ends_open)
{
    struct meeting m = {.e = e, .act = act_prepare_sleep};
    m.line[0] = e->header->pad4; /* idle */
    m.line[1] = e->header->pad1; /* tail */
    run_meetings(&m, publish_round);
    assert_true(m.kicks > 0);
}

static void act_complete(struct meeting *m)
{
    complete(&m->e->host);
}

static bool wait_round(struct meeting *m, uint64_t *chance)
{
    struct ends *e = m->e;
    uint8_t got[8];
    size_t size;
    /* The thread waits: the host is ours until they meet. */
    publish(e, 8, 1);
    if (apir_ring_host_take(&e->host, got, sizeof(got), &size) < 0)
        return false;
    uint32_t seen = apir_load_acquire32(&e->header->wake);
    if (!meet_ready(m, 0, chance))
        return false;
    apir_store_release32(&e->header->waiting, 1);
    apir_full_fence();
    bool there = apir_load_acquire64(&e->header->head) == e->guest.tail;
    if (!meet(m, 0))
        return false;
    /* It would have slept now, and nothing but `wake` ends that sleep. */
    m->lost += !there && apir_load_acquire32(&e->header->wake) == seen;
    apir_store_release32(&e->header->waiting, 0);
    return true;
}

/* Either the guest sees the head, or the host that somebody waits for it. */
ENDS_TEST(a_completion_is_never_missed_by_a_waiter, ends_open)
{
    struct meeting m = {.e = e, .act = act_complete};
    m.line[0] = e->header->pad3; /* head */
    m.line[1] = e->header->pad2; /* waiting */
    run_meetings(&m, wait_round);
}

/* ---- state ------------------------------------------------------------------------ */

static void *lose_context(void *user)
{
    struct ends *e = user;
    apir_ring_set_state(e->header, APIR_STATE_LOST, "the worker was killed");
    return NULL;
}

/* A guest that sleeps for a head that never moves hears of the loss, with the reason. */
TEST(a_loss_wakes_a_waiter_who_then_reads_the_whole_reason)
{
    for (int round = 0; round < 200; round++) {
        struct ends e;
        ends_open(&e);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, lose_context, &e), 0);
        int64_t until = now_ms() + LIMIT_MS;
        uint32_t seen, s;
        do {
            seen = apir_load_acquire32(&e.header->wake);
            s = apir_load_acquire32(&e.header->state);
            if (s != APIR_STATE_LOST) {
                struct timespec ts = {.tv_sec = LIMIT_MS / 1000};
                syscall(SYS_futex, &e.header->wake, FUTEX_WAIT, seen, &ts, NULL, 0);
            }
        } while (s != APIR_STATE_LOST && now_ms() < until);
        if (s == APIR_STATE_LOST)
            assert_string_equal(e.header->reason, "the worker was killed");
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(s, APIR_STATE_LOST);
        assert_true(now_ms() < until);
        ends_close(&e);
    }
}
