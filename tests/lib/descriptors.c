/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/descriptors.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

ssize_t descriptors_send(int sock, const void *data, size_t size, const int *fds, size_t n)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n > DESCRIPTORS_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (n) {
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
    }
    return sendmsg(sock, &msg, MSG_NOSIGNAL);
}
