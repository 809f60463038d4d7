/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

static bool tree_has(const struct proc_tree *t, pid_t pid)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->all[i].pid == pid)
            return true;
    }
    return false;
}

/* Adds those whose parent is in the tree. Returns how many, or -errno. */
static int tree_grow(struct proc_tree *t, struct apir_error *err)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return apir_error_sys(err, errno, "/proc");
    int added = 0;
    for (const struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        if (!isdigit((unsigned char)d->d_name[0]))
            continue;
        const struct process p = process_look((pid_t)strtol(d->d_name, NULL, 10));
        /* One that ends meanwhile is none of them any more. */
        if (!p.state || tree_has(t, p.pid) || !tree_has(t, p.parent))
            continue;
        if (t->n == PROC_TREE_MAX) {
            closedir(dir);
            return apir_error_set(err, E2BIG, "more than %d processes below %d", PROC_TREE_MAX,
                                  t->all[0].pid);
        }
        t->all[t->n++] = p;
        added++;
    }
    closedir(dir);
    return added;
}

int proc_tree(pid_t root, struct proc_tree *ret_tree, struct apir_error *err)
{
    struct proc_tree t = {.n = 1, .all = {process_look(root)}};
    if (!t.all[0].state)
        return apir_error_set(err, ESRCH, "there is no process %d; is the server still running?",
                              root);
    int added;
    do
        added = tree_grow(&t, err);
    while (added > 0);
    if (added == 0)
        *ret_tree = t;
    return added;
}

int proc_memory(pid_t pid, double *ret_mib, struct apir_error *err)
{
    char path[64], line[256];
    double mib = 0;
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return apir_error_set(err, errno, "%s: %s; run this as the user of that process", path,
                              strerror(errno));
    while (mib <= 0 && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "Rss:", 4) == 0)
            mib = strtod(line + 4, NULL) / 1024;
    }
    fclose(f);
    if (mib <= 0)
        return apir_error_set(err, ENODATA, "process %d has no memory to look at", pid);
    *ret_mib = mib;
    return 0;
}

/* Calls f for every thread; those that end meanwhile may be left out. */
static int each_thread(pid_t pid,
                       int (*f)(pid_t pid, pid_t tid, void *data, struct apir_error *err),
                       void *data, struct apir_error *err)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    if (!dir)
        return apir_error_sys(err, errno, "%s", path);
    int ret = 0;
    for (const struct dirent *d = readdir(dir); d && ret == 0; d = readdir(dir)) {
        if (d->d_name[0] != '.')
            ret = f(pid, (pid_t)strtol(d->d_name, NULL, 10), data, err);
    }
    closedir(dir);
    return ret;
}

/* What the scheduler counted, in seconds, where utime and stime are in ticks of 10 ms. */
struct schedstat {
    double ran, waited;
    bool any;
};

static int add_schedstat(pid_t pid, pid_t tid, void *data, struct apir_error *err)
{
    (void)err;
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
    return 0;
}

static int read_schedstat(pid_t pid, struct schedstat *ret_sum, struct apir_error *err)
{
    *ret_sum = (struct schedstat){0};
    int ret = each_thread(pid, add_schedstat, ret_sum, err);
    if (ret == 0 && !ret_sum->any)
        return apir_error_set(
            err, ENODATA,
            "/proc/%d/task/*/schedstat: nothing there; this kernel does not count "
            "(CONFIG_SCHED_INFO)",
            pid);
    return ret;
}

int proc_cpu(pid_t pid, double *ret_seconds, struct apir_error *err)
{
    struct schedstat s;
    int ret = read_schedstat(pid, &s, err);
    *ret_seconds = s.ran;
    return ret;
}

int proc_waited(pid_t pid, double *ret_seconds, struct apir_error *err)
{
    struct schedstat s;
    int ret = read_schedstat(pid, &s, err);
    *ret_seconds = s.waited;
    return ret;
}

static int add_core(pid_t pid, pid_t tid, void *data, struct apir_error *err)
{
    int *core = data;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(tid, sizeof(set), &set) < 0)
        return errno == ESRCH ? 0 : apir_error_sys(err, errno, "cores of process %d", pid);
    int first = 0;
    while (first < CPU_SETSIZE && !CPU_ISSET((size_t)first, &set))
        first++;
    if (CPU_COUNT(&set) != 1 || (*core >= 0 && *core != first))
        return apir_error_set(err, EINVAL,
                              "process %d may use more than one core; put it on one: "
                              "taskset -acp CORE %d",
                              pid, pid);
    *core = first;
    return 0;
}

int proc_core(pid_t pid, int *ret_core, struct apir_error *err)
{
    *ret_core = -1;
    return each_thread(pid, add_core, ret_core, err);
}

static int put_thread(pid_t pid, pid_t tid, void *data, struct apir_error *err)
{
    const int *core = data;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)*core, &set);
    if (sched_setaffinity(tid, sizeof(set), &set) < 0 && errno != ESRCH)
        return apir_error_sys(err, errno, "putting process %d on core %d", pid, *core);
    return 0;
}

int proc_put(pid_t root, int core, struct apir_error *err)
{
    struct proc_tree tree;
    int ret = proc_tree(root, &tree, err);
    for (size_t i = 0; ret == 0 && i < tree.n; i++) {
        ret = each_thread(tree.all[i].pid, put_thread, &core, err);
        if (ret == -ENOENT && i > 0)
            ret = 0; /* it has ended meanwhile */
    }
    return ret;
}
