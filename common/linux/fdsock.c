/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fdsock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/cleanup.h"

/* Linux 6.16; the headers may be older. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

union fd_control {
    struct cmsghdr align;
    char buf[CMSG_SPACE(sizeof(int) * APIR_FDSOCK_FDS_MAX)];
};

ssize_t apir_fdsock_send_some(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    if (n_fds > APIR_FDSOCK_FDS_MAX)
        return -EINVAL;
    /* sendmsg does not write through iov_base; the interface lacks the const. */
    struct iovec iov = {.iov_base = (void *)(size_t)data, .iov_len = size};
    union fd_control control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds) {
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
    }
    for (;;) {
        /* Without descriptors by a call that has none: a worker's sandbox allows no other. */
        ssize_t n =
            n_fds ? sendmsg(sock, &msg, MSG_NOSIGNAL) : send(sock, data, size, MSG_NOSIGNAL);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return -errno;
    }
}

int apir_fdsock_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    ssize_t n = apir_fdsock_send_some(sock, data, size, fds, n_fds);
    if (n < 0)
        return (int)n;
    return (size_t)n == size ? 0 : -EMSGSIZE;
}

bool apir_fdsock_refuse(int sock)
{
    const int no = 0;
    return setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no)) == 0;
}

int apir_fdsock_open(int type)
{
    return socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int apir_fdsock_accept(int sock)
{
    return accept4(sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

int apir_fdsock_pair(bool stream, int *ret_ours, int *ret_theirs)
{
    int fds[2];
    if (socketpair(AF_UNIX, (stream ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0, fds) < 0)
        return -errno;
    cleanup_fd int ours = fds[0];
    cleanup_fd int theirs = fds[1];
    const int flags = fcntl(ours, F_GETFL);
    if (flags < 0 || fcntl(ours, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    *ret_ours = steal_fd(&ours);
    *ret_theirs = steal_fd(&theirs);
    return 0;
}

int apir_fdsock_recv_strange(int sock, void *data, size_t cap, size_t *ret_size, int *fds,
                             size_t *ret_n_fds, int flags)
{
    struct iovec iov = {.iov_base = data, .iov_len = cap};
    /* With room for less the kernel would close the rest, and we would wait for it. */
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int) * APIR_FDSOCK_FDS_ALL)];
    } control;
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.buf,
        .msg_controllen = sizeof(control.buf),
    };
    ssize_t n;
    *ret_n_fds = 0;
    do {
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;

    size_t n_got = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        /* control.buf has room for FDS_ALL in all, so this cannot overflow. */
        for (size_t i = 0; i < count && n_got < APIR_FDSOCK_FDS_ALL; i++, n_got++)
            memcpy(&fds[n_got], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
    *ret_n_fds = n_got;
    *ret_size = (size_t)n;
    /* Size 0 reads as a closed peer, and nobody would look for descriptors there. */
    return (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (n == 0 && n_got) ? -EBADMSG : 0;
}

int apir_fdsock_recv(int sock, void *data, size_t cap, size_t *ret_size, int *fds, size_t max_fds,
                     size_t *ret_n_fds, int flags)
{
    int got[APIR_FDSOCK_FDS_ALL];
    size_t n_got, size;
    int rc = apir_fdsock_recv_strange(sock, data, cap, &size, got, &n_got, flags);
    if (rc == 0 && n_got > max_fds)
        rc = -EBADMSG;
    if (rc < 0) {
        for (size_t i = 0; i < n_got; i++)
            close(got[i]);
        return rc;
    }
    if (n_got)
        memcpy(fds, got, n_got * sizeof(int));
    *ret_size = size;
    if (ret_n_fds)
        *ret_n_fds = n_got;
    return 0;
}
