/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/faults/host.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS  20000
#define SETTLE_MS 20000
#define STILL_MS  200

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

int64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void host_nap(void)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    nanosleep(&nap, NULL);
}

/* ---- processes -------------------------------------------------------------------- */

/* "PID (NAME) STATE PPID ...": a name may hold blanks and parentheses, so the last one counts. */
static struct process look(pid_t pid, pid_t *ret_parent)
{
    char path[64], line[512];
    struct process p = {0};
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return p;
    const bool ok = fgets(line, sizeof(line), f);
    fclose(f);
    char *open = ok ? strchr(line, '(') : NULL, *close = ok ? strrchr(line, ')') : NULL;
    if (!open || !close || sscanf(close + 1, " %c %d", &p.state, ret_parent) != 2)
        return (struct process){0};
    *close = '\0';
    p.pid = pid;
    snprintf(p.name, sizeof(p.name), "%.15s", open + 1);
    return p;
}

struct process process_look(pid_t pid)
{
    pid_t parent;
    return look(pid, &parent);
}

size_t process_children(pid_t parent, struct process all[PROCESSES_MAX])
{
    DIR *dir = opendir("/proc");
    if (!dir)
        die("/proc: %s", strerror(errno));
    size_t n = 0;
    for (const struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        pid_t its_parent = -1;
        if (!isdigit((unsigned char)d->d_name[0]))
            continue;
        const struct process p = look((pid_t)strtol(d->d_name, NULL, 10), &its_parent);
        if (!p.state || its_parent != parent)
            continue;
        if (n == PROCESSES_MAX)
            die("more than %d processes below %d", PROCESSES_MAX, parent);
        all[n++] = p;
    }
    closedir(dir);
    return n;
}

static void child_output(const char *log)
{
    int fd = open("/dev/null", O_RDONLY);
    if (fd < 0 || dup2(fd, 0) < 0)
        _exit(126);
    fd = open(log ? log : "/dev/null", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(126);
}

pid_t process_start(const char *const argv[], const char *const env[], const char *log)
{
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    /* Nothing survives a test that is itself killed. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(126);
    child_output(log);
    for (; env && *env; env++) {
        if (putenv((char *)(uintptr_t)*env) != 0)
            _exit(126);
    }
    execvp(argv[0], (char **)(uintptr_t)argv);
    dprintf(2, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

int process_end(pid_t pid, int64_t limit_ms)
{
    const int64_t end = now_us() + limit_ms * 1000;
    for (;;) {
        int status;
        const pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return status;
        if (got < 0)
            die("waitpid %d: %s", pid, strerror(errno));
        if (now_us() > end)
            return -1;
        host_nap();
    }
}

void process_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- the host --------------------------------------------------------------------- */

static void host_dir(struct host *h)
{
    snprintf(h->dir, sizeof(h->dir), "/tmp/faults.XXXXXX");
    if (!mkdtemp(h->dir))
        die("%s: %s", h->dir, strerror(errno));
    snprintf(h->socket, sizeof(h->socket), "%s/socket", h->dir);
    snprintf(h->log, sizeof(h->log), "%s/log", h->dir);
    char path[96];
    snprintf(path, sizeof(path), "%s/backend.json", h->dir);
    FILE *f = fopen(path, "we");
    if (!f || fprintf(f, "%s\n", h->config) < 0 || fclose(f) != 0)
        die("%s: %s", path, strerror(errno));
}

/* The absolute path of what was built; the caller's. */
static char *built(const struct host *h, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", h->out, name);
    char *absolute = realpath(path, NULL);
    if (!absolute)
        die("%s: %s", path, strerror(errno));
    return absolute;
}

/* NAME=VALUE; the caller's. */
static char *setting(const char *name, const char *value)
{
    char *text;
    if (asprintf(&text, "%s=%s", name, value) < 0)
        die("out of memory");
    return text;
}

static void host_client_env(struct host *h)
{
    char transport[128];
    char *plugin = built(h, "frontend/libggml-apir.so");
    snprintf(transport, sizeof(transport), "vtest:%s", h->socket);
    h->client_env[0] = setting("APIR_TRANSPORT", transport);
    h->client_env[1] = setting("GGML_BACKEND_PATH", plugin);
    h->client_env[2] = "GGML_VK_VISIBLE_DEVICES=";
    free(plugin);
}

/* The file alone is not enough: it is there from bind() on. */
static bool host_listens(const struct host *h)
{
    FILE *f = fopen("/proc/net/unix", "re");
    char line[512];
    bool listens = false;
    while (f && !listens && fgets(line, sizeof(line), f))
        listens = strstr(line, h->socket) && strstr(line, " 00010000 ");
    if (f)
        fclose(f);
    return listens;
}

void host_start(struct host *h)
{
    if (!*h->dir) {
        /* What is measured is our own load: we go before our neighbours, where we may. */
        (void)setpriority(PRIO_PROCESS, 0, -10);
        host_dir(h);
        host_client_env(h);
    }
    char *program = built(h, "backend/apir-render-server"), config[96];
    snprintf(config, sizeof(config), "%s/backend.json", h->dir);
    char *server_setting = setting("RENDER_SERVER_EXEC_PATH", program);
    char *config_setting = setting("APIR_CONFIG", config);
    const char *env[HOST_ENV_MAX + 5] = {
        server_setting,
        config_setting,
        "GGML_VK_VISIBLE_DEVICES=",
        /* Where it is built with that: as malloc does. */
        "ASAN_OPTIONS=allocator_may_return_null=1",
    };
    for (size_t i = 0; i < HOST_ENV_MAX && h->env[i]; i++)
        env[4 + i] = h->env[i];
    /* One process, and so one render server, for all clients, as in a VMM. */
    const char *const argv[] = {"virgl_test_server", "--no-virgl", "--venus",
                                "--socket-path",     h->socket,    "--no-fork",
                                "--multi-clients",   NULL};
    /* As QEMU does; else a client that dies before it has its answer takes the server along. */
    signal(SIGPIPE, SIG_IGN);
    h->vmm = process_start(argv, env, h->log);
    signal(SIGPIPE, SIG_DFL);
    free(program);
    free(server_setting);
    free(config_setting);
    const int64_t end = now_us() + START_MS * 1000;
    while (!host_listens(h)) {
        if (now_us() > end || waitpid(h->vmm, NULL, WNOHANG) == h->vmm)
            die("virgl_test_server does not listen on %s; see %s", h->socket, h->log);
        host_nap();
    }
}

void host_stop(struct host *h)
{
    if (h->vmm <= 0)
        return;
    /* Its servers end with it, and their workers with them. */
    process_kill(h->vmm);
    h->vmm = 0;
    unlink(h->socket);
}

void folder_remove(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *d = dir ? readdir(dir) : NULL; d; d = readdir(dir))
        unlinkat(dirfd(dir), d->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

void host_fini(struct host *h)
{
    host_stop(h);
    if (*h->dir)
        folder_remove(h->dir);
}

pid_t host_server(const struct host *h)
{
    static struct process all[PROCESSES_MAX];
    const size_t n = process_children(h->vmm, all);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, "apir-render-ser") == 0 && all[i].state != 'Z')
            return all[i].pid;
    }
    return 0;
}

size_t host_workers(const struct host *h, pid_t workers[PROCESSES_MAX])
{
    static struct process all[PROCESSES_MAX];
    const pid_t server = host_server(h);
    const size_t n = server ? process_children(server, all) : 0;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, "apir-worker") == 0 && all[i].state != 'Z')
            workers[found++] = all[i].pid;
    }
    return found;
}

/* ---- what it holds ---------------------------------------------------------------- */

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
        n += strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return n;
}

static long read_rss(pid_t pid)
{
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    long kib = 0;
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
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
    *rss = read_rss(pid);
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
        host_nap();
        census_take(h, &next);
        if (next.value[CENSUS_WORKERS] != workers || next.value[CENSUS_ZOMBIES] != 0 ||
            memcmp(next.value, last.value, CENSUS_COUNTED * sizeof(next.value[0])) != 0)
            since = now_us();
        last = next;
        if (now_us() - began > SETTLE_MS * 1000)
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
        host_nap();
    }
}
