/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/event.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"

/* A kqueue in the loop's kqueue. What it tells of is blocked, and stays pending: nobody takes it.
 */
int server_signals_open(const sigset_t *mask)
{
    cleanup_fd int fd = kqueue();
    if (fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    for (int sig = 1; sig < NSIG; sig++) {
        struct kevent change;
        EV_SET(&change, (uintptr_t)sig, EVFILT_SIGNAL, EV_ADD, 0, 0, NULL);
        if (sigismember(mask, sig) == 1 && kevent(fd, &change, 1, NULL, 0, NULL) < 0)
            return -errno;
    }
    return steal_fd(&fd);
}

void server_signals_read(int fd)
{
    const struct timespec now = {0};
    struct kevent events[8];
    while (kevent(fd, NULL, 0, events, 8, &now) > 0) {
    }
}

int server_pipe(int fds[2])
{
    if (pipe(fds) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        if (fcntl(fds[i], F_SETFD, FD_CLOEXEC) < 0 || fcntl(fds[i], F_SETFL, O_NONBLOCK) < 0) {
            const int rc = -errno;
            close(fds[0]);
            close(fds[1]);
            return rc;
        }
    }
    return 0;
}

int server_close_range(int first, int last)
{
    DIR *dir = opendir("/dev/fd");
    if (!dir)
        return -errno;
    for (const struct dirent *e; (e = readdir(dir));) {
        const int fd = atoi(e->d_name); /* 0 of "." and ".." is never asked for */
        if (fd >= first && (last < 0 || fd <= last) && fd != dirfd(dir))
            close(fd);
    }
    closedir(dir);
    return 0;
}

/* How often it has slept is known of the whole process alone. */
struct server_self_use server_self_used(void)
{
    struct rusage use = {0};
    struct timespec cpu = {0};
    (void)getrusage(RUSAGE_SELF, &use);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    return (struct server_self_use){
        .cpu_us = (int64_t)cpu.tv_sec * 1000000 + cpu.tv_nsec / 1000,
        .sleeps = use.ru_nvcsw,
    };
}
