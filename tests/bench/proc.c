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

/* "PID (NAME) STATE PPID ...": a name may hold blanks and parentheses, so the last one counts. */
static bool read_stat(pid_t pid, struct proc *ret_proc, pid_t *ret_parent)
{
    char path[64], line[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool ok = fgets(line, sizeof(line), f);
    fclose(f);
    char *open = strchr(line, '('), *close = strrchr(line, ')');
    if (!ok || !open || !close || sscanf(close + 1, " %*c %d", ret_parent) != 1)
        return false;
    *close = '\0';
    ret_proc->pid = pid;
    snprintf(ret_proc->name, sizeof(ret_proc->name), "%.*s", PROC_NAME_MAX, open + 1);
    return true;
}

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
        struct proc p;
        pid_t parent;
        /* One that ends meanwhile is none of them any more. */
        if (!isdigit((unsigned char)d->d_name[0]) ||
            !read_stat((pid_t)strtol(d->d_name, NULL, 10), &p, &parent) || tree_has(t, p.pid) ||
            !tree_has(t, parent))
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
    struct proc_tree t = {.n = 1};
    pid_t parent;
    if (!read_stat(root, &t.all[0], &parent))
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

/* Adds up the lines of a file that begin with one of `keys`; sums[i] is in MiB. */
static int sum_lines(const char *path, const char *const *keys, double *sums, size_t n,
                     struct apir_error *err)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return apir_error_set(err, errno, "%s: %s; run this as the user of that process", path,
                              strerror(errno));
    char line[256];
    while (fgets(line, sizeof(line), f)) {
        for (size_t i = 0; i < n; i++) {
            size_t size = strlen(keys[i]);
            if (strncmp(line, keys[i], size) == 0)
                sums[i] += strtod(line + size, NULL) / 1024;
        }
    }
    int code = ferror(f) ? errno : 0;
    fclose(f);
    return code ? apir_error_sys(err, code, "%s", path) : 0;
}

int proc_memory(pid_t pid, struct proc_memory *ret_memory, struct apir_error *err)
{
    enum { RSS, PSS, PRIVATE_CLEAN, PRIVATE_DIRTY, ROLLUP };
    static const char *const rollup[ROLLUP] = {"Rss:", "Pss:", "Private_Clean:", "Private_Dirty:"};
    static const char *const status[] = {"RssShmem:"};
    double sums[ROLLUP] = {0}, shmem = 0;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
    int ret = sum_lines(path, rollup, sums, ROLLUP, err);
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (ret == 0)
        ret = sum_lines(path, status, &shmem, 1, err);
    if (ret < 0)
        return ret;
    if (sums[RSS] <= 0)
        return apir_error_set(err, ENODATA, "process %d has no memory to look at", pid);
    *ret_memory = (struct proc_memory){
        .rss = sums[RSS],
        .pss = sums[PSS],
        .private = sums[PRIVATE_CLEAN] + sums[PRIVATE_DIRTY],
        .shmem = shmem,
    };
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
