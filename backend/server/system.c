/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/server/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"

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

int server_close_range(int first, int last)
{
    return close_range((unsigned)first, last < 0 ? ~0u : (unsigned)last, 0) < 0 ? -errno : 0;
}

int server_self_path(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n < 0)
        return -errno;
    path[n] = '\0';
    return 0;
}

bool server_self_is(const char *path)
{
    struct stat theirs;
    struct stat ours;
    return stat(path, &theirs) == 0 && stat("/proc/self/exe", &ours) == 0 &&
           theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

/* In KiB; 0: it does not say. */
static unsigned long long meminfo(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

int server_session_folder(const char *name, char *path, size_t size)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (!run || run[0] != '/' || stat(run, &st) < 0)
        return -ENOENT;
    if (st.st_uid != geteuid())
        return -EPERM;
    for (int whole = 0; whole < 2; whole++) {
        if (snprintf(path, size, "%s/apir%s%s", run, whole ? "/" : "", whole ? name : "") >=
            (int)size)
            return -ENAMETOOLONG;
        (void)mkdir(path, 0700); /* where it fails, its use says why */
    }
    return 0;
}

bool server_meminfo_is_scarce(const char *text)
{
    const unsigned long long available = meminfo(text, "MemAvailable:");
    return available && available < meminfo(text, "MemTotal:") / 4;
}

bool server_memory_is_scarce(void)
{
    char text[4096];
    (void)apir_file_begin("/proc/meminfo", text, sizeof(text));
    return server_meminfo_is_scarce(text);
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

void server_self_goes_first(void)
{
    static const char score[] = "500";
    cleanup_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    /* Where an operator has set a higher one that stays. */
    ssize_t ignored = fd < 0 ? 0 : write(fd, score, sizeof(score) - 1);
    (void)ignored;
}
