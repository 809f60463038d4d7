/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kqueue for Linux, as far as the files in posix/ use it, so that they run in tests here: a queue
 * is an epoll set, and what a filter of it waits for a descriptor in that. For one thread at a
 * time.
 *
 * As on macOS: a filter is told of for as long as it is so, or with EV_CLEAR once for each change;
 * reading tells of the end by EV_EOF, with what is left to read in `data`; the filters of a
 * descriptor are apart. Otherwise than there: a signal that was told of is not pending any more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/event.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define NOTES 4096

static struct note {
    pid_t used;    /* by this process: no child has its parent's queues */
    int queue, fd; /* fd: what is in the set */
    struct kevent about;
} notes[NOTES];

int __real_close(int fd);
int __wrap_close(int fd);

static struct note *note_find(int queue, const struct kevent *k)
{
    for (int i = 0; i < NOTES; i++) {
        if (notes[i].used == getpid() && notes[i].queue == queue &&
            notes[i].about.ident == k->ident && notes[i].about.filter == k->filter)
            return &notes[i];
    }
    return NULL;
}

static int note_remove(struct note *note)
{
    if (!note) {
        errno = ENOENT;
        return -1;
    }
    note->used = 0;
    (void)epoll_ctl(note->queue, EPOLL_CTL_DEL, note->fd, NULL);
    if (note->about.filter != EVFILT_READ)
        (void)__real_close(note->fd);
    return 0;
}

static int signal_fd(int sig)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, sig);
    return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int fd_of(const struct kevent *k)
{
    switch (k->filter) {
    case EVFILT_READ:
        return (int)k->ident;
    case EVFILT_WRITE:
        return fcntl((int)k->ident, F_DUPFD_CLOEXEC, 0);
    case EVFILT_PROC:
        return pidfd_open((pid_t)k->ident, 0);
    default:
        return signal_fd((int)k->ident);
    }
}

static int note_add(int queue, const struct kevent *k)
{
    struct note *note = note_find(queue, k);
    for (int i = 0; !note && i < NOTES; i++) {
        if (notes[i].used != getpid())
            note = &notes[i];
    }
    if (!note || note->used == getpid()) {
        errno = note ? EEXIST : ENOMEM; /* macOS would change it: nothing of ours asks for that */
        return -1;
    }
    *note = (struct note){.queue = queue, .fd = fd_of(k), .about = *k};
    struct epoll_event event = {.events =
                                    k->filter == EVFILT_WRITE ? EPOLLOUT : EPOLLIN | EPOLLRDHUP,
                                .data = {.u32 = (uint32_t)(note - notes)}};
    event.events |= k->flags & EV_CLEAR ? (uint32_t)EPOLLET : 0;
    if (note->fd < 0 || epoll_ctl(queue, EPOLL_CTL_ADD, note->fd, &event) < 0)
        return -1;
    note->used = getpid();
    return 0;
}

static struct kevent tell(const struct note *note, uint32_t events)
{
    struct kevent k = note->about;
    struct signalfd_siginfo info;
    int left = 1; /* of what has no bytes */
    k.flags = events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP) ? EV_EOF : 0;
    if (k.filter == EVFILT_READ && ioctl(note->fd, FIONREAD, &left) < 0)
        left = 1;
    if (k.filter == EVFILT_SIGNAL && read(note->fd, &info, sizeof(info)) < 0)
        left = 0;
    k.data = left;
    return k;
}

int kqueue(void)
{
    return epoll_create1(0);
}

int kevent(int queue, const struct kevent *changes, int n_changes, struct kevent *events,
           int n_events, const struct timespec *limit)
{
    for (int i = 0; i < n_changes; i++) {
        const struct kevent *k = &changes[i];
        if ((k->flags & EV_ADD ? note_add(queue, k) : note_remove(note_find(queue, k))) < 0)
            return -1;
    }
    int n = 0;
    long ms = limit ? limit->tv_sec * 1000 + limit->tv_nsec / 1000000 : -1;
    for (struct epoll_event event; n < n_events; n++, ms = 0) {
        const int got = epoll_wait(queue, &event, 1, (int)ms);
        if (got <= 0)
            return n || !got ? n : got;
        events[n] = tell(&notes[event.data.u32], event.events);
    }
    return n;
}

/* A queue's filters end with it. */
int __wrap_close(int fd)
{
    for (int i = 0; i < NOTES; i++) {
        if (notes[i].used == getpid() && notes[i].queue == fd)
            (void)note_remove(&notes[i]);
    }
    return __real_close(fd);
}
