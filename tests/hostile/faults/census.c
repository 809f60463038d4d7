/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/faults/census.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/clock.h"
#include "tests/lib/processes.h"

#define SETTLE_MS patient_ms(20000)
#define STILL_MS  200

static const char *const census_names[CENSUS_ITEMS] = {
    [CENSUS_VMM_FDS] = "VMM descriptors",
    [CENSUS_VMM_THREADS] = "VMM threads",
    [CENSUS_VMM_BLOBS] = "VMM blobs",
    [CENSUS_SERVER_FDS] = "server descriptors",
    [CENSUS_SERVER_THREADS] = "server threads",
    [CENSUS_SERVER_BLOBS] = "server blobs",
    [CENSUS_WORKERS] = "workers",
    [CENSUS_ZOMBIES] = "zombies",
    [CENSUS_FILES] = "files",
    [CENSUS_VMM_RSS] = "VMM RSS (KiB)",
    [CENSUS_SERVER_RSS] = "server RSS (KiB)",
};

const char *census_name(enum census_item item)
{
    return census_names[item];
}

static long count_entries(const char *path)
{
    DIR *dir = opendir(path);
    long n = 0;
    for (const struct dirent *d = dir ? readdir(dir) : NULL; d; d = readdir(dir))
        n += d->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

/* Lines of a file in /proc/PID that hold `text`. */
static long count_lines(pid_t pid, const char *file, const char *text)
{
    char path[64], line[1024];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    FILE *f = fopen(path, "re");
    long n = 0;
    while (f && fgets(line, sizeof(line), f))
        n += !!strstr(line, text);
    if (f)
        fclose(f);
    return n;
}

long census_kib(pid_t pid, const char *what)
{
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    long kib = 0;
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, what, strlen(what)) == 0)
            kib = strtol(line + strlen(what), NULL, 10);
    }
    if (f)
        fclose(f);
    return kib;
}

static void census_of(pid_t pid, long *fds, long *threads, long *blobs, long *rss)
{
    char path[64], target[256];
    if (!pid)
        return;
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    *threads = count_entries(path);
    *blobs = count_lines(pid, "maps", "/memfd:");
    *rss = census_kib(pid, "VmRSS:");
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    for (const struct dirent *d = dir ? readdir(dir) : NULL; d; d = readdir(dir)) {
        const ssize_t size = readlinkat(dirfd(dir), d->d_name, target, sizeof(target) - 1);
        if (size < 0)
            continue;
        target[size] = '\0';
        ++*fds;
        *blobs += strncmp(target, "/memfd:", 7) == 0;
    }
    if (dir)
        closedir(dir);
}

static void census_children(pid_t parent, long *workers, long *zombies)
{
    static struct process all[PROCESSES_MAX];
    const size_t n = parent ? process_children(parent, all) : 0;
    for (size_t i = 0; i < n; i++) {
        if (all[i].state == 'Z')
            ++*zombies;
        else if (strcmp(all[i].name, "apir-worker") == 0)
            ++*workers;
    }
}

void census_take(const struct host *h, struct census *ret_census)
{
    struct census c = {0};
    const pid_t server = host_server(h);
    census_of(h->vmm, &c.value[CENSUS_VMM_FDS], &c.value[CENSUS_VMM_THREADS],
              &c.value[CENSUS_VMM_BLOBS], &c.value[CENSUS_VMM_RSS]);
    census_of(server, &c.value[CENSUS_SERVER_FDS], &c.value[CENSUS_SERVER_THREADS],
              &c.value[CENSUS_SERVER_BLOBS], &c.value[CENSUS_SERVER_RSS]);
    census_children(h->vmm, &c.value[CENSUS_WORKERS], &c.value[CENSUS_ZOMBIES]);
    census_children(server, &c.value[CENSUS_WORKERS], &c.value[CENSUS_ZOMBIES]);
    c.value[CENSUS_FILES] = count_entries(h->dir) + count_entries("/dev/shm") +
                            (h->runtime ? count_entries(h->runtime) : 0);
    *ret_census = c;
}

void census_settle(const struct host *h, long workers, struct census *ret_census)
{
    const int64_t began = now_us();
    int64_t since = began;
    struct census last, next;
    census_take(h, &last);
    while (now_us() - since < STILL_MS * 1000) {
        nap_us(2000);
        census_take(h, &next);
        if (next.value[CENSUS_WORKERS] != workers || next.value[CENSUS_ZOMBIES] != 0 ||
            memcmp(next.value, last.value, CENSUS_COUNTED * sizeof(next.value[0])) != 0)
            since = now_us();
        last = next;
        if (now_us() - began > SETTLE_MS * INT64_C(1000))
            die("%ld workers and %ld zombies do not become %ld and none",
                next.value[CENSUS_WORKERS], next.value[CENSUS_ZOMBIES], workers);
    }
    *ret_census = last;
}

long census_leaks(const struct host *h, const struct census *before, int64_t limit_ms,
                  const char *what)
{
    const int64_t end = now_us() + limit_ms * 1000;
    struct census after;
    for (;;) {
        long leaks = 0;
        census_take(h, &after);
        for (int i = 0; i < CENSUS_COUNTED; i++) {
            if (after.value[i] > before->value[i])
                leaks += after.value[i] - before->value[i];
        }
        if (leaks == 0)
            return 0;
        if (now_us() > end) {
            for (int i = 0; i < CENSUS_COUNTED; i++) {
                if (after.value[i] > before->value[i])
                    fprintf(stderr, "%s: %s: %ld before, %ld after\n", what, census_names[i],
                            before->value[i], after.value[i]);
            }
            return leaks;
        }
        nap_us(2000);
    }
}
