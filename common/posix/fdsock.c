/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without SOCK_SEQPACKET and what Linux has for close-on-exec: descriptors get it after they have
 * come. Who forks to run a program has one thread that receives any.
 */
#include "common/fdsock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/cleanup.h"

union fd_control {
    struct cmsghdr align;
    char buf[CMSG_SPACE(sizeof(int) * APIR_FDSOCK_FDS_ALL)];
};

/* iov: two, of which one may be empty. */
static ssize_t send_all(int sock, struct iovec iov[2], const int *fds, size_t n_fds)
{
    if (n_fds > APIR_FDSOCK_FDS_MAX)
        return -EINVAL;
    union fd_control control = {0};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    if (n_fds) {
        msg.msg_control = control.buf;
        msg.msg_controllen = (socklen_t)CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = (socklen_t)CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
    }
    ssize_t n;
    do {
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* All descriptors that have come are the caller's, whatever is returned. */
static ssize_t receive(int sock, struct iovec iov[2], int *fds, size_t *ret_n_fds, int flags)
{
    union fd_control control;
    struct msghdr msg = {
        .msg_iov = iov,
        .msg_iovlen = 2,
        .msg_control = control.buf,
        .msg_controllen = sizeof(control.buf),
    };
    ssize_t n;
    size_t n_got = 0;
    *ret_n_fds = 0;
    do {
        n = recvmsg(sock, &msg, flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && n_got < APIR_FDSOCK_FDS_ALL; i++, n_got++) {
            memcpy(&fds[n_got], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            (void)fcntl(fds[n_got], F_SETFD, FD_CLOEXEC);
        }
    }
    *ret_n_fds = n_got;
    return (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (n == 0 && n_got) ? -EBADMSG : n;
}

ssize_t apir_fdsock_send_some(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    /* sendmsg does not write through iov_base; the interface lacks the const. */
    struct iovec iov[2] = {{.iov_base = (void *)(size_t)data, .iov_len = size}};
    return send_all(sock, iov, fds, n_fds);
}

/* Both parts at once: of so few bytes a socket takes all or nothing. */
int apir_fdsock_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    uint32_t length = htonl((uint32_t)size);
    struct iovec iov[] = {{.iov_base = &length, .iov_len = sizeof(length)},
                          {.iov_base = (void *)(size_t)data, .iov_len = size}};
    ssize_t n = send_all(sock, iov, fds, n_fds);
    if (n < 0)
        return (int)n;
    return (size_t)n == sizeof(length) + size ? 0 : -EMSGSIZE;
}

int apir_fdsock_recv_strange(int sock, void *data, size_t cap, size_t *ret_size, int *fds,
                             size_t *ret_n_fds, int flags)
{
    struct iovec iov[2] = {{.iov_base = data, .iov_len = cap}};
    ssize_t n = receive(sock, iov, fds, ret_n_fds, flags);
    if (n >= 0)
        *ret_size = (size_t)n;
    return n < 0 ? (int)n : 0;
}

/*
 * Who sends by the function above sends whole messages: the length of one is never there without
 * the rest. One that is makes the peer a bad one, and is not waited for.
 */
int apir_fdsock_recv(int sock, void *data, size_t cap, size_t *ret_size, int *fds, size_t max_fds,
                     size_t *ret_n_fds, int flags)
{
    uint32_t length = 0;
    ssize_t n;
    do {
        n = recv(sock, &length, sizeof(length), MSG_PEEK | flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    const size_t size = ntohl(length);
    if (n > 0 && ((size_t)n < sizeof(length) || size == 0 || size > cap))
        return -EBADMSG;
    struct iovec iov[] = {{.iov_base = &length, .iov_len = sizeof(length)},
                          {.iov_base = data, .iov_len = size}};
    int got[APIR_FDSOCK_FDS_ALL];
    size_t n_got = 0;
    n = n == 0 ? 0 : receive(sock, iov, got, &n_got, flags);
    if (n > 0 && ((size_t)n != sizeof(length) + size || n_got > max_fds))
        n = -EBADMSG;
    if (n < 0) {
        for (size_t i = 0; i < n_got; i++)
            close(got[i]);
        return (int)n;
    }
    if (n_got)
        memcpy(fds, got, n_got * sizeof(int));
    *ret_size = size;
    if (ret_n_fds)
        *ret_n_fds = n_got;
    return 0;
}

bool apir_fdsock_refuse(int sock)
{
    (void)sock;
    return false;
}

static int settle(int fd, bool blocks)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) < 0) {
        apir_close_fd(&fd);
        return -1;
    }
    return fd;
}

int apir_fdsock_open(int type)
{
    if (type != SOCK_STREAM) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    const int fd = socket(AF_UNIX, type, 0);
    return fd < 0 ? fd : settle(fd, false);
}

int apir_fdsock_accept(int sock)
{
    const int fd = accept(sock, NULL, NULL);
    return fd < 0 ? fd : settle(fd, false);
}

int apir_fdsock_pair(bool stream, int *ret_ours, int *ret_theirs)
{
    int fds[2];
    (void)stream;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return -errno;
    cleanup_fd int ours = settle(fds[0], false);
    cleanup_fd int theirs = settle(fds[1], true);
    if (ours < 0 || theirs < 0)
        return -errno;
    *ret_ours = steal_fd(&ours);
    *ret_theirs = steal_fd(&theirs);
    return 0;
}
