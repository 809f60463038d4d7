/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `together`: several processes at once on one device, as several containers would be.
 *
 * They are forked before any library is set up, and hold one model and context per side each. In a
 * round all of them generate on the same side for the same seconds: the parent names the moment at
 * which all begin. A process that fails ends; the parent sees the end of its pipe.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "common/cleanup.h"
#include "tests/bench/engine.h"
#include "tests/lib/clock.h"

enum {
    CONTEXT = 512,              /* when it is full, the cache is emptied */
    LEAD_NS = 50 * 1000 * 1000, /* from an order to the start: it must reach everybody */
    PROCESSES_MAX = 64,         /* as options.c allows */
};

struct order {
    uint64_t side, begin_ns;
    double seconds;
};

struct answer {
    double tokens, seconds;
};

struct child {
    pid_t pid;
    int fd;
};

static int send_all(int fd, const void *data, size_t size)
{
    return send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -errno;
}

/* Seqpackets: all of it, or 0 at the other's end. */
static bool receive_all(int fd, void *data, size_t size)
{
    ssize_t n;
    do
        n = recv(fd, data, size, 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

static int generate_until(struct engine *e, double end, double *ret_tokens, struct apir_error *err)
{
    *ret_tokens = 0;
    for (int used = CONTEXT; engine_now() < end; used++, *ret_tokens += 1) {
        if (used == CONTEXT) {
            engine_clear(e);
            used = 0;
        }
        double seconds;
        int ret = engine_generate(e, 1, NULL, &seconds, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int child_round(struct engine *sides, const struct order *order, struct answer *ret_answer,
                       struct apir_error *err)
{
    struct engine *e = &sides[order->side];
    struct timespec begin = {
        .tv_sec = (time_t)(order->begin_ns / UINT64_C(1000000000)),
        .tv_nsec = (long)(order->begin_ns % UINT64_C(1000000000)),
    };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, NULL) == EINTR)
        ;
    double start = (double)order->begin_ns / 1e9;
    int ret = generate_until(e, start + order->seconds, &ret_answer->tokens, err);
    ret_answer->seconds = engine_now() - start;
    return ret == 0 ? engine_check(e, err) : ret;
}

static int child_serve(const struct options *o, const char *path, struct engine *sides, int fd,
                       struct apir_error *err)
{
    engine_setup(o->verbose);
    for (size_t i = 0; i < o->n_sides; i++) {
        int ret = engine_init(&sides[i], &o->sides[i], err);
        if (ret == 0)
            ret = engine_load(&sides[i], o, path, err);
        if (ret == 0)
            ret = engine_open(&sides[i], o, CONTEXT, err);
        if (ret < 0)
            return ret;
    }
    struct answer answer = {0};
    int ret = send_all(fd, &answer, sizeof(answer)); /* ready */
    for (struct order order; ret == 0 && receive_all(fd, &order, sizeof(order));) {
        ret = child_round(sides, &order, &answer, err);
        if (ret == 0)
            ret = send_all(fd, &answer, sizeof(answer));
    }
    return ret;
}

static _Noreturn void child_run(const struct options *o, const char *path, int fd)
{
    struct engine sides[OPTIONS_SIDES_MAX] = {0};
    struct apir_error err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int ret = child_serve(o, path, sides, fd, &err);
    if (ret < 0)
        fprintf(stderr, "apir-bench: process %d: %s\n", getpid(), err.msg);
    for (size_t i = 0; i < o->n_sides; i++)
        engine_fini(&sides[i]);
    engine_teardown();
    exit(ret < 0);
}

/* The i-th of a list with commas, from the start again when it ends; to be freed. */
static char *pick_model(const char *list, int i)
{
    int n = 1;
    for (const char *p = list; *p; p++)
        n += *p == ',';
    for (i %= n; i > 0; i--)
        list = strchr(list, ',') + 1;
    return strndup(list, strcspn(list, ","));
}

static int children_start(const struct options *o, struct child *children, struct apir_error *err)
{
    for (int i = 0; i < o->processes; i++) {
        cleanup_free char *path = pick_model(o->model, i);
        int fds[2];
        if (!path || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
            return apir_error_sys(err, path ? errno : ENOMEM, "process %d", i);
        pid_t pid = fork();
        if (pid == 0) {
            close(fds[0]);
            /* Else each would keep the others' pipes open after the parent's end. */
            for (int k = 0; k < i; k++)
                close(children[k].fd);
            child_run(o, path, fds[1]);
        }
        int code = errno;
        close(fds[1]);
        if (pid < 0) {
            close(fds[0]);
            return apir_error_sys(err, code, "process %d", i);
        }
        children[i] = (struct child){.pid = pid, .fd = fds[0]};
    }
    return 0;
}

static int collect(const struct options *o, const struct child *children, double *ret_rate,
                   struct apir_error *err)
{
    double rate = 0;
    for (int i = 0; i < o->processes; i++) {
        struct answer a;
        if (!receive_all(children[i].fd, &a, sizeof(a)))
            return apir_error_set(err, EIO, "a process ended early; its message is above");
        rate += a.seconds > 0 ? a.tokens / a.seconds : 0;
    }
    *ret_rate = rate;
    return 0;
}

static int round_run(const struct options *o, const struct child *children, size_t side,
                     double seconds, double *ret_rate, struct apir_error *err)
{
    struct order order = {.side = side, .begin_ns = now_ns() + LEAD_NS, .seconds = seconds};
    for (int i = 0; i < o->processes; i++) {
        int ret = send_all(children[i].fd, &order, sizeof(order));
        if (ret < 0)
            return apir_error_sys(err, -ret, "a process ended early");
    }
    return collect(o, children, ret_rate, err);
}

static int rounds_run(const struct options *o, const struct child *children, FILE *out,
                      struct apir_error *err)
{
    double rate;
    int ret = collect(o, children, &rate, err); /* all are ready */
    for (size_t i = 0; i < o->n_sides && ret == 0; i++)
        ret = round_run(o, children, i, o->seconds / 4, &rate, err); /* warm-up */
    for (int pair = 0; pair < o->pairs && ret == 0; pair++) {
        for (size_t i = 0; i < o->n_sides && ret == 0; i++) {
            size_t side = ((size_t)pair + i) % o->n_sides;
            ret = round_run(o, children, side, o->seconds, &rate, err);
            if (ret == 0)
                ret = options_sample(o, out, o->sides[side].name, "together",
                                     &(struct sample){.pair = pair, .value = rate, .unit = "t/s"},
                                     err);
        }
    }
    return ret;
}

int command_together(const struct options *o, struct apir_error *err)
{
    struct child children[PROCESSES_MAX] = {0};
    FILE *out = options_open_out(o, err);
    if (!out)
        return -err->code;
    int ret = children_start(o, children, err);
    if (ret == 0)
        ret = rounds_run(o, children, out, err);
    for (int i = 0; i < o->processes && children[i].pid; i++) {
        /* The end of its pipe ends an idle one; one that computes for nobody is killed. */
        close(children[i].fd);
        if (ret < 0)
            kill(children[i].pid, SIGKILL);
    }
    for (int i = 0; i < o->processes && children[i].pid; i++)
        waitpid(children[i].pid, NULL, 0);
    if (out != stdout)
        fclose(out);
    return ret;
}
