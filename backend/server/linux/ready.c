/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/ready.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>

_Static_assert(SERVER_LOOP_IN == EPOLLIN && SERVER_LOOP_OUT == EPOLLOUT &&
                   SERVER_LOOP_ERR == EPOLLERR && SERVER_LOOP_HUP == EPOLLHUP,
               "handed on as they are");

int server_ready_open(void)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int server_ready_add(int set, struct server_source *source, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.ptr = source}};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void server_ready_change(int set, struct server_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.ptr = source}};
    /* Cannot fail on a registered fd: it allocates nothing. */
    (void)epoll_ctl(set, EPOLL_CTL_MOD, source->fd, &event);
}

void server_ready_remove(int set, const struct server_source *source)
{
    (void)epoll_ctl(set, EPOLL_CTL_DEL, source->fd, NULL);
}

int server_ready_wait(int set, int timeout_ms, struct server_source **ret_source,
                      uint32_t *ret_events)
{
    struct epoll_event event;
    int n = epoll_wait(set, &event, 1, timeout_ms);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (n == 1) {
        *ret_source = event.data.ptr;
        *ret_events = event.events;
    }
    return n;
}
