/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

int server_signals_open(const sigset_t *mask)
{
    int fd = signalfd(-1, mask, SFD_NONBLOCK | SFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void server_signals_read(int fd)
{
    struct signalfd_siginfo info[8];
    while (read(fd, info, sizeof(info)) > 0) {
    }
}

int server_pipe(int fds[2])
{
    return pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
}

int server_close_range(int first, int last)
{
    return close_range((unsigned)first, last < 0 ? ~0u : (unsigned)last, 0) < 0 ? -errno : 0;
}

struct server_self_use server_self_used(void)
{
    struct rusage use = {0};
    (void)getrusage(RUSAGE_THREAD, &use);
    return (struct server_self_use){
        .cpu_us = (int64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 +
                  use.ru_utime.tv_usec + use.ru_stime.tv_usec,
        .sleeps = use.ru_nvcsw,
    };
}
