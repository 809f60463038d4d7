/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/ready.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/event.h>
#include <sys/types.h>
#include <time.h>

#include "common/cleanup.h"

/*
 * The filter for reading is there whatever is asked for: the peer's end is always told. Where
 * nothing is to be read it reports each arrival once (EV_CLEAR), which is passed over.
 */
static int reading(int set, struct server_source *source, int fd, uint32_t events)
{
    struct kevent change;
    EV_SET(&change, (uintptr_t)fd, EVFILT_READ, EV_ADD | (events & SERVER_LOOP_IN ? 0 : EV_CLEAR),
           0, 0, source);
    return kevent(set, &change, 1, NULL, 0, NULL) < 0 ? -errno : 0;
}

static int writing(int set, struct server_source *source, int fd)
{
    struct kevent change;
    EV_SET(&change, (uintptr_t)fd, EVFILT_WRITE, EV_ADD, 0, 0, source);
    return kevent(set, &change, 1, NULL, 0, NULL) < 0 ? -errno : 0;
}

static void forget(int set, int fd, bool read)
{
    struct kevent change;
    EV_SET(&change, (uintptr_t)fd, read ? EVFILT_READ : EVFILT_WRITE, EV_DELETE, 0, 0, NULL);
    (void)kevent(set, &change, 1, NULL, 0, NULL);
}

int server_ready_open(void)
{
    cleanup_fd int fd = kqueue();
    if (fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    return steal_fd(&fd);
}

int server_ready_add(int set, struct server_source *source, int fd, uint32_t events)
{
    int rc = reading(set, source, fd, events);
    if (rc == 0 && (events & SERVER_LOOP_OUT)) {
        rc = writing(set, source, fd);
        if (rc < 0)
            forget(set, fd, true);
    }
    return rc;
}

void server_ready_change(int set, struct server_source *source, uint32_t events)
{
    const uint32_t changed = source->events ^ events;
    if (changed & SERVER_LOOP_IN) {
        forget(set, source->fd, true);
        (void)reading(set, source, source->fd, events);
    }
    if ((changed & SERVER_LOOP_OUT) && (events & SERVER_LOOP_OUT))
        (void)writing(set, source, source->fd);
    else if (changed & SERVER_LOOP_OUT)
        forget(set, source->fd, false);
}

void server_ready_remove(int set, const struct server_source *source)
{
    forget(set, source->fd, true);
    if (source->events & SERVER_LOOP_OUT)
        forget(set, source->fd, false);
}

int server_ready_wait(int set, int timeout_ms, struct server_source **ret_source,
                      uint32_t *ret_events)
{
    struct kevent event;
    const struct timespec most = {.tv_sec = timeout_ms / 1000,
                                  .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    int n = kevent(set, NULL, 0, &event, 1, timeout_ms < 0 ? NULL : &most);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (n == 0)
        return 0;
    struct server_source *source = (void *)event.udata;
    const bool reads = event.filter == EVFILT_READ;
    uint32_t events = event.flags & EV_EOF ? SERVER_LOOP_HUP : 0;
    /* What came before the end is read first. */
    if (reads && (event.data > 0 || !(event.flags & EV_EOF)))
        events |= source->events & SERVER_LOOP_IN;
    else if (!reads && !(event.flags & EV_EOF))
        events |= SERVER_LOOP_OUT;
    *ret_source = source;
    *ret_events = events;
    return events ? 1 : 0;
}
