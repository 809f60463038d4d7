/* SPDX-License-Identifier: Apache-2.0 */
/* The unix transport's connections: contexts, and clients that break the rules. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "backend/server/unix/unix.h"
#include "protocol/atomic.h"
#include "common/cleanup.h"
#include "tests/lib/clock.h"
#include "tests/lib/unix_client.h"
#include "tests/lib/unit.h"

/* ---- contexts ---------------------------------------------------------------------- */

TEST_WITHIN(connection_is_a_context, unix_set_up, unix_tear_down)
{
    struct unix_client c = unix_client_open();
    assert_true(c.ring->magic == APIR_RING_MAGIC);
    unix_client_wait_state(&c, APIR_STATE_READY);
    unix_expect_alive(&c);
    /* Work arrives without the socket, and by its kick. */
    for (uint64_t tail = 64; tail <= 1024; tail += 64) {
        apir_store_release64(&c.ring->tail, tail);
        unix_request(c.fd, APIR_UNIX_KICK, 0, 0);
        WAIT_FOR(apir_load_acquire64(&c.ring->head) == tail, FIXTURE_WAIT_MS);
        assert_true(apir_load_acquire64(&c.ring->head) == tail);
    }
    unsigned n = 0;
    fixture_child(&unix_host.f, "fake_worker", &n);
    assert_int_equal(n, 1);
    /* Whoever still looks at the memory sees that nobody serves it any more. */
    close(c.fd);
    unix_client_wait_state(&c, APIR_STATE_LOST);
    munmap(c.ring, APIR_RING_HEADER_SIZE);
    unix_expect_nothing_left();
}

static void expect_class_refuses(const struct unix_client *c, uint32_t id, uint64_t size)
{
    assert_int_equal(unix_create_blob(c->fd, id, size), -EDQUOT);
}

/* Once others have let go. */
static void blob_at_last(int fd, uint32_t id, uint64_t size)
{
    int memfd;
    WAIT_FOR((memfd = unix_create_blob(fd, id, size)) != -EDQUOT, FIXTURE_WAIT_MS);
    assert_true(memfd >= 0);
    close(memfd);
}

/* Of two contexts together, and what is held beside. */
TEST(shared_memory_of_a_class_is_limited)
{
    enum { MIB = 1 << 20 };
    unix_start("\"class_shm_mib\": 20", NULL);
    struct unix_client a = unix_client_open(), b = unix_client_open();
    unix_take_blob(a.fd, 1, 8 * MIB);
    expect_class_refuses(&a, 2, 30 * MIB);
    const int held = unix_create_blob(b.fd, 1, 8 * MIB);
    assert_true(held >= 0);
    /* The last of it is for rings, in which there is why. */
    expect_class_refuses(&b, 2, MIB + 65536);
    unix_take_blob(b.fd, 2, MIB);
    expect_class_refuses(&b, 3, 65536);
    struct unix_client last = unix_client_open();
    expect_class_refuses(&last, 1, 65536);
    unix_client_wait_state(&last, APIR_STATE_LOST);
    assert_non_null(strstr(last.ring->reason, "programs of this class have 20480 KiB of shared"));
    assert_non_null(strstr(last.ring->reason, "(class_shm_mib: 20)"));
    const int next = unix_connect_greeted();
    assert_int_equal(unix_create_blob(next, APIR_RING_BLOB_ID, APIR_RING_SIZE), -EDQUOT);
    unix_client_close(&last);
    blob_at_last(next, APIR_RING_BLOB_ID, APIR_RING_SIZE);
    close(next);
    unix_expect_alive(&a);
    unix_expect_alive(&b);
    /* It has ended, and its memory has not. */
    unix_client_close(&b);
    blob_at_last(a.fd, 2, 2 * MIB);
    expect_class_refuses(&a, 3, 8 * MIB);
    close(held);
    blob_at_last(a.fd, 3, 8 * MIB);
    /* Who has begun lives on, also where it has given all of it back. */
    for (uint32_t id = 1; id <= 3; id++)
        unix_request(a.fd, APIR_UNIX_BLOB_DESTROY, id, 0);
    expect_class_refuses(&a, 1, 30 * MIB);
    assert_int_equal(apir_load_acquire32(&a.ring->state), APIR_STATE_READY);
    unix_expect_alive(&a);
    unix_client_close(&a);
    unix_tear_down(NULL);
}

UNIX_TEST(destroyed_ring_ends_the_worker)
{
    unix_request(c->fd, APIR_UNIX_BLOB_DESTROY, APIR_RING_BLOB_ID, 0);
    unix_client_wait_state(c, APIR_STATE_LOST);
    fixture_wait_childless(&unix_host.f);
}

/* ---- clients without manners (who never read: the attack socket-unix-never-reads) --------- */

/* What a test does on a connection that the server must then close, and nobody else's. */
static void expect_ended(int fd, const struct unix_client *other)
{
    unix_expect_closed(fd);
    unix_expect_alive(other);
}

/* Of any other size: the attack socket-unix-cut-short. */
UNIX_TEST(hello_of_any_other_form_ends_the_connection)
{
    const struct apir_unix_hello hello = {.magic = APIR_UNIX_MAGIC, .major = APIR_PROTOCOL_MAJOR};
    uint8_t bytes[sizeof(hello)];
    memcpy(bytes, &hello, sizeof(hello));
    for (size_t at = 0; at < sizeof(hello); at++) {
        if (at >= offsetof(struct apir_unix_hello, major) &&
            at < offsetof(struct apir_unix_hello, zero))
            continue; /* versions: another test's */
        bytes[at] ^= 0x40;
        int fd = unix_connect();
        fixture_send(fd, bytes, sizeof(hello), NULL, 0);
        expect_ended(fd, c);
        bytes[at] ^= 0x40;
    }
}

TEST_WITHIN(other_major_version_is_refused_by_name, unix_set_up, unix_tear_down)
{
    static const uint32_t majors[] = {0, APIR_PROTOCOL_MAJOR + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof(majors) / sizeof(majors[0]); i++) {
        int fd = unix_connect();
        unix_send_hello(fd, majors[i]);
        const struct apir_unix_welcome welcome = unix_receive_welcome(fd);
        assert_int_equal(welcome.status, APIR_UNIX_REFUSED);
        char want[64];
        snprintf(want, sizeof(want), "speaks %u, the plug-in %u", APIR_PROTOCOL_MAJOR, majors[i]);
        assert_non_null(strstr(welcome.text, want));
        unix_expect_closed(fd);
    }
    unix_expect_nothing_left();
}

UNIX_TEST(request_of_any_other_form_ends_the_connection)
{
    static const struct apir_unix_request bad[] = {
        {.op = 0},
        {.op = APIR_UNIX_PING + 1},
        {.op = UINT32_MAX},
        {.op = 0x4e550000},
        {.op = APIR_UNIX_BLOB_CREATE, .blob_id = APIR_BLOBS_MAX, .value = ARENA_SIZE},
        {.op = APIR_UNIX_BLOB_CREATE, .blob_id = UINT32_MAX, .value = ARENA_SIZE},
        {.op = APIR_UNIX_BLOB_DESTROY, .blob_id = APIR_BLOBS_MAX},
        {.op = APIR_UNIX_BLOB_DESTROY, .blob_id = 1, .value = 1},
        {.op = APIR_UNIX_KICK, .blob_id = 1},
        {.op = APIR_UNIX_KICK, .value = 1},
        {.op = APIR_UNIX_PING, .blob_id = 1},
        {.op = APIR_UNIX_PING, .value = 1ull << 32},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct unix_client client = unix_client_open();
        fixture_send(client.fd, &bad[i], sizeof(bad[i]), NULL, 0);
        expect_ended(client.fd, c);
        /* The memory says so, too. */
        unix_client_wait_state(&client, APIR_STATE_LOST);
        assert_non_null(strstr(client.ring->reason, "protocol violation"));
        munmap(client.ring, APIR_RING_HEADER_SIZE);
    }
}

UNIX_TEST(flood_holds_up_nobody)
{
    pid_t pid = fork();
    if (pid == 0) {
        /* As fast as it goes, until it is killed. */
        int fd = unix_connect();
        unix_send_hello(fd, APIR_PROTOCOL_MAJOR);
        for (uint64_t i = 0;; i++) {
            const struct apir_unix_request req = {
                .op = i % 2 ? APIR_UNIX_PING : APIR_UNIX_KICK,
                .value = i % 2,
            };
            if (send(fd, &req, sizeof(req), MSG_NOSIGNAL) < 0)
                _exit(0);
        }
    }
    enum { TIMES = 200 };
    int late = 0;
    for (int i = 0; i < TIMES; i++) {
        const int64_t began = now_ms();
        unix_expect_alive(c);
        late += now_ms() - began > 500;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    /* It takes some microseconds. For half a second and half of the times no neighbour has all
     * cores. */
    assert_int_in_range(late, 0, TIMES / 2);
}

TEST_WITHIN(disconnecting_at_any_step_leaves_nothing, unix_set_up, unix_tear_down)
{
    for (int step = 0; step < 9; step++) {
        for (int i = 0; i < 5; i++) {
            int fd = unix_connect();
            if (step > 0)
                unix_send_hello(fd, APIR_PROTOCOL_MAJOR);
            if (step > 1)
                unix_receive_welcome(fd);
            if (step > 2)
                unix_request(fd, APIR_UNIX_BLOB_CREATE, 0, APIR_RING_SIZE);
            int ring = step > 3 ? unix_receive_blob(fd, 0) : -1;
            if (step > 4)
                unix_request(fd, APIR_UNIX_BLOB_CREATE, 1, ARENA_SIZE);
            int arena = step > 5 ? unix_receive_blob(fd, 1) : -1;
            if (step > 6)
                unix_request(fd, APIR_UNIX_BLOB_DESTROY, 1, 0);
            if (step > 7)
                shutdown(fd, SHUT_WR);
            close(fd);
            apir_close_fd(&ring);
            apir_close_fd(&arena);
        }
        unix_expect_nothing_left();
    }
}
