/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/attacks/watch.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attacks/main.h"
#include "tests/hostile/attacks/sheet.h"
#include "tests/lib/fds.h"

#define SETTLE_MS patient_ms(10000)

#define CPU_BACKENDS "/usr/lib/*/ggml/backends*/libggml-cpu*.so" /* as Debian has them */

/* No spare workers: whoever is there beside the bystander's has been left behind. */
static const char config[] = "{\"threads\": 1, \"spare_workers\": 0, \"shader_seconds\": 0, "
                             "\"devices\": [\"CPU\"], \"max_contexts\": %u, "
                             "\"context_shm_mib\": %u, \"ggml_backends_dir\": \"%s\"}\n";

static struct watch *current;

/*
 * One thread and the CPU: every sanitizer, no driver. Many rows end one worker after the other, and
 * half of what a start takes is the search for GPUs: the folder has the CPU's backends alone.
 */
static void configure(struct host *h)
{
    static char text[256];
    char backends[80], link_to[160];
    glob_t found;
    snprintf(backends, sizeof(backends), "%s/backends", h->dir);
    if (mkdir(backends, 0700) || glob(CPU_BACKENDS, 0, NULL, &found))
        die("no backends of the CPU: %s", CPU_BACKENDS);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        snprintf(link_to, sizeof(link_to), "%s%s", backends, strrchr(found.gl_pathv[i], '/'));
        if (symlink(found.gl_pathv[i], link_to))
            die("cannot make %s", link_to);
    }
    globfree(&found);
    snprintf(text, sizeof(text), config, ATTACK_CONTEXTS_MAX, (unsigned)(ATTACK_SHM_MAX >> 20),
             backends);
    h->config = text;
    h->env[0] = "APIR_LOG=info";
}

/* ---- the bystander ----------------------------------------------------------------------- */

enum { BYSTANDER_AT = 1u << 19 }; /* of its arena, from here on: guest_byte(9, ...) */

static void bystander_open(void *arg)
{
    struct guest *g = arg;
    guest_open(g);
    square_runs(g);
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
    guest_open(g);
    square_runs(g);
    expect_squares(g, 3.0f);
    guest_close(g);
}

/* ---- start and stop ---------------------------------------------------------------------- */

static unsigned workers(const struct watch *w)
{
    unsigned n = 0;
    process_child(w->server, "apir-worker", &n);
    return n;
}

/* Nobody there but the bystander. */
static bool settled(const struct watch *w)
{
    return workers(w) == 1 && fds_count(w->host.vmm) == w->vmm_fds &&
           fds_count(w->server) == w->server_fds;
}

static const char *settle(const struct watch *w)
{
    static char text[128];
    const int64_t end = now_ms() + SETTLE_MS;
    while (!settled(w)) {
        if (now_ms() > end) {
            snprintf(text, sizeof(text),
                     "left behind: %u workers; descriptors: VMM %d, server %d, before %d, %d",
                     workers(w), fds_count(w->host.vmm), fds_count(w->server), w->vmm_fds,
                     w->server_fds);
            return text;
        }
        nap_us(1000);
    }
    return NULL;
}

void watch_start(struct watch *w, struct guest *bystander)
{
    const char *why;
    *w = (struct watch){0};
    current = w;
    host_make(&w->host);
    configure(&w->host);
    host_start(&w->host);
    attack_target(w->host.socket);
    struct guest other;
    if ((why = attack_try(bystander_open, bystander)))
        die("nothing works here without any attack: %s (%s)", why, w->host.log);
    w->server = host_server(&w->host);
    if (!w->server)
        die("the test server has no apir-render-server");
    w->vmm_fds = fds_count(w->host.vmm);
    w->server_fds = fds_count(w->server);
    if ((why = attack_try(somebody_new, &other)) || (why = settle(w)))
        die("two contexts do not work: %s (%s)", why, w->host.log);
}

void watch_stop(struct watch *w, struct guest *bystander)
{
    guest_close(bystander);
    host_fini(&w->host);
}

/* ---- after a row ------------------------------------------------------------------------- */

/* What the log has said since the last look that it must not. */
static const char *log_check(struct watch *w, unsigned flags)
{
    static const char *const never[] = {"AddressSanitizer",      "LeakSanitizer", "runtime error:",
                                        "exited with status 99", "GGML_ASSERT",   "Assertion"};
    static char found[256];
    char line[1024];
    FILE *f = fopen(w->host.log, "re");
    if (!f)
        return "the log is gone";
    fseek(f, w->log_seen, SEEK_SET);
    const char *why = NULL;
    while (fgets(line, sizeof(line), f)) {
        bool bad = !(flags & ATTACK_ENDS_WORKER) && strstr(line, "worker killed by signal");
        for (size_t i = 0; i < N(never); i++)
            bad = bad || strstr(line, never[i]);
        if (!bad || why)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(found, sizeof(found), "the log has: %.200s", line);
        why = found;
    }
    w->log_seen = ftell(f);
    fclose(f);
    return why;
}

pid_t host_worker(void)
{
    /* Until it is executed it has the server's name. */
    WANT(SOON(workers(current) > 1));
    return process_child(current->server, "apir-worker", NULL);
}

static bool log_has(const char *text, char *ret_line, int size)
{
    bool found = false;
    FILE *f = fopen(current->host.log, "re");
    WANT(f);
    fseek(f, current->log_seen, SEEK_SET);
    while (!found && fgets(ret_line, size, f))
        found = strstr(ret_line, text);
    fclose(f);
    return found;
}

void host_said(const char *text)
{
    char line[300];
    if (!SOON(log_has(text, line, sizeof(line))))
        not_stopped("the server has not said: %s", text);
    line[strcspn(line, "\n")] = '\0';
    refused("%s", line);
}

const char *watch_check(struct watch *w, struct guest *bystander, unsigned flags)
{
    static char text[512];
    struct guest other;
    if (waitpid(w->host.vmm, NULL, WNOHANG) != 0)
        return "the VMM has ended";
    if (host_server(&w->host) != w->server)
        return "the server has ended";
    const char *why = attack_try(bystander_look, bystander);
    if (!why)
        why = attack_try(somebody_new, &other);
    if (why) {
        snprintf(text, sizeof(text), "somebody else noticed: %s", why);
        return text;
    }
    why = settle(w);
    if (why)
        return why;
    return log_check(w, flags);
}
