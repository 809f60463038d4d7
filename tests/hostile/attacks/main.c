/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-attacks [--json FILE] [ROW]... runs all rows, or those named; --list names them. A line per
 * row, and last `attacks: N of M stopped`.
 */
#define _GNU_SOURCE
#include "tests/hostile/attacks/main.h"

#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attacks/hijacked.h"
#include "tests/hostile/attacks/watch.h"

#define ROW_SECONDS 120 /* sanitizers are slow */

static const struct attack_row *const sections[] = {
    attack_rows_rpc,    attack_rows_found,    attack_rows_reference, attack_rows_races,
    attack_rows_ring,   attack_rows_messages, attack_rows_memory,    attack_rows_socket,
    attack_rows_limits, attack_rows_server,   attack_rows_killed};

/* ---- the verdict ------------------------------------------------------------------------- */

static jmp_buf *catcher; /* of this thread: rows have no others that judge */
static char verdict[512];
static char last_refusal[320];
static char target[108];

void attack_target(const char *socket)
{
    if (snprintf(target, sizeof(target), "%s", socket) >= (int)sizeof(target))
        die("apir-attacks: the socket's path is too long");
}

const char *attack_socket(void)
{
    return target;
}

void not_stopped(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(verdict, sizeof(verdict), fmt, ap);
    va_end(ap);
    if (!catcher)
        die("apir-attacks: %s", verdict);
    longjmp(*catcher, 1);
}

static void guest_not_stopped(const char *text)
{
    not_stopped("%s", text);
}

void refused(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(last_refusal, sizeof(last_refusal), fmt, ap);
    va_end(ap);
}

const char *attack_try(void (*f)(void *arg), void *arg)
{
    jmp_buf here, *const outer = catcher;
    verdict[0] = '\0';
    catcher = &here;
    if (setjmp(here) == 0)
        f(arg);
    catcher = outer;
    return verdict[0] ? verdict : NULL;
}

/* ---- a row ------------------------------------------------------------------------------- */

struct result {
    bool stopped;
    char text[512];
};

static void row_body(void *arg)
{
    const struct attack_row *row = arg;
    row->run();
    if (!last_refusal[0])
        not_stopped("the row has seen no refusal");
}

/* The attacker's process. */
_Noreturn static void row_process(const struct attack_row *row, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *why = attack_try(row_body, (void *)(uintptr_t)row);
    const char *text = why ? why : last_refusal;
    char mark = why ? 'N' : 'S';
    if (write(out, &mark, 1) != 1 || write(out, text, strlen(text)) < 0)
        _exit(2);
    _exit(0);
}

/* Everything that comes from fd until it ends; false: not within that time. */
static bool read_all(int fd, char *buf, size_t size, unsigned seconds)
{
    int64_t end = now_ms() + (int64_t)seconds * 1000;
    size_t n = 0;
    for (;;) {
        int64_t left = end - now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0 || poll(&p, 1, (int)left) == 0)
            return false;
        ssize_t got = read(fd, buf + n, size - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    buf[n] = '\0';
    return true;
}

static struct result row_attack(const struct attack_row *row, struct guest *bystander)
{
    struct result r = {0};
    char buf[512] = "";
    int fds[2], status = 0;
    const unsigned seconds =
        (unsigned)patient_ms((int)(row->seconds ? row->seconds : ROW_SECONDS) * 1000) / 1000;
    fflush(NULL);
    if (pipe(fds))
        die("apir-attacks: no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        transport_close(&bystander->transport);
        close(fds[0]);
        row_process(row, fds[1]);
    }
    close(fds[1]);
    bool in_time = read_all(fds[0], buf, sizeof(buf), seconds);
    close(fds[0]);
    if (!in_time)
        kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    r.stopped = in_time && buf[0] == 'S';
    if (!in_time)
        snprintf(r.text, sizeof(r.text), "not done after %u s", seconds);
    else if (buf[0])
        snprintf(r.text, sizeof(r.text), "%s", buf + 1);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == 1) /* as cmocka ends a program */
        snprintf(r.text, sizeof(r.text), "an assertion about the server failed");
    else
        snprintf(r.text, sizeof(r.text), "the attacking program ended, status %#x",
                 (unsigned)status);
    return r;
}

/* ---- output ------------------------------------------------------------------------------ */

static void json_row(struct json_object *all, const struct attack_row *row, const struct result *r,
                     int64_t ms)
{
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "id", json_object_new_string(row->id));
    json_object_object_add(o, "attack", json_object_new_string(row->what));
    json_object_object_add(o, "stopped", json_object_new_boolean(r->stopped));
    json_object_object_add(o, "ms", json_object_new_int64(ms));
    json_object_object_add(o, "text", json_object_new_string(r->text));
    json_object_array_add(all, o);
}

static bool wanted(const struct attack_row *row, int n, char **names)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], row->id) == 0)
            return true;
    }
    return n == 0;
}

/* Every name is a row's. */
static void names_check(int n, char **names)
{
    for (int i = 0; i < n; i++) {
        bool found = false;
        for (size_t s = 0; s < N(sections); s++) {
            for (const struct attack_row *row = sections[s]; row->id; row++)
                found = found || strcmp(row->id, names[i]) == 0;
        }
        if (!found)
            die("apir-attacks: there is no row %s; --list names them", names[i]);
    }
}

static void list(void)
{
    for (size_t s = 0; s < N(sections); s++) {
        for (const struct attack_row *row = sections[s]; row->id; row++)
            printf("%s\t%s\n", row->id, row->what);
    }
}

static int run(int n, char **names, struct json_object *json)
{
    struct watch watch;
    struct guest bystander;
    unsigned rows = 0, stopped = 0;
    watch_start(&watch, &bystander);
    for (size_t s = 0; s < N(sections); s++) {
        for (const struct attack_row *row = sections[s]; row->id; row++) {
            if (!wanted(row, n, names))
                continue;
            int64_t began = now_ms();
            struct result r = row_attack(row, &bystander);
            const char *why = watch_check(&watch, &bystander, row->flags);
            if (why && r.stopped) {
                r.stopped = false;
                snprintf(r.text, sizeof(r.text), "%s", why);
            } else if (why) {
                size_t at = strlen(r.text);
                snprintf(r.text + at, sizeof(r.text) - at, "; %s", why);
            }
            printf("%s  %-22s %s: \"%s\"\n", r.stopped ? "stopped    " : "NOT STOPPED", row->id,
                   row->what, r.text);
            fflush(stdout);
            json_row(json, row, &r, now_ms() - began);
            rows++;
            stopped += r.stopped;
            if (why) { /* nothing that this host says of the next row would count */
                watch_stop(&watch, &bystander);
                watch_start(&watch, &bystander);
            }
        }
    }
    watch_stop(&watch, &bystander);
    printf("attacks: %u of %u stopped\n", stopped, rows);
    return stopped == rows && rows ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"list", no_argument, NULL, 'l'},
                                            {"json", required_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    const char *file = NULL;
    if (hijacked_is_worker(argc, argv))
        return hijacked_main(argv);
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 'l') {
            list();
            return 0;
        }
        file = o == 'j' ? optarg : NULL;
        if (!file)
            die("apir-attacks: usage: apir-attacks [--list] [--json FILE] [ROW]...");
    }
    signal(SIGPIPE, SIG_IGN);
    guest_on_failure = guest_not_stopped;
    names_check(argc - optind, argv + optind);
    struct json_object *json = json_object_new_array();
    int rc = run(argc - optind, argv + optind, json);
    if (file && json_object_to_file(file, json) < 0)
        die("apir-attacks: the JSON file could not be written");
    json_object_put(json);
    return rc;
}
