/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/server/list.h"
#include "backend/server/machine.h"
#include "backend/server/system.h"
#include "common/cleanup.h"
#include "common/parent.h"

#define CHILDREN_BATCH 8 /* of which each may end a context */

static void server_children_forget(struct server_children *children, struct server_child *child)
{
    SERVER_LIST_REMOVE(&children->first, child);
    child->pid = 0;
}

/* One change of any child, or false where there is none left to tell. */
static bool server_children_wait(struct server_children *children)
{
    int how = 0;
    const pid_t pid = waitpid(-1, &how, WNOHANG | WUNTRACED | WCONTINUED);
    if (pid <= 0)
        return false;

    enum server_child_change change = SERVER_CHILD_EXITED;
    int status = 0;
    if (WIFSIGNALED(how)) {
        change = SERVER_CHILD_KILLED;
        status = WTERMSIG(how);
    } else if (WIFSTOPPED(how)) {
        change = SERVER_CHILD_STOPPED;
        status = WSTOPSIG(how);
    } else if (WIFCONTINUED(how)) {
        change = SERVER_CHILD_CONTINUED;
    } else {
        status = WEXITSTATUS(how);
    }
    bool gone = change == SERVER_CHILD_EXITED || change == SERVER_CHILD_KILLED;
    if (gone && children->alive > 0)
        children->alive--;
    if (gone && children->groups) {
        if (change == SERVER_CHILD_KILLED && status == SIGKILL &&
            server_cgroups_starved(children->groups, pid))
            status = SERVER_CHILD_STARVED;
        server_cgroups_leave(children->groups, pid);
    }

    for (struct server_child *child = children->first; child; child = child->next) {
        if (child->pid != pid)
            continue;
        if (gone)
            server_children_forget(children, child);
        child->changed(child->user, change, status);
        break; /* the list may have changed under the call */
    }
    return true;
}

/* A few at a time: all workers of a server may end at once. */
static void server_children_look(void *user)
{
    struct server_children *children = user;
    for (int i = 0; i < CHILDREN_BATCH; i++) {
        if (!server_children_wait(children))
            return;
    }
    server_timer_arm(children->loop, &children->more, server_now_ms(), server_children_look,
                     children);
}

static void server_children_ready(void *user, uint32_t events)
{
    (void)events;
    const struct server_children *children = user;
    /* Signals merge: what counts is waitpid, the fd only says when. */
    server_signals_read(children->signal_fd);
    server_children_look(user);
}

int server_children_init(struct server_children *children, struct server_loop *loop)
{
    *children = (struct server_children){.loop = loop, .signal_fd = -1};
    if (getrlimit(RLIMIT_NOFILE, &children->nofile) < 0)
        return -errno;
    struct rlimit all = {.rlim_cur = children->nofile.rlim_max,
                         .rlim_max = children->nofile.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &all); /* a lower limit only refuses contexts earlier */

    /* SIGPIPE: a kick may meet a worker that has just died. SIGIO: backend/server/shm.c. */
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || signal(SIGPIPE, SIG_IGN) == SIG_ERR ||
        signal(SIGIO, SIG_IGN) == SIG_ERR)
        return -errno;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    if (sigprocmask(SIG_SETMASK, &mask, NULL) < 0)
        return -errno;
    children->signal_fd = server_signals_open(&mask);
    if (children->signal_fd < 0)
        return children->signal_fd;
    int rc = server_loop_add(loop, &children->source, children->signal_fd, SERVER_LOOP_IN,
                             server_children_ready, children);
    if (rc < 0)
        apir_close_fd(&children->signal_fd);
    return rc;
}

void server_children_fini(struct server_children *children)
{
    server_timer_disarm(children->loop, &children->more);
    server_loop_remove(children->loop, &children->source);
    apir_close_fd(&children->signal_fd);
}

/* A folder of another user's, which su or sudo has left to us, or one to be made in such a folder:
 * drivers load what they find there, and keep caches in it. */
static bool server_child_is_anothers(const char *path)
{
    char part[PATH_MAX];
    struct stat st;
    if (path[0] != '/' || snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
        return true;
    while (stat(part, &st) < 0) {
        char *last = strrchr(part, '/');
        if (last == part)
            return false; /* root's */
        *last = '\0';
    }
    return st.st_uid != 0 && st.st_uid != geteuid();
}

/* What steers the guest's plug-in, or a ggml, must not steer the host's worker. */
static void server_child_clean_environment(void)
{
    static const char *const names[] = {"GGML_BACKEND_PATH", "APIR_TRANSPORT", "APIR_ON_LOSS"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    static const char *const homes[] = {"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
                                        "XDG_CACHE_HOME"};
    for (size_t i = 0; i < sizeof(homes) / sizeof(homes[0]); i++) {
        const char *path = getenv(homes[i]);
        if (path && server_child_is_anothers(path))
            unsetenv(homes[i]);
    }
    /* The CDI spec's empty list hides every Vulkan device; a host's own choice stays. */
    const char *devices = getenv("GGML_VK_VISIBLE_DEVICES");
    if (devices && !*devices)
        unsetenv("GGML_VK_VISIBLE_DEVICES");
}

static _Noreturn void server_child_fail(const char *path, const char *what)
{
    dprintf(STDERR_FILENO, "apir: cannot start %s: %s: %s\n", path, what, strerror(errno));
    _exit(127);
}

static void server_child_place_fds(const struct server_child_spec *spec)
{
    int moved[SERVER_CHILD_FDS_MAX];
    int first_free = 3 + (int)spec->n_fds;
    /* Out of the way first: a source may lie on another one's target. */
    for (size_t i = 0; i < spec->n_fds; i++) {
        moved[i] = fcntl(spec->fds[i], F_DUPFD, first_free);
        if (moved[i] < 0)
            server_child_fail(spec->argv[0], "dup");
    }
    for (size_t i = 0; i < spec->n_fds; i++) {
        if (dup2(moved[i], 3 + (int)i) < 0)
            server_child_fail(spec->argv[0], "dup2");
    }
    if (server_close_range(first_free, -1) < 0)
        server_child_fail(spec->argv[0], "close_range");
}

/* In the child. The server has one thread, but for those that close files (backend/server/closer.h)
 * and hold no lock of anybody's: any function may be called. */
static _Noreturn void server_child_exec(const struct server_children *children,
                                        const struct server_child_spec *spec, pid_t parent)
{
    if (spec->is_worker) {
        if (!apir_ends_with_parent(parent))
            _exit(127);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
            (spec->output > 0 && dup2(spec->output, STDERR_FILENO) < 0) ||
            dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
            server_child_fail(spec->argv[0], "standard streams");
        server_child_clean_environment();
        /* putenv keeps the texts, and nothing writes to them before the exec. */
        const char *const *e = spec->environment ? spec->environment : children->environment;
        for (; e && *e; e++)
            (void)putenv((char *)(uintptr_t)*e);
        /* It takes memory for a guest; the VMM's is the guest's, and we serve all of them. */
        server_self_goes_first();
    }
    int rc = spec->in_group && children->groups ? server_cgroups_enter(children->groups) : 0;
    if (rc < 0)
        dprintf(STDERR_FILENO, "apir: no control group for this worker: %s\n", strerror(-rc));
    server_child_place_fds(spec);

    for (int sig = 1; sig < NSIG; sig++)
        (void)signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setrlimit(RLIMIT_NOFILE, &children->nofile);

    /* execv does not write through argv; the interface lacks the const. */
    execv(spec->argv[0], (char *const *)(uintptr_t)spec->argv);
    server_child_fail(spec->argv[0], "exec");
}

int server_child_start(struct server_children *children, struct server_child *child,
                       const struct server_child_spec *spec,
                       void (*changed)(void *user, enum server_child_change change, int status),
                       void *user)
{
    assert(spec->n_fds <= SERVER_CHILD_FDS_MAX && child->pid == 0);
    pid_t parent = getpid();
    /* What it takes goes by our own maps: no guest's memory, but for a page of each ring. */
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        server_child_exec(children, spec, parent);
    *child = (struct server_child){
        .next = children->first,
        .pid = pid,
        .changed = changed,
        .user = user,
    };
    children->first = child;
    children->alive++;
    return 0;
}

void server_child_kill(struct server_child *child)
{
    /* Not reaped yet, so the pid still means this child. */
    if (child->pid > 0)
        (void)kill(child->pid, SIGKILL);
}

void server_child_move(struct server_children *children, struct server_child *from,
                       struct server_child *to,
                       void (*changed)(void *user, enum server_child_change change, int status),
                       void *user)
{
    if (from->pid <= 0)
        return;
    *to = (struct server_child){.pid = from->pid, .changed = changed, .user = user};
    server_children_forget(children, from);
    to->next = children->first;
    children->first = to;
}

void server_child_forget(struct server_children *children, struct server_child *child)
{
    if (child->pid > 0)
        server_children_forget(children, child);
}
