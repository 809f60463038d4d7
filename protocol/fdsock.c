/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "protocol/fdsock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union fd_control {
    struct cmsghdr align;
    char buf[CMSG_SPACE(sizeof(int) * APIR_FDSOCK_FDS_MAX)];
};

int apir_fdsock_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    if (n_fds > APIR_FDSOCK_FDS_MAX)
        return -EINVAL;
    /* sendmsg does not write through iov_base; the interface lacks the const. */
    struct iovec iov = { .iov_base = (void *)(size_t)data, .iov_len = size };
    union fd_control control = { 0 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
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
        ssize_t n = sendmsg(sock, &msg, MSG_NOSIGNAL);
        if (n >= 0)
            return (size_t)n == size ? 0 : -EMSGSIZE;
        if (errno != EINTR)
            return -errno;
    }
}

int apir_fdsock_recv(int sock, void *data, size_t cap, size_t *ret_size, int *fds, size_t max_fds,
                     size_t *ret_n_fds, int flags)
{
    struct iovec iov = { .iov_base = data, .iov_len = cap };
    union fd_control control = { 0 };
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.buf,
        .msg_controllen = sizeof(control.buf),
    };
    ssize_t n;
    do {
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;

    int got[APIR_FDSOCK_FDS_MAX];
    size_t n_got = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        /* control.buf has room for FDS_MAX in all, so this cannot overflow. */
        for (size_t i = 0; i < count && n_got < APIR_FDSOCK_FDS_MAX; i++, n_got++)
            memcpy(&got[n_got], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
    /* Size 0 reads as a closed peer, and nobody would look for descriptors there. */
    if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || n_got > max_fds || (n == 0 && n_got)) {
        for (size_t i = 0; i < n_got; i++)
            close(got[i]);
        return -EBADMSG;
    }
    if (n_got)
        memcpy(fds, got, n_got * sizeof(int));
    *ret_size = (size_t)n;
    if (ret_n_fds)
        *ret_n_fds = n_got;
    return 0;
}
