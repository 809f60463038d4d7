/* SPDX-License-Identifier: Apache-2.0 */
/* The unix transport's socket: contexts, who may have them, and clients that break the rules. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/atomic.h"
#include "protocol/cleanup.h"
#include "protocol/fdsock.h"
#include "protocol/unix.h"
#include "tests/unit/server_fixture.h"

#define ARENA_SIZE (1u << 20)

static struct fixture f;
static char dir[64];
static char path[80];
static size_t fds_before;

struct client {
    int fd;
    struct apir_ring_header *ring;
};

/* ---- a client -------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int connect_raw(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        close(fd);
        return -1;
    }
    const struct timeval limit = {.tv_sec = FIXTURE_WAIT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

static void send_hello(int fd, uint32_t major)
{
    const struct apir_unix_hello hello = {.magic = APIR_UNIX_MAGIC, .major = major};
    (void)apir_fdsock_send(fd, &hello, sizeof(hello), NULL, 0); /* a refusal may have ended it */
}

static struct apir_unix_welcome receive_welcome(int fd)
{
    struct apir_unix_welcome welcome = {0};
    size_t size = 0;
    int ret = apir_fdsock_recv(fd, &welcome, sizeof(welcome), &size, NULL, 0, NULL, 0);
    if (ret == -ECONNRESET) /* closed with our hello unread; what was sent is there all the same */
        ret = apir_fdsock_recv(fd, &welcome, sizeof(welcome), &size, NULL, 0, NULL, 0);
    assert_int_equal(ret, 0);
    assert_int_equal(size, sizeof(welcome));
    assert_true(welcome.magic == APIR_UNIX_MAGIC);
    assert_int_equal(welcome.major, APIR_PROTOCOL_MAJOR);
    return welcome;
}

/* The whole greeting; a refusal's text, or "". */
static const char *greet(int fd)
{
    static char text[APIR_REASON_MAX];
    send_hello(fd, APIR_PROTOCOL_MAJOR);
    const struct apir_unix_welcome welcome = receive_welcome(fd);
    assert_int_equal(welcome.status != 0, welcome.text[0] != '\0');
    memcpy(text, welcome.text, sizeof(text));
    return text;
}

static void request(int fd, uint32_t op, uint32_t blob_id, uint64_t value)
{
    const struct apir_unix_request req = {.op = op, .blob_id = blob_id, .value = value};
    fixture_send(fd, &req, sizeof(req), NULL, 0);
}

/* The memfd, or -errno as answered. */
static int receive_blob(int fd, uint32_t blob_id)
{
    struct apir_unix_answer answer;
    size_t size = 0;
    size_t n_fds = 0;
    int memfd = -1;
    assert_int_equal(apir_fdsock_recv(fd, &answer, sizeof(answer), &size, &memfd, 1, &n_fds, 0), 0);
    assert_int_equal(size, sizeof(answer));
    assert_int_equal(answer.op, APIR_UNIX_BLOB_CREATE);
    assert_int_equal(answer.blob_id, blob_id);
    assert_int_equal(n_fds, answer.status == 0);
    return answer.status ? -(int)answer.status : memfd;
}

static int create_blob(int fd, uint32_t blob_id, uint64_t size)
{
    request(fd, APIR_UNIX_BLOB_CREATE, blob_id, size);
    return receive_blob(fd, blob_id);
}

static struct apir_ring_header *map_ring(int memfd)
{
    assert_true(memfd >= 0);
    void *ring = mmap(NULL, APIR_RING_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    assert_true(ring != MAP_FAILED);
    close(memfd);
    return ring;
}

static struct client client_open(void)
{
    struct client c = {.fd = connect_raw()};
    assert_true(c.fd >= 0);
    assert_string_equal(greet(c.fd), "");
    c.ring = map_ring(create_blob(c.fd, APIR_RING_BLOB_ID, APIR_RING_SIZE));
    return c;
}

static void client_wait_state(const struct client *c, uint32_t state)
{
    const struct fixture_context context = {.ring = c->ring};
    fixture_wait_state(&context, state);
}

static void client_close(struct client *c)
{
    munmap(c->ring, APIR_RING_HEADER_SIZE);
    close(c->fd);
}

/* Until the server has answered a ping: it lives, and has done all that came before. */
static void expect_alive(const struct client *c)
{
    static uint32_t nonce = 100;
    nonce++;
    request(c->fd, APIR_UNIX_PING, 0, nonce);
    /* Refused, but answered in order. */
    assert_int_equal(create_blob(c->fd, APIR_RING_BLOB_ID, APIR_RING_SIZE), -EINVAL);
    assert_int_equal(apir_load_acquire32(&c->ring->pong), nonce);
}

/* The server has closed this connection. */
static void expect_closed(int fd)
{
    struct apir_unix_welcome any;
    fixture_wait_hangup(fd);
    ssize_t n;
    do {
        n = recv(fd, &any, sizeof(any), MSG_DONTWAIT);
    } while (n > 0);
    assert_true(n == 0 || errno == ECONNRESET);
    close(fd);
}

static bool fds_are(size_t n)
{
    int64_t end = now_ms() + FIXTURE_WAIT_MS;
    while (fixture_count_fds(&f) != n && now_ms() < end)
        poll(NULL, 0, 1);
    return fixture_count_fds(&f) == n;
}

/* Nothing is left of any connection: no process, no descriptor. */
static void expect_nothing_left(void)
{
    fixture_wait_childless(&f);
    assert_true(fds_are(fds_before));
}

/* ---- set-up ------------------------------------------------------------------------ */

static void make_dir(void)
{
    strcpy(dir, "/tmp/apir-unix-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0755), 0);
    snprintf(path, sizeof(path), "%s/apir.sock", dir);
}

static void start(const char *config, const char *fault)
{
    make_dir();
    fixture_start_listening(&f, config, fault, path, NULL);
    fds_before = fixture_count_fds(&f);
}

static int set_up(void **state)
{
    (void)state;
    start("", NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_stop(&f);
    /* It takes its socket along. */
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(dir), 0);
    return 0;
}

/* ---- contexts ---------------------------------------------------------------------- */

static void connection_is_a_context(void **state)
{
    (void)state;
    struct client c = client_open();
    assert_true(c.ring->magic == APIR_RING_MAGIC);
    client_wait_state(&c, APIR_STATE_READY);
    expect_alive(&c);
    /* Work arrives without the socket, and by its kick. */
    for (uint64_t tail = 64; tail <= 1024; tail += 64) {
        apir_store_release64(&c.ring->tail, tail);
        request(c.fd, APIR_UNIX_KICK, 0, 0);
        int64_t end = now_ms() + FIXTURE_WAIT_MS;
        while (apir_load_acquire64(&c.ring->head) != tail && now_ms() < end)
            poll(NULL, 0, 1);
        assert_true(apir_load_acquire64(&c.ring->head) == tail);
    }
    unsigned n = 0;
    fixture_child(&f, "fake_worker", &n);
    assert_int_equal(n, 1);
    /* Whoever still looks at the memory sees that nobody serves it any more. */
    close(c.fd);
    client_wait_state(&c, APIR_STATE_LOST);
    munmap(c.ring, APIR_RING_HEADER_SIZE);
    expect_nothing_left();
}

static void memory_stays_as_it_was_made(void **state)
{
    (void)state;
    struct client c = client_open();
    client_wait_state(&c, APIR_STATE_READY);
    int fd = create_blob(c.fd, 1, ARENA_SIZE);
    assert_true(fd >= 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), ARENA_SIZE);
    const int seals = fcntl(fd, F_GET_SEALS);
    assert_int_equal(seals & (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW),
                     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW);
    assert_int_equal(seals & F_SEAL_WRITE, 0);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, ARENA_SIZE + 4096), -1);
    assert_int_equal(fallocate(fd, 0, 0, ARENA_SIZE + 4096), -1);
    /* A seal against writing would keep the worker from mapping it. */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    close(fd);
    client_close(&c);
}

static void punched_ring_is_survived(void **state)
{
    (void)state;
    struct client other = client_open();
    struct client c = {.fd = connect_raw()};
    assert_string_equal(greet(c.fd), "");
    int fd = create_blob(c.fd, APIR_RING_BLOB_ID, APIR_RING_SIZE);
    c.ring = map_ring(dup(fd));
    client_wait_state(&c, APIR_STATE_READY);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, APIR_RING_SIZE), 0);
        request(c.fd, APIR_UNIX_PING, 0, 9);
    }
    expect_alive(&c);
    expect_alive(&other);
    close(fd);
    client_close(&c);
    client_close(&other);
    expect_nothing_left();
}

static void bad_blobs_are_refused_and_the_context_lives(void **state)
{
    (void)state;
    static const struct {
        uint32_t id;
        uint64_t size;
    } bad[] = {
        {0, APIR_RING_SIZE},    {1, 0},          {1, 65535},      {1, 65537},
        {1, (1 << 30) + 65536}, {1, 1ull << 63}, {1, UINT64_MAX}, {63, 4096},
    };
    struct client c = {.fd = connect_raw()};
    assert_string_equal(greet(c.fd), "");
    /* Nothing before the ring, and the ring of no odd size. */
    assert_int_equal(create_blob(c.fd, 1, ARENA_SIZE), -EINVAL);
    assert_int_equal(create_blob(c.fd, 0, 0), -EINVAL);
    assert_int_equal(create_blob(c.fd, 0, 3 << 18), -EINVAL);
    assert_int_equal(create_blob(c.fd, 0, 1ull << 40), -EINVAL);
    c.ring = map_ring(create_blob(c.fd, 0, APIR_RING_SIZE));
    client_wait_state(&c, APIR_STATE_READY);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(create_blob(c.fd, bad[i].id, bad[i].size), -EINVAL);
    int fd = create_blob(c.fd, 1, ARENA_SIZE);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(create_blob(c.fd, 1, ARENA_SIZE), -EINVAL); /* in use */
    request(c.fd, APIR_UNIX_BLOB_DESTROY, 1, 0);
    request(c.fd, APIR_UNIX_BLOB_DESTROY, 1, 0); /* nothing to do */
    fd = create_blob(c.fd, 1, ARENA_SIZE);
    assert_true(fd >= 0);
    close(fd);
    expect_alive(&c);
    client_close(&c);
    expect_nothing_left();
}

static void shared_memory_is_limited(void **state)
{
    (void)state;
    struct client c = client_open();
    client_wait_state(&c, APIR_STATE_READY);
    for (uint32_t i = 1; i <= 15; i++) {
        /* 1 MiB of ring; 15 times 128 MiB would be more than the 1024 allowed. */
        int fd = create_blob(c.fd, i, 128 << 20);
        assert_int_equal(fd >= 0, i < 8);
        if (fd >= 0)
            close(fd);
    }
    request(c.fd, APIR_UNIX_BLOB_DESTROY, 3, 0);
    int fd = create_blob(c.fd, 40, 128 << 20);
    assert_true(fd >= 0);
    close(fd);
    expect_alive(&c);
    client_close(&c);
    expect_nothing_left();
}

static void lost_worker_is_told(void **state)
{
    (void)state;
    struct client c = client_open();
    client_wait_state(&c, APIR_STATE_READY);
    assert_int_equal(kill(fixture_child(&f, "fake_worker", NULL), SIGKILL), 0);
    client_wait_state(&c, APIR_STATE_LOST);
    assert_non_null(strstr(c.ring->reason, "killed by signal 9"));
    /* The connection stands; what it still asks for is refused. */
    assert_int_equal(create_blob(c.fd, 1, ARENA_SIZE), -EINVAL);
    client_close(&c);
    struct client next = client_open();
    client_wait_state(&next, APIR_STATE_READY);
    client_close(&next);
    expect_nothing_left();
}

static void destroyed_ring_ends_the_worker(void **state)
{
    (void)state;
    struct client c = client_open();
    client_wait_state(&c, APIR_STATE_READY);
    request(c.fd, APIR_UNIX_BLOB_DESTROY, APIR_RING_BLOB_ID, 0);
    client_wait_state(&c, APIR_STATE_LOST);
    fixture_wait_childless(&f);
    client_close(&c);
    expect_nothing_left();
}

static void killed_server_ends_its_connections_and_workers(void **state)
{
    (void)state;
    struct client c = client_open();
    client_wait_state(&c, APIR_STATE_READY);
    const pid_t worker = fixture_child(&f, "fake_worker", NULL);
    kill(f.pid, SIGKILL);
    fixture_wait_hangup(c.fd);
    assert_true(WIFSIGNALED(fixture_wait_exit(&f)));
    fixture_wait_gone(worker);
    client_close(&c);
    /* Its socket file stayed behind: the next one takes its place. */
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(connect_raw(), -1);
    fixture_start_listening(&f, "", NULL, path, NULL);
    struct client next = client_open();
    client_wait_state(&next, APIR_STATE_READY);
    client_close(&next);
}

/* ---- clients without manners --------------------------------------------------------- */

/* What a test does on a connection that the server must then close, and nobody else's. */
static void expect_ended(int fd, const struct client *other)
{
    expect_closed(fd);
    expect_alive(other);
}

static void hello_of_any_other_form_ends_the_connection(void **state)
{
    (void)state;
    struct client other = client_open();
    uint8_t bytes[64];
    const struct apir_unix_hello hello = {.magic = APIR_UNIX_MAGIC, .major = APIR_PROTOCOL_MAJOR};
    memset(bytes, 0, sizeof(bytes));
    memcpy(bytes, &hello, sizeof(hello));
    for (size_t size = 1; size <= sizeof(bytes); size++) {
        if (size == sizeof(hello))
            continue;
        int fd = connect_raw();
        fixture_send(fd, bytes, size, NULL, 0);
        expect_ended(fd, &other);
    }
    for (size_t at = 0; at < sizeof(hello); at++) {
        if (at >= offsetof(struct apir_unix_hello, major) &&
            at < offsetof(struct apir_unix_hello, zero))
            continue; /* versions: another test's */
        bytes[at] ^= 0x40;
        int fd = connect_raw();
        fixture_send(fd, bytes, sizeof(hello), NULL, 0);
        expect_ended(fd, &other);
        bytes[at] ^= 0x40;
    }
    client_close(&other);
    expect_nothing_left();
}

static void other_major_version_is_refused_by_name(void **state)
{
    (void)state;
    static const uint32_t majors[] = {0, APIR_PROTOCOL_MAJOR + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof(majors) / sizeof(majors[0]); i++) {
        int fd = connect_raw();
        send_hello(fd, majors[i]);
        const struct apir_unix_welcome welcome = receive_welcome(fd);
        assert_int_equal(welcome.status, APIR_UNIX_REFUSED);
        char want[64];
        snprintf(want, sizeof(want), "speaks %u, the plug-in %u", APIR_PROTOCOL_MAJOR, majors[i]);
        assert_non_null(strstr(welcome.text, want));
        expect_closed(fd);
    }
    expect_nothing_left();
}

static void request_of_any_other_form_ends_the_connection(void **state)
{
    (void)state;
    struct client other = client_open();
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
        struct client c = client_open();
        fixture_send(c.fd, &bad[i], sizeof(bad[i]), NULL, 0);
        expect_ended(c.fd, &other);
        /* The memory says so, too. */
        client_wait_state(&c, APIR_STATE_LOST);
        assert_non_null(strstr(c.ring->reason, "protocol violation"));
        munmap(c.ring, APIR_RING_HEADER_SIZE);
    }
    uint8_t bytes[600] = {APIR_UNIX_PING};
    for (size_t size = 1; size <= sizeof(bytes); size += size < 32 ? 1 : 71) {
        if (size == sizeof(struct apir_unix_request))
            continue;
        int fd = connect_raw();
        assert_string_equal(greet(fd), "");
        fixture_send(fd, bytes, size, NULL, 0);
        expect_ended(fd, &other);
    }
    client_close(&other);
    expect_nothing_left();
}

/* apir_fdsock_send stops at 8. */
static void send_with_fds(int sock, const void *data, size_t size, int n)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int) * 250)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
    for (int i = 0; i < n; i++) {
        const int fd = i % 2 ? sock : STDERR_FILENO; /* its own socket, too: a cycle */
        memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &fd, sizeof(fd));
    }
    assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), (ssize_t)size);
}

static void descriptors_end_the_connection_and_do_not_stay(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 8, 9, 100, 250};
    struct client other = client_open();
    const struct apir_unix_hello hello = {.magic = APIR_UNIX_MAGIC, .major = APIR_PROTOCOL_MAJOR};
    const struct apir_unix_request req = {.op = APIR_UNIX_PING};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        int fd = connect_raw();
        send_with_fds(fd, &hello, sizeof(hello), counts[i]);
        expect_ended(fd, &other);
        fd = connect_raw();
        assert_string_equal(greet(fd), "");
        send_with_fds(fd, &req, sizeof(req), counts[i]);
        expect_ended(fd, &other);
    }
    client_close(&other);
    expect_nothing_left();
}

static void silent_connection_is_closed(void **state)
{
    (void)state;
    struct client other = client_open();
    int silent[8];
    const int64_t began = now_ms();
    for (size_t i = 0; i < 8; i++)
        silent[i] = connect_raw();
    expect_alive(&other);
    for (size_t i = 0; i < 8; i++)
        expect_closed(silent[i]);
    assert_int_in_range(now_ms() - began, 1500, 4000);
    expect_alive(&other);
    client_close(&other);
    expect_nothing_left();
}

static void client_that_never_reads_holds_up_nobody(void **state)
{
    (void)state;
    struct client other = client_open();
    struct client c = client_open();
    client_wait_state(&c, APIR_STATE_READY);
    const struct apir_unix_request req = {.op = APIR_UNIX_BLOB_CREATE, .blob_id = 1, .value = 1};
    unsigned sent = 0;
    /* Until both directions are full: the server has stopped to read, too. */
    while (send(c.fd, &req, sizeof(req), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        sent++;
    assert_int_equal(errno, EAGAIN);
    assert_true(sent > 100);
    for (int i = 0; i < 20; i++)
        expect_alive(&other);
    /* One that reads after all has lost nothing. */
    for (unsigned i = 0; i < sent; i++)
        assert_int_equal(receive_blob(c.fd, 1), -EINVAL);
    expect_alive(&c);
    /* And descriptors that nobody takes end with the connection. */
    for (int i = 0; i < 40; i++)
        request(c.fd, APIR_UNIX_BLOB_CREATE, (uint32_t)i + 2, APIR_SHM_ALIGN);
    expect_alive(&other);
    client_close(&c);
    client_close(&other);
    expect_nothing_left();
}

static void flood_holds_up_nobody(void **state)
{
    (void)state;
    struct client other = client_open();
    pid_t pid = fork();
    if (pid == 0) {
        /* As fast as it goes, until it is killed. */
        int fd = connect_raw();
        send_hello(fd, APIR_PROTOCOL_MAJOR);
        for (uint64_t i = 0;; i++) {
            const struct apir_unix_request req = {
                .op = i % 2 ? APIR_UNIX_PING : APIR_UNIX_KICK,
                .value = i % 2,
            };
            if (send(fd, &req, sizeof(req), MSG_NOSIGNAL) < 0)
                _exit(0);
        }
    }
    int64_t worst = 0;
    for (int i = 0; i < 200; i++) {
        const int64_t began = now_ms();
        expect_alive(&other);
        if (now_ms() - began > worst)
            worst = now_ms() - began;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_in_range(worst, 0, 500);
    client_close(&other);
    expect_nothing_left();
}

static void disconnecting_at_any_step_leaves_nothing(void **state)
{
    (void)state;
    for (int step = 0; step < 9; step++) {
        for (int i = 0; i < 5; i++) {
            int fd = connect_raw();
            if (step > 0)
                send_hello(fd, APIR_PROTOCOL_MAJOR);
            if (step > 1)
                receive_welcome(fd);
            if (step > 2)
                request(fd, APIR_UNIX_BLOB_CREATE, 0, APIR_RING_SIZE);
            int ring = step > 3 ? receive_blob(fd, 0) : -1;
            if (step > 4)
                request(fd, APIR_UNIX_BLOB_CREATE, 1, ARENA_SIZE);
            int arena = step > 5 ? receive_blob(fd, 1) : -1;
            if (step > 6)
                request(fd, APIR_UNIX_BLOB_DESTROY, 1, 0);
            if (step > 7)
                shutdown(fd, SHUT_WR);
            close(fd);
            apir_close_fd(&ring);
            apir_close_fd(&arena);
        }
        expect_nothing_left();
    }
}

/* ---- who may ----------------------------------------------------------------------- */

/* The refusal ("" for none) that a process of these credentials is told. -1: leave the groups. */
static void told_to(uid_t uid, gid_t gid, gid_t further, char *text)
{
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        if (setgroups(1, &further) < 0 || setresgid(gid, gid, gid) < 0 ||
            setresuid(uid, uid, uid) < 0)
            _exit(2);
        int fd = connect_raw();
        if (fd < 0)
            _exit(3);
        const char *refusal = greet(fd);
        if (write(out[1], refusal, strlen(refusal) + 1) < 0)
            _exit(4);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(read(out[0], text, APIR_REASON_MAX) > 0);
    close(out[0]);
    close(out[1]);
}

static void configuration_says_who_may(void **state)
{
    (void)state;
    if (getuid() != 0)
        skip(); /* other users need root, or a user namespace with a range */
    static const struct {
        uid_t uid;
        gid_t gid;
        gid_t further;
        bool may;
    } rows[] = {
        {1001, 500, 500, true},  /* by number */
        {1, 500, 500, true},     /* by name: daemon */
        {1002, 7000, 500, true}, /* by its group */
        {1002, 500, 7000, true}, /* by a further group */
        {1002, 500, 500, false}, /* not at all */
        {0, 500, 500, false},    /* root is no exception */
        {70000, 70000, 0, false},
    };
    start("\"allow_users\": [1001, \"daemon\"], \"allow_groups\": [7000]", NULL);
    assert_int_equal(chmod(path, 0666), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[APIR_REASON_MAX] = {0};
        char want[64];
        told_to(rows[i].uid, rows[i].gid, rows[i].further, text);
        snprintf(want, sizeof(want), "user %u may not", rows[i].uid);
        if (rows[i].may)
            assert_string_equal(text, "");
        else
            assert_ptr_equal(strstr(text, want), text);
    }
    expect_nothing_left();
    tear_down(state);
}

static void refused_ones_cost_nothing(void **state)
{
    (void)state;
    start("\"allow_users\": [4000000000]", NULL);
    for (int i = 0; i < 2000; i++) {
        int fd = connect_raw();
        assert_true(fd >= 0);
        if (i % 100 == 0)
            assert_non_null(strstr(greet(fd), "may not use the host's GPU"));
        close(fd);
    }
    expect_nothing_left();
    tear_down(state);
}

static void contexts_are_limited(void **state)
{
    (void)state;
    start("\"max_contexts_per_user\": 3, \"max_contexts\": 4", NULL);
    assert_int_equal(chmod(path, 0666), 0);
    struct client c[3];
    for (int i = 0; i < 3; i++)
        c[i] = client_open();
    int fd = connect_raw();
    assert_non_null(strstr(greet(fd), "max_contexts_per_user"));
    expect_closed(fd);
    for (int i = 0; i < 3; i++)
        expect_alive(&c[i]);
    if (getuid() == 0) {
        /* Another user gets the last one; held by its silence, and then nobody. */
        char text[APIR_REASON_MAX];
        told_to(1001, 500, 500, text);
        assert_string_equal(text, "");
    }
    client_close(&c[1]);
    expect_alive(&c[0]);
    int64_t end = now_ms() + FIXTURE_WAIT_MS;
    for (;;) { /* until the server has seen its end */
        fd = connect_raw();
        if (*greet(fd) == '\0' || now_ms() > end)
            break;
        close(fd);
    }
    c[1] = (struct client){.fd = fd};
    c[1].ring = map_ring(create_blob(fd, APIR_RING_BLOB_ID, APIR_RING_SIZE));
    expect_alive(&c[1]);
    for (int i = 0; i < 3; i++)
        client_close(&c[i]);
    expect_nothing_left();
    tear_down(state);
}

static void all_contexts_are_limited(void **state)
{
    (void)state;
    start("\"max_contexts_per_user\": 9, \"max_contexts\": 2", NULL);
    struct client a = client_open();
    struct client b = client_open();
    int fd = connect_raw();
    assert_non_null(strstr(greet(fd), "2 contexts at most (max_contexts)"));
    expect_closed(fd);
    expect_alive(&a);
    client_close(&a);
    client_close(&b);
    expect_nothing_left();
    tear_down(state);
}

static void broken_configuration_is_told_to_the_client(void **state)
{
    (void)state;
    static const char *const broken[] = {
        NULL,
        "\"allow_users\": [\"no such user\"]",
        "\"allow_groups\": [\"no such group\"]",
    };
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        setenv("APIR_LOG", "error", 1);
        start(broken[i], NULL);
        int fd = connect_raw();
        assert_non_null(strstr(greet(fd), "configuration is broken"));
        expect_closed(fd);
        tear_down(state);
    }
}

/* The server's processor time, in ticks. */
static unsigned long server_ticks(void)
{
    char stat_path[64];
    unsigned long user = 0;
    unsigned long sys = 0;
    snprintf(stat_path, sizeof(stat_path), "/proc/%d/stat", f.pid);
    FILE *file = fopen(stat_path, "re");
    assert_non_null(file);
    assert_int_equal(
        fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys),
        2);
    fclose(file);
    return user + sys;
}

static void running_out_of_descriptors_is_survived(void **state)
{
    (void)state;
    const struct rlimit few = {32, 32};
    make_dir();
    fixture_start_listening(&f, "", NULL, path, &few);
    fds_before = fixture_count_fds(&f);
    struct client first = client_open();
    int waiting[40];
    for (int i = 0; i < 40; i++)
        waiting[i] = connect_raw(); /* in the backlog, at least */
    expect_alive(&first);
    /* Those that wait must not keep it busy: half a second of that would be 50 ticks. */
    const unsigned long ticks = server_ticks();
    poll(NULL, 0, 500);
    assert_true(server_ticks() - ticks < 10);
    for (int i = 0; i < 40; i++)
        close(waiting[i]);
    /* Until the accepted silent ones are gone it is as before. */
    int64_t end = now_ms() + FIXTURE_WAIT_MS;
    while (fixture_count_fds(&f) > fds_before + 8 && now_ms() < end)
        poll(NULL, 0, 1);
    struct client next = client_open();
    expect_alive(&next);
    expect_alive(&first);
    client_close(&next);
    client_close(&first);
    expect_nothing_left();
    tear_down(state);
}

/* ---- the socket itself --------------------------------------------------------------- */

static int run_listen(const char *where)
{
    const char *program = fixture_program("backend/apir-render-server");
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10); /* one that listens would wait for ever */
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(null, STDERR_FILENO);
        dup2(null, STDOUT_FILENO);
        setenv("APIR_CONFIG", f.config, 1);
        execl(program, program, "--listen", where, (char *)NULL);
        _exit(126);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void socket_is_the_owners_and_its_groups(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0660);
}

static void second_server_does_not_take_the_socket(void **state)
{
    (void)state;
    struct stat before;
    struct stat after;
    assert_int_equal(lstat(path, &before), 0);
    assert_int_equal(WEXITSTATUS(run_listen(path)), 1);
    assert_int_equal(lstat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    struct client c = client_open();
    expect_alive(&c);
    client_close(&c);
}

static void what_is_no_socket_is_left_alone(void **state)
{
    (void)state;
    char file[96];
    snprintf(file, sizeof(file), "%s/file", dir);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(WEXITSTATUS(run_listen(file)), 1);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(WEXITSTATUS(run_listen("relative.sock")), 1);
    assert_int_equal(WEXITSTATUS(run_listen("/nonexistent-apir/a.sock")), 1);
    char deep[200];
    memset(deep, 'a', sizeof(deep));
    deep[0] = '/';
    deep[sizeof(deep) - 1] = '\0';
    assert_int_equal(WEXITSTATUS(run_listen(deep)), 1);
}

static void socket_of_a_successor_is_left_alone(void **state)
{
    (void)state;
    struct stat st;
    /* Somebody has removed ours and put another there: not ours to remove. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    fixture_stop(&f);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(unlink(path), 0);
    fixture_start_listening(&f, "", NULL, path, NULL);
}

static int listening_socket(int type, bool listens)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, path);
    unlink(path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    if (listens)
        assert_int_equal(listen(fd, 8), 0);
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 20);
    close(fd);
    return high;
}

static void passed_socket_is_served(void **state)
{
    (void)state;
    make_dir();
    int fd = listening_socket(SOCK_SEQPACKET, true);
    fixture_start_with_fds(&f, "", &fd, 1, 0);
    struct client c = client_open();
    client_wait_state(&c, APIR_STATE_READY);
    expect_alive(&c);
    fds_before = fixture_count_fds(&f);
    client_close(&c);
    fixture_wait_childless(&f);
    /* Stopped, it leaves the socket to systemd, which starts the next one: nobody is refused. */
    fixture_stop(&f);
    assert_int_equal(access(path, F_OK), 0);
    int early = connect_raw();
    fixture_start_with_fds(&f, "", &fd, 1, 0);
    assert_string_equal(greet(early), "");
    close(early);
    fixture_stop(&f);
    close(fd);
    unlink(path);
    rmdir(dir);
}

static void passed_descriptors_are_checked(void **state)
{
    (void)state;
    make_dir();
    int good = listening_socket(SOCK_SEQPACKET, true);
    const int two[] = {good, good};
    /* For another process; two of them; none. */
    fixture_start_with_fds(&f, "", &good, 1, 1);
    assert_int_equal(WEXITSTATUS(fixture_wait_exit(&f)), 1);
    fixture_start_with_fds(&f, "", two, 2, 0);
    assert_int_equal(WEXITSTATUS(fixture_wait_exit(&f)), 1);
    fixture_start_with_fds(&f, "", two, 0, 0);
    assert_int_equal(WEXITSTATUS(fixture_wait_exit(&f)), 1);
    close(good);
    /* Not listening; a stream; no socket. */
    int bad[3] = {listening_socket(SOCK_SEQPACKET, false), listening_socket(SOCK_STREAM, true),
                  open("/dev/null", O_RDWR | O_CLOEXEC)};
    for (int i = 0; i < 3; i++) {
        int high = fcntl(bad[i], F_DUPFD_CLOEXEC, 20);
        fixture_start_with_fds(&f, "", &high, 1, 0);
        assert_int_equal(WEXITSTATUS(fixture_wait_exit(&f)), 1);
        close(high);
        close(bad[i]);
    }
    unlink(path);
    rmdir(dir);
}

#define RUNNING(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUNNING(connection_is_a_context),
        RUNNING(memory_stays_as_it_was_made),
        RUNNING(punched_ring_is_survived),
        RUNNING(bad_blobs_are_refused_and_the_context_lives),
        RUNNING(shared_memory_is_limited),
        RUNNING(lost_worker_is_told),
        RUNNING(destroyed_ring_ends_the_worker),
        RUNNING(killed_server_ends_its_connections_and_workers),
        RUNNING(hello_of_any_other_form_ends_the_connection),
        RUNNING(other_major_version_is_refused_by_name),
        RUNNING(request_of_any_other_form_ends_the_connection),
        RUNNING(descriptors_end_the_connection_and_do_not_stay),
        RUNNING(silent_connection_is_closed),
        RUNNING(client_that_never_reads_holds_up_nobody),
        RUNNING(flood_holds_up_nobody),
        RUNNING(disconnecting_at_any_step_leaves_nothing),
        cmocka_unit_test(configuration_says_who_may),
        cmocka_unit_test(refused_ones_cost_nothing),
        cmocka_unit_test(contexts_are_limited),
        cmocka_unit_test(all_contexts_are_limited),
        cmocka_unit_test(broken_configuration_is_told_to_the_client),
        cmocka_unit_test(running_out_of_descriptors_is_survived),
        RUNNING(socket_is_the_owners_and_its_groups),
        RUNNING(second_server_does_not_take_the_socket),
        RUNNING(what_is_no_socket_is_left_alone),
        RUNNING(socket_of_a_successor_is_left_alone),
        cmocka_unit_test(passed_socket_is_served),
        cmocka_unit_test(passed_descriptors_are_checked),
    };
    return cmocka_run_group_tests_name("server_unix", tests, NULL, NULL);
}
