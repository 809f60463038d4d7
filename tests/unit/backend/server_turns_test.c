/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that take turns: real sockets in a common folder; the test does what workers do. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "backend/server/turns/order.h"
#include "backend/server/turns/turns.h"
#include "common/parent.h"
#include "protocol/atomic.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"

#define GPU     "0123-gpu"
#define SERVERS 3
/* For what must come; a test does not wait for it otherwise. */
#define PATIENCE_MS 20000

/* A server with one worker. */
struct class {
    struct apir_config config;
    struct server_limits limits;
    struct server_turns turns;
    struct server_turn_member member;
    struct apir_worker_status status;
    uint32_t turn; /* its number */
    bool there;
};

static struct server_loop loop;
static struct class classes[SERVERS];

static void class_begin(struct class *c, uint32_t weight)
{
    *c = (struct class){.config = {.limits_dir = unit_folder, .weight = weight}, .there = true};
    server_limits_init(&c->limits, &c->config);
    assert_int_equal(server_turns_init(&c->turns, &loop, &c->limits, false), 0);
    server_turns_join(&c->turns, &c->member, &c->status);
}

static void class_end(struct class *c)
{
    if (!c->there)
        return;
    server_turns_leave(&c->member);
    server_turns_fini(&c->turns);
    server_limits_fini(&c->limits);
    c->there = false;
}

static int setup(void **state)
{
    if (unit_folder_setup(state))
        return -1;
    memset(classes, 0, sizeof(classes));
    return server_loop_init(&loop);
}

static int teardown(void **state)
{
    for (int i = 0; i < SERVERS; i++)
        class_end(&classes[i]);
    server_loop_fini(&loop);
    return unit_folder_teardown(state);
}

#define TURNS_TEST(name) TEST_WITHIN(name, setup, teardown)

/* ---- a worker ------------------------------------------------------------------------ */

static void uses(struct class *c, const char *device, bool is_cpu)
{
    c->turn = (uint32_t)server_turns_ask(&c->member, device, is_cpu);
    assert_true(c->turn < APIR_TURNS_MAX);
}

static uint32_t state_of(const struct class *c)
{
    return apir_load_acquire32(&c->turns.page->state[c->turn]);
}

static bool is_open(const struct class *c)
{
    return state_of(c) & APIR_TURN_OPEN;
}

/* As backend/worker/turn.c does it. True: it computes. */
static bool tries(struct class *c)
{
    apir_store_release32(&c->status.turns_held, 1u << c->turn);
    apir_full_fence();
    if (is_open(c)) {
        apir_store_release32(&c->status.turns_wanted, 0);
        return true;
    }
    apir_store_release32(&c->status.turns_held, 0);
    apir_store_release32(&c->status.turns_wanted, 1u << c->turn);
    server_turns_moved(&c->member);
    return false;
}

static void ends(struct class *c)
{
    apir_store_release32(&c->status.turns_held, 0);
    apir_full_fence();
    if (state_of(c) != APIR_TURN_OPEN)
        server_turns_moved(&c->member);
}

/* Until it is so. */
static void await(bool (*is)(const struct class *), const struct class *c)
{
    const int64_t end = server_now_ms() + PATIENCE_MS;
    while (!is(c)) {
        assert_true(server_loop_turn(&loop, 100) >= 0);
        if (server_now_ms() > end)
            fail_msg("it does not come");
    }
}

static void run_for(int64_t ms)
{
    const int64_t end = server_now_ms() + ms;
    while (server_now_ms() < end)
        assert_true(server_loop_turn(&loop, 1) >= 0);
}

static bool is_shut(const struct class *c)
{
    return !is_open(c);
}

static bool is_in(const struct class *c)
{
    return c->turns.turns[c->turn].is == SERVER_TURN_IN;
}

static bool is_told(const struct class *c)
{
    return state_of(c) & APIR_TURN_TELL;
}

/* Two, of which a computes and b waits. */
static void a_before_b(void)
{
    struct class *a = &classes[0], *b = &classes[1];
    class_begin(a, 1);
    uses(a, GPU, false);
    await(is_in, a);
    assert_true(tries(a));
    class_begin(b, 1);
    uses(b, GPU, false);
    await(is_shut, b);
    assert_false(tries(b));
    assert_true(server_turns_waits(&b->member));
    assert_false(server_turns_waits(&a->member));
}

/* ---- turns ---------------------------------------------------------------------------- */

TURNS_TEST(none_for_who_computes_through_mps)
{
    struct class *a = &classes[0];
    class_begin(a, 1);
    server_turns_leave(&a->member);
    server_turns_fini(&a->turns);
    assert_int_equal(server_turns_init(&a->turns, &loop, &a->limits, true), 0);
    assert_int_equal(server_turns_share(&a->turns), -1);
}

TURNS_TEST(workers_cannot_write_the_page)
{
    struct class *a = &classes[0];
    class_begin(a, 1);
    int fd = server_turns_share(&a->turns);
    assert_true(fd >= 0);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(write(fd, "x", 1), -1);
    const uint32_t *seen = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(seen, MAP_FAILED);
    assert_int_equal(seen[0], APIR_TURN_OPEN);
    munmap((void *)(uintptr_t)seen, 4096);
    close(fd);
}

TURNS_TEST(a_turn_goes_from_one_to_the_other_at_the_end_of_a_graph)
{
    struct class *a = &classes[0], *b = &classes[1];
    const int64_t began = server_now_ms();
    a_before_b();
    await(is_told, a);
    await(is_shut, a); /* its time is over, but it computes */
    run_for(20);
    /* Unless the machine had no time for us: then a is late, and b waits no longer. */
    assert_true(is_shut(b) || server_now_ms() - began >= (int64_t)(SERVER_ORDER_LATE_NS / 1000000));
    assert_false(tries(a));
    ends(a);
    await(is_open, b);
    assert_true(tries(b));
    await(is_shut, b); /* for a waits */
    assert_true(is_shut(a));
    ends(b);
    await(is_open, a);
    assert_true(tries(a));
}

TURNS_TEST(who_has_nothing_to_compute_gives_it_back)
{
    struct class *a = &classes[0], *b = &classes[1];
    class_begin(a, 100); /* it could keep it for long */
    uses(a, GPU, false);
    await(is_in, a);
    class_begin(b, 1);
    uses(b, GPU, false);
    await(is_in, b);
    assert_true(is_shut(a));
}

TURNS_TEST(devices_have_turns_of_their_own)
{
    struct class *a = &classes[0], *b = &classes[1];
    class_begin(a, 1);
    uses(a, GPU, false);
    uses(a, "another", false);
    await(is_in, a);
    assert_int_equal(a->turn, 1);
    assert_true(tries(a));
    class_begin(b, 1);
    uses(b, GPU, false);
    await(is_in, b);
    assert_true(tries(b));
    run_for(30);
    assert_true(is_open(a) && is_open(b));
}

/* One thread each, of the cores that there are. */
TURNS_TEST(few_threads_wait_for_nobody)
{
    struct class *a = &classes[0], *b = &classes[1];
    class_begin(a, 1);
    class_begin(b, 1);
    a->status.threads = b->status.threads = 1;
    uses(a, "cpu", true);
    uses(b, "cpu", true);
    await(is_in, a);
    await(is_in, b);
    assert_true(tries(a) && tries(b));
    run_for(30);
    assert_true(is_open(a) && is_open(b));
    /* Now as many as there are, which is all of it. */
    a->status.threads = 0;
    server_turns_moved(&a->member);
    const int64_t end = server_now_ms() + PATIENCE_MS;
    while (is_open(a) && is_open(b) && server_now_ms() < end)
        assert_true(server_loop_turn(&loop, 100) >= 0);
    assert_true(!is_open(a) || !is_open(b));
}

/* ---- faults ---------------------------------------------------------------------------- */

/* Nor others of its own class, which compute beside it when their class has its next turn. */
TURNS_TEST(a_worker_that_never_ends_does_not_hold_up_its_class)
{
    struct class *a = &classes[0], *b = &classes[1];
    struct apir_worker_status other = {0};
    struct server_turn_member member = {0};
    a_before_b();
    server_turns_join(&a->turns, &member, &other);
    assert_int_equal(server_turns_ask(&member, GPU, false), a->turn);
    await(is_shut, a);
    other.turns_wanted = 1u << a->turn;
    server_turns_moved(&member);
    await(is_open, b);
    assert_true(tries(b));
    await(is_shut, b);
    ends(b);
    await(is_open, a);
    /* The next graph of the one that was late counts again. */
    other.turns_wanted = 0;
    apir_store_release64(&a->status.head, 1);
    await(is_in, a);
    assert_false(tries(b));
    await(is_shut, a);
    run_for(20);
    assert_true(is_shut(b));
    server_turns_leave(&member);
}

TURNS_TEST(a_worker_that_is_gone_frees_its_turn)
{
    struct class *a = &classes[0], *b = &classes[1];
    a_before_b();
    await(is_shut, a);
    const int64_t began = server_now_ms();
    server_turns_leave(&a->member);
    await(is_open, b);
    /* Not only since it was late. */
    assert_true(server_now_ms() - began < (int64_t)(SERVER_ORDER_LATE_NS / 1000000));
}

/* a is the broker. */
TURNS_TEST(another_server_becomes_the_broker)
{
    struct class *a = &classes[0], *b = &classes[1], *c = &classes[2];
    a_before_b();
    class_end(a);
    await(is_open, b); /* at once, for there is nobody to ask */
    await(is_in, b);
    assert_non_null(b->turns.broker.loop);
    assert_true(tries(b));
    class_begin(c, 1);
    uses(c, GPU, false);
    await(is_shut, c);
    assert_false(tries(c));
    await(is_shut, b);
    ends(b);
    await(is_open, c);
}

/* A broker in a process of its own, stopped and continued. */
static pid_t broker_start(void)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct server_loop own;
        struct class *a = &classes[0];
        (void)apir_ends_with_parent(getppid());
        if (server_loop_init(&own) < 0)
            _exit(1);
        a->config = (struct apir_config){.limits_dir = unit_folder, .weight = 1};
        server_limits_init(&a->limits, &a->config);
        if (server_turns_init(&a->turns, &own, &a->limits, false) < 0)
            _exit(1);
        server_turns_join(&a->turns, &a->member, &a->status);
        a->turn = (uint32_t)server_turns_ask(&a->member, GPU, false);
        while (!is_in(a))
            (void)server_loop_turn(&own, 100);
        (void)tries(a);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)server_loop_turn(&own, 1000);
    }
    char x;
    assert_int_equal(read(ready[0], &x, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

TURNS_TEST(nobody_waits_for_a_broker_that_has_stopped)
{
    struct class *b = &classes[1];
    const pid_t pid = broker_start();
    class_begin(b, 1);
    uses(b, GPU, false);
    await(is_shut, b); /* the other one computes */
    assert_false(tries(b));
    kill(pid, SIGSTOP);
    await(is_open, b);
    assert_true(tries(b));
    run_for(2 * SERVER_TURNS_AGAIN_MS); /* connects anew: that alone is no answer */
    assert_true(is_open(b));
    kill(pid, SIGCONT);
    await(is_in, b); /* for the other one is late */
    ends(b);
    kill(pid, SIGKILL);
    await(is_in, b); /* and is the broker itself */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- whoever may write in the folder ------------------------------------------------------ */

static int dial(struct class *c)
{
    int fd = server_broker_connect(server_limits_folder(&c->limits));
    assert_true(fd >= 0);
    return fd;
}

/* Whether the broker cuts off who has sent this. */
static bool is_cut(int fd, const void *data, size_t size)
{
    (void)send(fd, data, size, MSG_NOSIGNAL);
    const int64_t end = server_now_ms() + 300;
    char answer[256];
    while (server_now_ms() < end) {
        assert_true(server_loop_turn(&loop, 1) >= 0);
        if (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) == 0)
            return true;
    }
    return false;
}

TURNS_TEST(nonsense_is_cut_off)
{
    struct class *a = &classes[0];
    class_begin(a, 1);
    uses(a, GPU, false);
    await(is_in, a);
    const struct server_turns_message good = {
        .op = SERVER_TURNS_WANT, .weight = 1, .need = 1, .device = "other"};
    struct server_turns_message bad[10];
    for (int i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].op = SERVER_TURNS_GRANT;
    bad[1].weight = 0;
    bad[2].weight = SERVER_ORDER_WEIGHT_MAX + 1;
    bad[3].latency = 2;
    bad[4].need = 0;
    bad[5].need = SERVER_ORDER_ALL + 1;
    bad[6].device[0] = '\0';
    bad[7].device[0] = '/';
    memset(bad[8].device, 'a', sizeof(bad[8].device));
    bad[9].op = SERVER_TURNS_LEFT; /* it has never wanted one */
    for (int i = 0; i < 10; i++) {
        int fd = dial(a);
        assert_true(is_cut(fd, &bad[i], sizeof(bad[i])));
        close(fd);
    }
    int fd = dial(a);
    assert_true(is_cut(fd, &good, sizeof(good) - 1));
    close(fd);
    fd = dial(a);
    char longer[sizeof(good) + 1];
    memcpy(longer, &good, sizeof(good));
    longer[sizeof(good)] = 0;
    assert_true(is_cut(fd, longer, sizeof(longer)));
    close(fd);
    fd = dial(a);
    assert_false(is_cut(fd, &good, sizeof(good)));
    close(fd);
    /* More devices than anybody has. */
    fd = dial(a);
    struct server_turns_message m = good;
    for (unsigned i = 0; i < APIR_TURNS_MAX; i++) {
        m.device[0] = (char)('a' + i);
        assert_int_equal(send(fd, &m, sizeof(m), MSG_NOSIGNAL), (ssize_t)sizeof(m));
    }
    assert_false(is_cut(fd, &m, sizeof(m)));
    m.device[0] = '1';
    assert_true(is_cut(fd, &m, sizeof(m)));
    close(fd);
    run_for(20);
    assert_true(is_open(a) && tries(a));
    assert_int_equal(a->turns.broker.n_peers, 1);
}

/* It connects and does not read. */
TURNS_TEST(who_does_not_read_is_cut_off)
{
    struct class *a = &classes[0];
    class_begin(a, 1);
    uses(a, GPU, false);
    await(is_in, a);
    int fd = dial(a);
    const struct server_turns_message m = {
        .op = SERVER_TURNS_WANT, .weight = 1, .need = SERVER_ORDER_ALL, .device = GPU};
    assert_true(tries(a)); /* so that it is told to wait, each time */
    const int64_t end = server_now_ms() + PATIENCE_MS;
    while (a->turns.broker.n_peers != 2 && server_now_ms() < end)
        assert_true(server_loop_turn(&loop, 1) >= 0);
    while (a->turns.broker.n_peers == 2 && server_now_ms() < end) {
        (void)send(fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(server_loop_turn(&loop, 0) >= 0);
    }
    assert_int_equal(a->turns.broker.n_peers, 1);
    close(fd);
}

/* A socket of the right name with somebody at it who makes no sense. */
TURNS_TEST(a_broker_that_makes_no_sense_is_given_up)
{
    struct class *a = &classes[0];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s1", unit_folder,
             SERVER_BROKER_PREFIX);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)(void *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    class_begin(a, 1);
    uses(a, GPU, false);
    int peer = accept(fd, NULL, NULL);
    assert_true(peer >= 0);
    run_for(20);
    assert_true(is_open(a)); /* nobody has answered */
    struct server_turns_message m = {.op = SERVER_TURNS_WAIT, .device = GPU};
    assert_int_equal(send(peer, &m, sizeof(m), 0), (ssize_t)sizeof(m));
    await(is_shut, a);
    m.op = SERVER_TURNS_WANT;
    assert_int_equal(send(peer, &m, sizeof(m), 0), (ssize_t)sizeof(m));
    await(is_open, a);
    close(peer);
    /* Nobody listens there any more: what it has left is in nobody's way. */
    close(fd);
    await(is_in, a);
    assert_int_equal(access(address.sun_path, F_OK), -1);
}
