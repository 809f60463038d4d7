/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/fdsock.h"

#define UNTOUCHED 12345u
#define MANY_FDS  40

static void pair_open(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static void pair_close(int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

/* What a peer sends that does not use our code: any number of descriptors. */
static void raw_send(int sock, const void *data, size_t size, int fd, size_t n_fds)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int) * MANY_FDS)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(size_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds) {
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        for (size_t i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
    }
    assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), size);
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

static void data_and_descriptors_arrive_together(void **state)
{
    (void)state;
    int pair[2], sent[APIR_FDSOCK_FDS_MAX], got[APIR_FDSOCK_FDS_MAX];
    pair_open(pair);
    for (size_t n = 0; n <= APIR_FDSOCK_FDS_MAX; n++) {
        for (size_t i = 0; i < n; i++)
            assert_true((sent[i] = eventfd((unsigned)(100 + i), 0)) >= 0);
        assert_int_equal(apir_fdsock_send(pair[0], "message", 7, sent, n), 0);
        char data[16];
        size_t size = 0, n_fds = UNTOUCHED;
        assert_int_equal(apir_fdsock_recv(pair[1], data, sizeof(data), &size, got, n, &n_fds, 0),
                         0);
        assert_int_equal(size, 7);
        assert_memory_equal(data, "message", 7);
        assert_int_equal(n_fds, n);
        for (size_t i = 0; i < n; i++) {
            uint64_t value = 0;
            assert_int_equal(read(got[i], &value, sizeof(value)), sizeof(value));
            assert_int_equal(value, 100 + i); /* in order */
            assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
            close(got[i]);
            close(sent[i]);
        }
    }
    pair_close(pair);
}

static void a_message_of_exactly_the_room_is_whole(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    char data[32], out[32];
    memset(out, 'z', sizeof(out));
    assert_int_equal(apir_fdsock_send(pair[0], out, sizeof(out), NULL, 0), 0);
    size_t size = 0;
    assert_int_equal(apir_fdsock_recv(pair[1], data, sizeof(data), &size, NULL, 0, NULL, 0), 0);
    assert_int_equal(size, sizeof(data));
    assert_memory_equal(data, out, sizeof(out));
    pair_close(pair);
}

static void truncated_data_is_an_error_and_its_descriptors_are_closed(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    raw_send(pair[0], "0123456789", 10, pair[0], 0);
    expect_refused(pair[1], 9, APIR_FDSOCK_FDS_MAX);
    raw_send(pair[0], "0123456789", 10, pair[0], 3);
    expect_refused(pair[1], 9, APIR_FDSOCK_FDS_MAX);
    pair_close(pair);
}

static void more_descriptors_than_the_caller_takes_are_closed(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    for (size_t sent = 1; sent <= APIR_FDSOCK_FDS_MAX; sent++) {
        for (size_t max = 0; max < sent; max++) {
            raw_send(pair[0], "x", 1, pair[0], sent);
            expect_refused(pair[1], 8, max);
        }
    }
    pair_close(pair);
}

static void more_descriptors_than_anybody_takes_are_closed(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    for (size_t sent = APIR_FDSOCK_FDS_MAX + 1; sent <= MANY_FDS; sent++) {
        raw_send(pair[0], "x", 1, pair[0], sent);
        expect_refused(pair[1], 8, APIR_FDSOCK_FDS_MAX);
    }
    pair_close(pair);
}

/* Size 0 means that the peer is gone: a caller then looks at no descriptor. */
static void descriptors_on_an_empty_message_are_closed(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    raw_send(pair[0], "", 0, pair[0], 2);
    expect_refused(pair[1], 8, APIR_FDSOCK_FDS_MAX);
    pair_close(pair);
}

static void the_socket_is_usable_after_a_refused_message(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    raw_send(pair[0], "0123456789", 10, pair[0], 2);
    raw_send(pair[0], "next", 4, pair[0], 0);
    expect_refused(pair[1], 4, 1);
    char data[4];
    size_t size = 0, n_fds = UNTOUCHED;
    int fd = -1;
    assert_int_equal(apir_fdsock_recv(pair[1], data, sizeof(data), &size, &fd, 1, &n_fds, 0), 0);
    assert_int_equal(size, 4);
    assert_int_equal(n_fds, 0);
    assert_memory_equal(data, "next", 4);
    pair_close(pair);
}

static void a_closed_peer_reads_as_size_zero_and_fails_sends(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    close(pair[0]);
    char data[4];
    size_t size = UNTOUCHED, n_fds = UNTOUCHED;
    int fds[1];
    assert_int_equal(apir_fdsock_recv(pair[1], data, sizeof(data), &size, fds, 1, &n_fds, 0), 0);
    assert_int_equal(size, 0);
    assert_int_equal(n_fds, 0);
    assert_int_equal(apir_fdsock_send(pair[1], "x", 1, NULL, 0), -EPIPE);
    close(pair[1]);
}

/* Streams, unlike packets, raise SIGPIPE where they may. */
static void a_closed_stream_raises_no_signal(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    close(pair[0]);
    signal(SIGPIPE, SIG_DFL); /* whoever started us may have ignored it */
    assert_int_equal(apir_fdsock_send(pair[1], "x", 1, NULL, 0), -EPIPE);
    close(pair[1]);
}

static void what_was_sent_before_the_close_still_arrives(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    assert_int_equal(apir_fdsock_send(pair[0], "last", 4, &pair[0], 1), 0);
    close(pair[0]);
    char data[4];
    size_t size = 0, n_fds = 0;
    int fd = -1;
    assert_int_equal(apir_fdsock_recv(pair[1], data, sizeof(data), &size, &fd, 1, &n_fds, 0), 0);
    assert_int_equal(size, 4);
    assert_int_equal(n_fds, 1);
    close(fd);
    close(pair[1]);
}

static void nothing_to_read_is_eagain_where_asked(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    char data[4];
    size_t size = UNTOUCHED;
    assert_int_equal(
        apir_fdsock_recv(pair[1], data, sizeof(data), &size, NULL, 0, NULL, MSG_DONTWAIT), -EAGAIN);
    assert_int_equal(size, UNTOUCHED);
    pair_close(pair);
}

static void too_many_descriptors_are_not_sent(void **state)
{
    (void)state;
    int pair[2], fds[APIR_FDSOCK_FDS_MAX + 1];
    pair_open(pair);
    for (size_t i = 0; i < APIR_FDSOCK_FDS_MAX + 1; i++)
        fds[i] = pair[0];
    assert_int_equal(apir_fdsock_send(pair[0], "x", 1, fds, APIR_FDSOCK_FDS_MAX + 1), -EINVAL);
    assert_int_equal(apir_fdsock_send(pair[0], "x", 1, fds, SIZE_MAX), -EINVAL);
    char data[4];
    size_t size;
    assert_int_equal(
        apir_fdsock_recv(pair[1], data, sizeof(data), &size, NULL, 0, NULL, MSG_DONTWAIT), -EAGAIN);
    pair_close(pair);
}

static void errors_of_the_system_come_back(void **state)
{
    (void)state;
    int pair[2], bad = -1;
    pair_open(pair);
    char data[4];
    size_t size;
    assert_int_equal(apir_fdsock_send(pair[0], "x", 1, &bad, 1), -EBADF);
    assert_int_equal(apir_fdsock_send(-1, "x", 1, NULL, 0), -EBADF);
    assert_int_equal(apir_fdsock_recv(-1, data, sizeof(data), &size, NULL, 0, NULL, 0), -EBADF);
    pair_close(pair);
}

static void a_full_socket_is_eagain_and_loses_nothing(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    static char block[4096];
    unsigned sent = 0, got = 0;
    int err;
    while ((err = apir_fdsock_send(pair[0], block, sizeof(block), NULL, 0)) == 0)
        sent++;
    assert_int_equal(err, -EAGAIN);
    static char data[sizeof(block)];
    size_t size;
    while (apir_fdsock_recv(pair[1], data, sizeof(data), &size, NULL, 0, NULL, MSG_DONTWAIT) == 0) {
        assert_int_equal(size, sizeof(block));
        got++;
    }
    assert_int_equal(got, sent);
    pair_close(pair);
}

static volatile sig_atomic_t interrupt_sock;

static void on_alarm(int sig)
{
    (void)sig;
    ssize_t ignored = send(interrupt_sock, "late", 4, MSG_NOSIGNAL);
    (void)ignored;
}

/* The message comes from the very handler that interrupts the wait for it. */
static void a_signal_does_not_end_the_wait(void **state)
{
    (void)state;
    int pair[2];
    pair_open(pair);
    interrupt_sock = pair[0];
    struct sigaction act = {.sa_handler = on_alarm}, old; /* without SA_RESTART */
    assert_int_equal(sigaction(SIGALRM, &act, &old), 0);
    struct itimerval timer = {.it_value = {.tv_usec = 20000}};
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    char data[8];
    size_t size = 0;
    int err = apir_fdsock_recv(pair[1], data, sizeof(data), &size, NULL, 0, NULL, 0);
    sigaction(SIGALRM, &old, NULL);
    assert_int_equal(err, 0);
    assert_int_equal(size, 4);
    pair_close(pair);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        UNIT(data_and_descriptors_arrive_together),
        UNIT(a_message_of_exactly_the_room_is_whole),
        UNIT(truncated_data_is_an_error_and_its_descriptors_are_closed),
        UNIT(more_descriptors_than_the_caller_takes_are_closed),
        UNIT(more_descriptors_than_anybody_takes_are_closed),
        UNIT(descriptors_on_an_empty_message_are_closed),
        UNIT(the_socket_is_usable_after_a_refused_message),
        UNIT(a_closed_peer_reads_as_size_zero_and_fails_sends),
        UNIT(a_closed_stream_raises_no_signal),
        UNIT(what_was_sent_before_the_close_still_arrives),
        UNIT(nothing_to_read_is_eagain_where_asked),
        UNIT(too_many_descriptors_are_not_sent),
        UNIT(errors_of_the_system_come_back),
        UNIT(a_full_socket_is_eagain_and_loses_nothing),
        UNIT(a_signal_does_not_end_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
