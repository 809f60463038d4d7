/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a VMM's socket, of either kind, in whatever pieces they come. (Lengths that no
 * message has, and too many descriptors: the attacks socket-stream-*.) */
#include "tests/lib/unit.h"
#include "tests/lib/descriptors.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "backend/server/vmm/framing.h"

#define CAP sizeof(union render_context_request)

static int pair[2]; /* 0: the VMM's end; 1: ours; -1 where a test has closed it */
static struct server_framing framing;
static const int any = STDERR_FILENO; /* what is sent along: never an end of the pair, which would
                                       * keep itself open */

static int set_up(void **state, int type)
{
    return unit_setup(state) || socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) ||
           server_framing_init(&framing, pair[1]);
}

static int set_up_packets(void **state)
{
    return set_up(state, SOCK_SEQPACKET);
}

static int set_up_stream(void **state)
{
    return set_up(state, SOCK_STREAM);
}

static void end_close(int i)
{
    if (pair[i] >= 0)
        close(pair[i]);
    pair[i] = -1;
}

static int tear_down(void **state)
{
    server_framing_fini(&framing);
    end_close(0);
    end_close(1);
    return unit_teardown(state);
}

#define PACKET_TEST(name) TEST_WITHIN(name, set_up_packets, tear_down)
#define STREAM_TEST(name) TEST_WITHIN(name, set_up_stream, tear_down)

/* ---- what a socket takes only a part of ------------------------------------------- */

static size_t takes; /* in one call; 0: all */

ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    return __real_send(fd, data, takes && size > takes ? takes : size, flags);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct iovec iov = *msg->msg_iov;
    struct msghdr part = *msg;
    part.msg_iov = &iov;
    if (takes && iov.iov_len > takes)
        iov.iov_len = takes;
    return __real_sendmsg(fd, &part, flags);
}

/* ---- the VMM ---------------------------------------------------------------------- */

static void put(const void *data, size_t size, size_t n_fds)
{
    int fds[DESCRIPTORS_MAX] = {0};
    for (size_t i = 0; i < n_fds; i++)
        fds[i] = any;
    assert_int_equal(descriptors_send(pair[0], data, size, fds, n_fds), size);
}

/* A message of a stream, whole: returns its size there. bytes: of any length. */
static size_t framed(uint8_t *to, uint32_t length, const void *bytes, size_t size)
{
    const uint32_t wire = htonl(length);
    memcpy(to, &wire, sizeof(wire));
    memcpy(to + sizeof(wire), bytes, size);
    return sizeof(wire) + size;
}

/* ---- and what we receive of it ---------------------------------------------------- */

static struct {
    uint8_t data[CAP];
    size_t size, n_fds;
} got;

static int receive_at_most(size_t cap, size_t max_fds)
{
    int fds[APIR_FDSOCK_FDS_MAX];
    memset(&got, 0x5a, sizeof(got));
    int rc =
        server_framing_recv(&framing, pair[1], got.data, cap, &got.size, fds, max_fds, &got.n_fds);
    for (size_t i = 0; i < got.n_fds; i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
    return rc;
}

static int receive(void)
{
    return receive_at_most(CAP, APIR_FDSOCK_FDS_MAX);
}

static void expect(const void *data, size_t size, size_t n_fds)
{
    assert_int_equal(receive(), 0);
    assert_int_equal(got.size, size);
    assert_int_equal(got.n_fds, n_fds);
    assert_memory_equal(got.data, data, size);
}

static void expect_bad(size_t size)
{
    assert_int_equal(receive(), -EBADMSG);
    assert_int_equal(got.size, size);
    assert_int_equal(got.n_fds, 0);
}

/* The stream goes on with the next message, as if nothing had been. */
static void expect_next(void)
{
    uint8_t bytes[16];
    put(bytes, framed(bytes, 4, "next", 4), 1);
    expect("next", 4, 1);
    assert_int_equal(receive(), -EAGAIN);
}

static void expect_end(void)
{
    end_close(0);
    assert_int_equal(receive(), 0);
    assert_int_equal(got.size, 0);
}

/* ---- packets ---------------------------------------------------------------------- */

PACKET_TEST(packet_too_long_is_known_by_its_true_size)
{
    uint8_t long_one[CAP + 100];
    memset(long_one, 7, sizeof(long_one));
    put(long_one, sizeof(long_one), 0);
    put("next", 4, 0);
    expect_bad(sizeof(long_one));
    assert_memory_equal(got.data, long_one, CAP);
    expect("next", 4, 0);
}

/* ---- streams: honest ones --------------------------------------------------------- */

#define BODY "sixteen bytes it"

STREAM_TEST(stream_cut_in_two_at_every_byte)
{
    uint8_t bytes[64];
    const size_t all = framed(bytes, 16, BODY, 16);
    for (size_t at = 1; at < all; at++) {
        put(bytes, at, 2);
        assert_int_equal(receive(), -EAGAIN);
        assert_int_equal(receive(), -EAGAIN);
        put(bytes + at, all - at, 0);
        expect(BODY, 16, 2);
    }
    expect_end();
}

/* As virglrenderer sends it: the length with the descriptors, then the message. */
STREAM_TEST(stream_with_messages_on_end)
{
    uint8_t bytes[2048];
    size_t n = 0;
    for (int i = 0; i < 20; i++)
        n += framed(bytes + n, 16, BODY, 16);
    put(bytes, n, 0);
    n = framed(bytes, 16, BODY, 16);
    put(bytes, SERVER_LENGTH_SIZE, 8);
    put(bytes + SERVER_LENGTH_SIZE, n - SERVER_LENGTH_SIZE, 0);
    put(bytes, n, 0);
    for (int i = 0; i < 20; i++)
        expect(BODY, 16, 0);
    expect(BODY, 16, 8);
    expect(BODY, 16, 0);
    assert_int_equal(receive(), -EAGAIN);
}

STREAM_TEST(stream_with_the_largest_message)
{
    uint8_t body[CAP], bytes[CAP + SERVER_LENGTH_SIZE];
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (uint8_t)i;
    put(bytes, framed(bytes, CAP, body, CAP), 0);
    expect(body, CAP, 0);
    expect_next();
}

/* ---- streams: others -------------------------------------------------------------- */

/* One call does not read without end. */
STREAM_TEST(stream_with_the_longest_length)
{
    static uint8_t body[100000], bytes[100004];
    int left = 0;
    put(bytes, framed(bytes, UINT32_MAX, body, sizeof(body)), 0);
    assert_int_equal(receive(), -EAGAIN);
    assert_int_equal(ioctl(pair[1], FIONREAD, &left), 0);
    assert_true(left > 0);
}

/* ---- replies ---------------------------------------------------------------------- */

static struct server_peer peer;

static void ready(void *user, uint32_t events)
{
    assert_int_equal(server_peer_flush(user, events), 1);
}

/* What the VMM reads: of `size` bytes, with a descriptor or without, at most `most` at once. */
static void expect_reply(struct server_loop *loop, size_t most, const uint8_t *bytes, size_t size,
                         size_t n_fds)
{
    uint8_t back[SERVER_REPLY_MAX];
    size_t n_got = 0;
    for (size_t at = 0; at < size;) {
        int fds[APIR_FDSOCK_FDS_ALL];
        size_t n = 0, n_here = 0;
        int rc = apir_fdsock_recv_strange(pair[0], back + at, sizeof(back) - at, &n, fds, &n_here,
                                          MSG_DONTWAIT);
        if (rc == -EAGAIN) {
            assert_int_equal(server_loop_turn(loop, 1000), 1);
            continue;
        }
        assert_int_equal(rc, 0);
        assert_true(n > 0 && (most == 0 || n <= most));
        assert_int_equal(n_here, at == 0 ? n_fds : 0);
        if (n_here)
            close(fds[0]);
        at += n;
        n_got += n_here;
    }
    assert_memory_equal(back, bytes, size);
    assert_int_equal(n_got, n_fds);
    assert_int_equal(server_loop_turn(loop, 0), 0);
    assert_true(server_peer_can_read(&peer));
}

static void replies(size_t most, bool stream)
{
    struct server_loop loop;
    uint8_t bytes[64];
    const size_t all = framed(bytes, 16, BODY, 16);
    const size_t skip = stream ? 0 : SERVER_LENGTH_SIZE;
    assert_int_equal(server_loop_init(&loop), 0);
    assert_int_equal(server_peer_init(&peer, &loop, pair[1], ready, &peer), 0);
    takes = most;
    for (size_t n_fds = 0; n_fds < 2; n_fds++) {
        int fd = n_fds ? dup(any) : -1;
        assert_int_equal(server_framing_reply(&framing, &peer, BODY, 16, fd), 0);
        expect_reply(&loop, most, bytes + skip, all - skip, n_fds);
    }
    takes = 0;
    server_peer_fini(&peer);
    pair[1] = -1;
    server_loop_fini(&loop);
}

PACKET_TEST(reply_in_a_packet)
{
    replies(0, false);
}

STREAM_TEST(reply_in_a_stream)
{
    replies(0, true);
}

STREAM_TEST(reply_in_a_stream_a_part_at_a_time)
{
    for (size_t most = 1; most < 20; most += 3) {
        replies(most, true);
        end_close(0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    }
}

/* The end of the VMM while a part of a reply waits. */
STREAM_TEST(reply_that_nobody_takes_any_more)
{
    struct server_loop loop;
    assert_int_equal(server_loop_init(&loop), 0);
    assert_int_equal(server_peer_init(&peer, &loop, pair[1], ready, &peer), 0);
    takes = 3;
    assert_int_equal(server_framing_reply(&framing, &peer, BODY, 16, dup(any)), 0);
    assert_false(server_peer_can_read(&peer));
    end_close(0);
    assert_int_equal(server_peer_flush(&peer, EPOLLOUT), 1);
    assert_true(server_peer_can_read(&peer)); /* and reads the end */
    takes = 0;
    server_peer_fini(&peer);
    pair[1] = -1;
    server_loop_fini(&loop);
}

/* ---- which sockets ---------------------------------------------------------------- */

TEST(other_sockets_are_refused)
{
    struct server_framing f;
    int other[2], fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(server_framing_init(&f, fd), -EPROTOTYPE);
    close(fd);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, other), 0);
    assert_int_equal(server_framing_init(&f, other[0]), -EPROTOTYPE);
    close(other[0]);
    close(other[1]);
    assert_int_equal(pipe2(other, O_CLOEXEC), 0);
    assert_int_equal(server_framing_init(&f, other[0]), -EPROTOTYPE);
    close(other[0]);
    close(other[1]);
    assert_int_equal(server_framing_init(&f, -1), -EPROTOTYPE);
}
