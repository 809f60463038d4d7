/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/clock.h"

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

/* ---- what /proc says ---------------------------------------------------------------- */

/* "PID (NAME) STATE PPID ...", the start as the 22nd: a name may hold blanks and parentheses, so
 * the last one counts. */
struct process process_look(pid_t pid)
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
    if (!open || !close ||
        sscanf(
            close + 1,
            " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
            &p.state, &p.parent, &p.started) != 3)
        return (struct process){0};
    *close = '\0';
    p.pid = pid;
    snprintf(p.name, sizeof(p.name), "%.15s", open + 1);
    return p;
}

bool process_lives(pid_t pid)
{
    const char state = process_look(pid).state;
    return state && state != 'Z' && state != 'X';
}

size_t process_children(pid_t parent, struct process all[PROCESSES_MAX])
{
    DIR *dir = opendir("/proc");
    if (!dir)
        die("/proc: %s", strerror(errno));
    size_t n = 0;
    for (const struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        if (!isdigit((unsigned char)d->d_name[0]))
            continue;
        const struct process p = process_look((pid_t)strtol(d->d_name, NULL, 10));
        if (!p.state || p.parent != parent)
            continue;
        if (n == PROCESSES_MAX)
            die("more than %d processes below %d", PROCESSES_MAX, parent);
        all[n++] = p;
    }
    closedir(dir);
    return n;
}

/* Its arguments with a blank between them hold this. In the middle of its exec it has none. */
static bool command_line_has(pid_t pid, const char *text)
{
    char path[64], line[PATH_MAX] = "";
    snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    const size_t n = fread(line, 1, sizeof(line) - 1, f);
    fclose(f);
    for (size_t i = 0; i < n; i++)
        line[i] = line[i] ? line[i] : ' ';
    return strstr(line, text);
}

pid_t process_child(pid_t parent, const char *text, unsigned *ret_count)
{
    static struct process all[PROCESSES_MAX];
    const size_t n = process_children(parent, all);
    const struct process *found = NULL;
    unsigned count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!command_line_has(all[i].pid, text) || !process_lives(all[i].pid))
            continue;
        /* Ids begin again from below at some time. */
        if (!found || all[i].started >= found->started)
            found = &all[i];
        count++;
    }
    if (ret_count)
        *ret_count = count;
    return found ? found->pid : -1;
}

/* ---- start and end ------------------------------------------------------------------ */

pid_t process_spawn(const char *const argv[], const char *const env[], void (*prepare)(void *user),
                    void *user)
{
    const pid_t parent = getpid();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    /* Nothing survives a test that is itself killed. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(126);
    if (prepare)
        prepare(user);
    for (; env && *env; env++) {
        if (putenv((char *)(uintptr_t)*env) != 0)
            _exit(126);
    }
    execvp(argv[0], (char **)(uintptr_t)argv);
    dprintf(2, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static void output_to(void *user)
{
    const char *log = user;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || dup2(fd, 0) < 0)
        _exit(126);
    fd = open(log ? log : "/dev/null", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(126);
}

pid_t process_start(const char *const argv[], const char *const env[], const char *log)
{
    return process_spawn(argv, env, output_to, (void *)(uintptr_t)log);
}

int process_end(pid_t pid, int64_t limit_ms)
{
    const int64_t end = now_ms() + limit_ms;
    for (;;) {
        int status;
        const pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return status;
        if (got < 0)
            die("waitpid %d: %s", pid, strerror(errno));
        if (now_ms() > end)
            return -1;
        nap_us(1000);
    }
}

void process_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

const char *process_built(const char *name)
{
    static char path[PATH_MAX + 64];
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0)
        die("/proc/self/exe: %s", strerror(errno));
    self[n] = '\0';
    char *tests = NULL; /* of tests/FOLDER.../PROGRAM */
    for (char *s = self; (s = strstr(s, "/tests/")); s++)
        tests = s;
    if (!tests)
        die("%s: in no folder of tests", self);
    *tests = '\0';
    snprintf(path, sizeof(path), "%s/%s", self, name);
    return path;
}
