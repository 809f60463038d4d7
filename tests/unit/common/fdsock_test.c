/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"
#include "tests/lib/descriptors.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "common/fdsock.h"

#define UNTOUCHED 12345u
#define MANY_FDS  40

static int pair[2];

static int pair_open(void **state)
{
    if (unit_setup(state) || apir_fdsock_pair(false, &pair[0], &pair[1]))
        return -1;
    return fcntl(pair[0], F_SETFL, fcntl(pair[0], F_GETFL) & ~O_NONBLOCK); /* both wait */
}

/* One that its test has closed is -1. */
static int pair_close(void **state)
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
    }
    return unit_teardown(state);
}

static void end_close(int i)
{
    close(pair[i]);
    pair[i] = -1;
}

#define PAIR_TEST(name) TEST_WITHIN(name, pair_open, pair_close)

/* What a test receives with: at most one descriptor. */
static struct {
    char data[64];
    size_t size, n_fds;
    int fd;
} got;

static int receive(int sock, size_t cap, int flags)
{
    got.size = got.n_fds = UNTOUCHED;
    got.fd = -1;
    return apir_fdsock_recv(sock, got.data, cap, &got.size, &got.fd, 1, &got.n_fds, flags);
}

/* What there is room for is this message, without a descriptor. */
static void expect_message(int sock, size_t cap, const char *text)
{
    assert_int_equal(receive(sock, cap, 0), 0);
    assert_int_equal(got.size, strlen(text));
    assert_int_equal(got.n_fds, 0);
    assert_memory_equal(got.data, text, strlen(text));
}

/* What of a message goes over the pair: with a length before it where that is a stream. */
static size_t message_make(char *message, const void *data, size_t size)
{
    const uint32_t length = htonl((uint32_t)size);
    int type = 0;
    socklen_t type_size = sizeof(type);
    assert_int_equal(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &type, &type_size), 0);
    const size_t before = type == SOCK_STREAM ? sizeof(length) : 0;
    memcpy(message, &length, before);
    memcpy(message + before, data, size);
    return before + size;
}

/* `fd`, any number of times. */
static void raw_send(int sock, const void *data, size_t size, int fd, size_t n_fds)
{
    int fds[DESCRIPTORS_MAX] = {0};
    for (size_t i = 0; i < n_fds; i++)
        fds[i] = fd;
    char message[64];
    const size_t all = message_make(message, data, size);
    assert_int_equal(descriptors_send(sock, message, all, fds, n_fds), all);
}

/* Receives into room for cap bytes and max_fds descriptors; must be refused whole. */
static void expect_refused(int sock, size_t cap, size_t max_fds)
{
    int before = fds_count(0);
    char data[64];
    int fds[APIR_FDSOCK_FDS_MAX];
    memset(fds, 0x5a, sizeof(fds));
    size_t size = UNTOUCHED, n_fds = UNTOUCHED;
    assert_int_equal(apir_fdsock_recv(sock, data, cap, &size, fds, max_fds, &n_fds, MSG_DONTWAIT),
                     -EBADMSG);
    assert_int_equal(size, UNTOUCHED);
    assert_int_equal(n_fds, UNTOUCHED);
    for (size_t i = 0; i < APIR_FDSOCK_FDS_MAX; i++)
        assert_int_equal(fds[i], 0x5a5a5a5a);
    assert_int_equal(fds_count(0), before);
}

PAIR_TEST(data_and_descriptors_arrive_together)
{
    int sent[APIR_FDSOCK_FDS_MAX], fds[APIR_FDSOCK_FDS_MAX];
    for (size_t n = 0; n <= APIR_FDSOCK_FDS_MAX; n++) {
        for (size_t i = 0; i < n; i++)
            assert_true((sent[i] = eventfd((unsigned)(100 + i), 0)) >= 0);
        assert_int_equal(apir_fdsock_send(pair[0], "message", 7, sent, n), 0);
        char data[16];
        size_t size = 0, n_fds = UNTOUCHED;
        assert_int_equal(apir_fdsock_recv(pair[1], data, sizeof(data), &size, fds, n, &n_fds, 0),
                         0);
        assert_int_equal(size, 7);
        assert_memory_equal(data, "message", 7);
        assert_int_equal(n_fds, n);
        for (size_t i = 0; i < n; i++) {
            uint64_t value = 0;
            assert_int_equal(read(fds[i], &value, sizeof(value)), sizeof(value));
            assert_int_equal(value, 100 + i); /* in order */
            assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
            close(fds[i]);
            close(sent[i]);
        }
    }
}

PAIR_TEST(truncated_data_is_an_error_and_its_descriptors_are_closed)
{
    raw_send(pair[0], "0123456789", 10, pair[0], 0);
    expect_refused(pair[1], 9, APIR_FDSOCK_FDS_MAX);
    raw_send(pair[0], "0123456789", 10, pair[0], 3);
    expect_refused(pair[1], 9, APIR_FDSOCK_FDS_MAX);
}

PAIR_TEST(more_descriptors_than_the_caller_takes_are_closed)
{
    for (size_t sent = 1; sent <= APIR_FDSOCK_FDS_MAX; sent++) {
        for (size_t max = 0; max < sent; max++) {
            raw_send(pair[0], "x", 1, pair[0], sent);
            expect_refused(pair[1], 8, max);
        }
    }
}

PAIR_TEST(more_descriptors_than_anybody_takes_are_closed)
{
    for (size_t sent = APIR_FDSOCK_FDS_MAX + 1; sent <= MANY_FDS; sent++) {
        raw_send(pair[0], "x", 1, pair[0], sent);
        expect_refused(pair[1], 8, APIR_FDSOCK_FDS_MAX);
    }
}

/* Size 0 means that the peer is gone: a caller then looks at no descriptor. */
PAIR_TEST(descriptors_on_an_empty_message_are_closed)
{
    raw_send(pair[0], "", 0, pair[0], 2);
    expect_refused(pair[1], 8, APIR_FDSOCK_FDS_MAX);
}

PAIR_TEST(the_socket_is_usable_after_a_refused_message)
{
    raw_send(pair[0], "0123456789", 10, pair[0], 2);
    raw_send(pair[0], "next", 4, pair[0], 0);
    expect_refused(pair[1], 4, 1);
    expect_message(pair[1], 4, "next");
}

PAIR_TEST(a_closed_peer_reads_as_size_zero_and_fails_sends)
{
    end_close(0);
    expect_message(pair[1], 4, "");
    assert_int_equal(apir_fdsock_send(pair[1], "x", 1, NULL, 0), -EPIPE);
}

/* Streams, unlike packets, raise SIGPIPE where they may. */
TEST(a_closed_stream_raises_no_signal)
{
    int stream[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
    close(stream[0]);
    signal(SIGPIPE, SIG_DFL); /* whoever started us may have ignored it */
    assert_int_equal(apir_fdsock_send(stream[1], "x", 1, NULL, 0), -EPIPE);
    close(stream[1]);
}

PAIR_TEST(what_was_sent_before_the_close_still_arrives)
{
    assert_int_equal(apir_fdsock_send(pair[0], "last", 4, &pair[0], 1), 0);
    end_close(0);
    assert_int_equal(receive(pair[1], 4, 0), 0);
    assert_int_equal(got.size, 4);
    assert_int_equal(got.n_fds, 1);
    close(got.fd);
}

PAIR_TEST(nothing_to_read_is_eagain_where_asked)
{
    assert_int_equal(receive(pair[1], 4, MSG_DONTWAIT), -EAGAIN);
    assert_int_equal(got.size, UNTOUCHED);
}

PAIR_TEST(too_many_descriptors_are_not_sent)
{
    int fds[APIR_FDSOCK_FDS_MAX + 1];
    for (size_t i = 0; i < APIR_FDSOCK_FDS_MAX + 1; i++)
        fds[i] = pair[0];
    assert_int_equal(apir_fdsock_send(pair[0], "x", 1, fds, APIR_FDSOCK_FDS_MAX + 1), -EINVAL);
    assert_int_equal(apir_fdsock_send(pair[0], "x", 1, fds, SIZE_MAX), -EINVAL);
    assert_int_equal(receive(pair[1], 4, MSG_DONTWAIT), -EAGAIN);
}

PAIR_TEST(errors_of_the_system_come_back)
{
    int bad = -1;
    assert_int_equal(apir_fdsock_send(pair[0], "x", 1, &bad, 1), -EBADF);
    assert_int_equal(apir_fdsock_send(-1, "x", 1, NULL, 0), -EBADF);
    assert_int_equal(receive(-1, 4, 0), -EBADF);
}

PAIR_TEST(a_full_socket_is_eagain_and_loses_nothing)
{
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    static char block[4096];
    unsigned sent = 0, taken = 0;
    int rc;
    while ((rc = apir_fdsock_send(pair[0], block, sizeof(block), NULL, 0)) == 0)
        sent++;
    assert_int_equal(rc, -EAGAIN);
    static char data[sizeof(block)];
    size_t size;
    while (apir_fdsock_recv(pair[1], data, sizeof(data), &size, NULL, 0, NULL, MSG_DONTWAIT) == 0) {
        assert_int_equal(size, sizeof(block));
        taken++;
    }
    assert_int_equal(taken, sent);
}

static volatile sig_atomic_t interrupt_sock;

static void on_alarm(int sig)
{
    (void)sig;
    (void)apir_fdsock_send(interrupt_sock, "late", 4, NULL, 0);
}

/* The message comes from the very handler that interrupts the wait for it. */
PAIR_TEST(a_signal_does_not_end_the_wait)
{
    interrupt_sock = pair[0];
    struct sigaction act = {.sa_handler = on_alarm}, old; /* without SA_RESTART */
    assert_int_equal(sigaction(SIGALRM, &act, &old), 0);
    struct itimerval timer = {.it_value = {.tv_usec = 20000}};
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    int rc = receive(pair[1], 8, 0);
    sigaction(SIGALRM, &old, NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(got.size, 4);
}
