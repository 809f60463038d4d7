/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/proc.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/options.h"

struct proc_tree proc_tree(pid_t root)
{
    static struct process below[PROCESSES_MAX];
    struct proc_tree t = {.n = 1, .all = {process_look(root)}};
    if (!t.all[0].state)
        fail("there is no process %d; is the server still running?", root);
    for (size_t i = 0; i < t.n; i++) {
        const size_t n = process_children(t.all[i].pid, below);
        if (n > PROC_TREE_MAX - t.n)
            fail("more than %d processes below %d", PROC_TREE_MAX, root);
        memcpy(&t.all[t.n], below, n * sizeof(below[0]));
        t.n += n;
    }
    return t;
}

double proc_memory(pid_t pid)
{
    char path[64], line[256];
    double mib = 0;
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        fail("%s: %m; run this as the user of that process", path);
    while (mib <= 0 && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "Rss:", 4) == 0)
            mib = strtod(line + 4, NULL) / 1024;
    }
    fclose(f);
    if (mib <= 0)
        fail("process %d has no memory to look at", pid);
    return mib;
}

/* Calls f for every thread; those that end meanwhile may be left out. False: no such process. */
static bool each_thread(pid_t pid, void (*f)(pid_t pid, pid_t tid, void *data), void *data)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    for (const struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        if (d->d_name[0] != '.')
            f(pid, (pid_t)strtol(d->d_name, NULL, 10), data);
    }
    closedir(dir);
    return true;
}

/* What the scheduler counted, in seconds, where utime and stime are in ticks of 10 ms. */
struct schedstat {
    double ran, waited;
    bool any;
};

static void add_schedstat(pid_t pid, pid_t tid, void *data)
{
    struct schedstat *s = data;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
    FILE *f = fopen(path, "re");
    double ran, waited;
    if (f && fscanf(f, "%lf %lf", &ran, &waited) == 2) {
        s->ran += ran / 1e9;
        s->waited += waited / 1e9;
        s->any = true;
    }
    if (f)
        fclose(f);
}

static struct schedstat read_schedstat(pid_t pid)
{
    struct schedstat sum = {0};
    if (!each_thread(pid, add_schedstat, &sum) || !sum.any)
        fail("/proc/%d/task/*/schedstat: nothing there; either the process has ended, or this "
             "kernel "
             "does not count (CONFIG_SCHED_INFO)",
             pid);
    return sum;
}

double proc_cpu(pid_t pid)
{
    return read_schedstat(pid).ran;
}

double proc_waited(pid_t pid)
{
    return read_schedstat(pid).waited;
}

static void add_core(pid_t pid, pid_t tid, void *data)
{
    int *core = data;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(tid, sizeof(set), &set) < 0) {
        if (errno != ESRCH)
            fail("cores of process %d: %m", pid);
        return;
    }
    int first = 0;
    while (first < CPU_SETSIZE && !CPU_ISSET((size_t)first, &set))
        first++;
    if (CPU_COUNT(&set) != 1 || (*core >= 0 && *core != first))
        fail("process %d may use more than one core; put it on one: taskset -acp CORE %d", pid,
             pid);
    *core = first;
}

int proc_core(pid_t pid)
{
    int core = -1;
    if (!each_thread(pid, add_core, &core))
        fail("/proc/%d/task: %m", pid);
    return core;
}

struct placing {
    int core, err; /* errno of what did not work */
};

static void put_thread(pid_t pid, pid_t tid, void *data)
{
    struct placing *p = data;
    cpu_set_t set;
    (void)pid;
    CPU_ZERO(&set);
    CPU_SET((size_t)p->core, &set);
    if (sched_setaffinity(tid, sizeof(set), &set) < 0 && errno != ESRCH)
        p->err = errno;
}

bool proc_put(pid_t root, int core)
{
    struct placing p = {.core = core, .err = process_look(root).state ? 0 : ESRCH};
    const struct proc_tree tree = p.err ? (struct proc_tree){0} : proc_tree(root);
    /* One below it may have ended meanwhile. */
    for (size_t i = 0; i < tree.n; i++)
        each_thread(tree.all[i].pid, put_thread, &p);
    errno = p.err;
    return p.err == 0;
}
