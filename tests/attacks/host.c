/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/attacks/host.h"

#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/attacks/main.h"
#include "tests/attacks/sheet.h"
#include "tests/lib/fds.h"
#include "tests/lib/server_fixture.h"

#define START_MS  20000
#define SETTLE_MS 10000

#define CPU_BACKENDS "/usr/lib/*/ggml/backends*/libggml-cpu*.so" /* as Debian has them */

static const char config[] = "{\"threads\": 1, \"devices\": [\"CPU\"], \"max_contexts\": %u, "
                             "\"context_shm_mib\": %u, \"ggml_backends_dir\": \"%s\"}\n";

static struct host *current;

static void path_in(const struct host *h, const char *name, char *ret, size_t size)
{
    if (snprintf(ret, size, "%s/%s", h->dir, name) >= (int)size)
        attack_die("the path of %s is too long", name);
}

const char *host_socket(const struct host *h)
{
    static char path[96];
    path_in(h, "socket", path, sizeof(path));
    return path;
}

/*
 * One thread and the CPU: every sanitizer, no driver. Many rows end one worker after the other, and
 * half of what a start takes is the search for GPUs: the folder has the CPU's backends alone.
 */
static void config_write(const struct host *h)
{
    char path[96], backends[96], link_to[160];
    glob_t found;
    path_in(h, "backends", backends, sizeof(backends));
    if (mkdir(backends, 0700) || glob(CPU_BACKENDS, 0, NULL, &found))
        attack_die("no backends of the CPU: %s", CPU_BACKENDS);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        snprintf(link_to, sizeof(link_to), "%s%s", backends, strrchr(found.gl_pathv[i], '/'));
        if (symlink(found.gl_pathv[i], link_to))
            attack_die("cannot make %s", link_to);
    }
    globfree(&found);
    path_in(h, "backend.json", path, sizeof(path));
    FILE *f = fopen(path, "we");
    if (!f ||
        fprintf(f, config, ATTACK_CONTEXTS_MAX, (unsigned)(ATTACK_SHM_MAX >> 20), backends) < 0 ||
        fclose(f))
        attack_die("cannot write %s", path);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

/* ---- processes --------------------------------------------------------------------------- */

/* How many children of `parent` run a program with this in their command line; one of them. */
static unsigned children(pid_t parent, const char *name, pid_t *ret_pid)
{
    char path[64], cmdline[PATH_MAX];
    unsigned n = 0;
    int pid;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &pid) == 1) {
        snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
        FILE *f = fopen(path, "re");
        size_t size = f ? fread(cmdline, 1, sizeof(cmdline) - 1, f) : 0;
        if (f)
            fclose(f);
        cmdline[size] = '\0'; /* a zombie has none; the program's path is the first part */
        if (!strstr(cmdline, name))
            continue;
        *ret_pid = pid;
        n++;
    }
    if (file)
        fclose(file);
    return n;
}

static void exec_vmm(const struct host *h)
{
    char path[PATH_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    path_in(h, "log", path, sizeof(path));
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
        _exit(126);
    path_in(h, "backend.json", path, sizeof(path));
    setenv("RENDER_SERVER_EXEC_PATH", fixture_program("backend/apir-render-server"), 1);
    setenv("APIR_CONFIG", path, 1);
    setenv("APIR_LOG", "info", 1);
    setenv("GGML_VK_VISIBLE_DEVICES", "", 1);
    execlp("virgl_test_server", "virgl_test_server", "--no-virgl", "--venus", "--no-fork",
           "--multi-clients", "--socket-path", host_socket(h), (char *)NULL);
    _exit(127);
}

static bool listens(const struct host *h)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(addr.sun_path, host_socket(h));
    bool yes = connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
    close(fd);
    return yes;
}

/* ---- the bystander ----------------------------------------------------------------------- */

enum { BYSTANDER_AT = 1u << 19 }; /* of its arena, from here on: guest_byte(9, ...) */

static void bystander_open(void *arg)
{
    struct guest *g = arg;
    struct sheet s;
    guest_open(g);
    sheet_square(&s);
    sheet_runs(g, &s);
    for (uint32_t i = BYSTANDER_AT; i < ARENA; i++)
        guest_arena(g)[i] = guest_byte(9, i);
}

static void bystander_look(void *arg)
{
    static uint8_t bytes[MEMORY];
    static float first;
    struct guest *g = arg;
    expect_alive(g);
    expect_squares(g, first += 1.0f);
    for (uint32_t b = 1; b <= BUFFERS; b++) {
        guest_get(g, b, 0, bytes, MEMORY);
        for (uint32_t i = b < BUFFERS ? 64 : 0; i < MEMORY; i++)
            WANT(bytes[i] == guest_byte(b, i));
    }
    for (uint32_t i = BYSTANDER_AT; i < ARENA; i++)
        WANT(guest_arena(g)[i] == guest_byte(9, i));
}

static void somebody_new(void *arg)
{
    struct guest *g = arg;
    struct sheet s;
    guest_open(g);
    sheet_square(&s);
    sheet_runs(g, &s);
    expect_squares(g, 3.0f);
    guest_close(g);
}

/* ---- start and stop ---------------------------------------------------------------------- */

/* Nobody there but the bystander. */
static bool settled(const struct host *h)
{
    pid_t pid;
    return children(h->server, "apir-worker", &pid) == 1 && fds_count(h->vmm) == h->vmm_fds &&
           fds_count(h->server) == h->server_fds;
}

static const char *settle(const struct host *h)
{
    static char text[128];
    int64_t end = attack_now_ms() + SETTLE_MS;
    pid_t pid;
    while (!settled(h)) {
        if (attack_now_ms() > end) {
            snprintf(text, sizeof(text),
                     "left behind: %u workers; descriptors: VMM %d, server %d, before %d, %d",
                     children(h->server, "apir-worker", &pid), fds_count(h->vmm),
                     fds_count(h->server), h->vmm_fds, h->server_fds);
            return text;
        }
        attack_breathe();
    }
    return NULL;
}

void host_start(struct host *h, struct guest *bystander)
{
    const char *why;
    const char *tmp = getenv("TMPDIR");
    *h = (struct host){0};
    current = h;
    /* A socket's path is short; mkdtemp does not like a template that was cut. */
    snprintf(h->dir, sizeof(h->dir), "%s/attacks.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(h->dir))
        attack_die("no directory %s", h->dir);
    config_write(h);
    h->vmm = fork();
    if (h->vmm == 0)
        exec_vmm(h);
    int64_t end = attack_now_ms() + START_MS;
    while (!listens(h)) {
        if (attack_now_ms() > end || waitpid(h->vmm, NULL, WNOHANG) != 0)
            attack_die("virgl_test_server does not listen; its log is in %s", h->dir);
        attack_breathe();
    }
    attack_target(host_socket(h));
    struct guest other;
    if ((why = attack_try(bystander_open, bystander)))
        attack_die("nothing works here without any attack: %s (%s/log)", why, h->dir);
    if (children(h->vmm, "apir-render-server", &h->server) != 1)
        attack_die("the test server has no apir-render-server");
    h->vmm_fds = fds_count(h->vmm);
    h->server_fds = fds_count(h->server);
    if ((why = attack_try(somebody_new, &other)) || (why = settle(h)))
        attack_die("two contexts do not work: %s (%s/log)", why, h->dir);
}

void host_stop(struct host *h, struct guest *bystander)
{
    guest_close(bystander);
    kill(-h->vmm, SIGKILL);
    waitpid(h->vmm, NULL, 0);
    (void)nftw(h->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- after a row ------------------------------------------------------------------------- */

/* What the log has said since the last look that it must not. */
static const char *log_check(struct host *h, unsigned flags)
{
    static const char *const never[] = {"AddressSanitizer",      "LeakSanitizer", "runtime error:",
                                        "exited with status 99", "GGML_ASSERT",   "Assertion"};
    static char found[256];
    char path[96], line[1024];
    path_in(h, "log", path, sizeof(path));
    FILE *f = fopen(path, "re");
    if (!f)
        return "the log is gone";
    fseek(f, h->log_seen, SEEK_SET);
    const char *why = NULL;
    while (fgets(line, sizeof(line), f)) {
        bool bad = !(flags & ATTACK_ENDS_WORKER) && strstr(line, "worker killed by signal");
        for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
            bad = bad || strstr(line, never[i]);
        if (!bad || why)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(found, sizeof(found), "the log has: %.200s", line);
        why = found;
    }
    h->log_seen = ftell(f);
    fclose(f);
    return why;
}

pid_t host_worker(void)
{
    pid_t pid = -1;
    int64_t end = attack_now_ms() + WAIT_MS;
    /* Until it is executed it has the server's name. */
    while (children(current->server, "apir-worker", &pid) < 2 && attack_now_ms() < end)
        attack_breathe();
    WANT(children(current->server, "apir-worker", &pid) > 1);
    return pid;
}

static bool log_has(const char *text, char *ret_line, int size)
{
    char path[96];
    bool found = false;
    path_in(current, "log", path, sizeof(path));
    FILE *f = fopen(path, "re");
    WANT(f);
    fseek(f, current->log_seen, SEEK_SET);
    while (!found && fgets(ret_line, size, f))
        found = strstr(ret_line, text) != NULL;
    fclose(f);
    return found;
}

void host_said(const char *text)
{
    char line[300];
    int64_t end = attack_now_ms() + WAIT_MS;
    while (!log_has(text, line, sizeof(line))) {
        if (attack_now_ms() > end)
            not_stopped("the server has not said: %s", text);
        attack_breathe();
    }
    line[strcspn(line, "\n")] = '\0';
    refused("%s", line);
}

const char *host_check(struct host *h, struct guest *bystander, unsigned flags)
{
    static char text[512];
    struct guest other;
    pid_t pid = -1;
    if (waitpid(h->vmm, NULL, WNOHANG) != 0)
        return "the VMM has ended";
    if (children(h->vmm, "apir-render-server", &pid) != 1 || pid != h->server)
        return "the server has ended";
    const char *why = attack_try(bystander_look, bystander);
    if (!why)
        why = attack_try(somebody_new, &other);
    if (why) {
        snprintf(text, sizeof(text), "somebody else noticed: %s", why);
        return text;
    }
    why = settle(h);
    if (why)
        return why;
    return log_check(h, flags);
}
