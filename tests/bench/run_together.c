/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `together`: several processes at once on one device, as several containers would be.
 *
 * They are forked before any library is set up, and hold one model and context per side each. In a
 * round all of them generate on the same side for the same seconds: the parent names the moment at
 * which all begin. A process that fails ends; the parent sees the end of its pipe. The parent's own
 * end kills them.
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

static void send_all(int fd, const void *data, size_t size)
{
    if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
        fail("a process ended early: %m");
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

static double generate_until(struct engine *e, double end)
{
    double tokens = 0;
    for (int used = CONTEXT; engine_now() < end; used++, tokens++) {
        if (used == CONTEXT) {
            engine_clear(e);
            used = 0;
        }
        engine_generate(e, 1, NULL);
    }
    return tokens;
}

static struct answer child_round(struct engine *e, const struct order *order)
{
    struct timespec begin = {
        .tv_sec = (time_t)(order->begin_ns / UINT64_C(1000000000)),
        .tv_nsec = (long)(order->begin_ns % UINT64_C(1000000000)),
    };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, NULL) == EINTR)
        ;
    double start = (double)order->begin_ns / 1e9;
    struct answer a = {.tokens = generate_until(e, start + order->seconds)};
    a.seconds = engine_now() - start;
    engine_check(e);
    return a;
}

static _Noreturn void child_run(const struct options *o, const char *path, int fd)
{
    struct engine sides[OPTIONS_SIDES_MAX] = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    engine_setup(o);
    for (size_t i = 0; i < o->n_sides; i++)
        engine_start(&sides[i], o, &o->sides[i], path, CONTEXT);
    struct answer answer = {0};
    send_all(fd, &answer, sizeof(answer)); /* ready */
    for (struct order order; receive_all(fd, &order, sizeof(order));) {
        answer = child_round(&sides[order.side], &order);
        send_all(fd, &answer, sizeof(answer));
    }
    for (size_t i = 0; i < o->n_sides; i++)
        engine_fini(&sides[i]);
    exit(0);
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

static void children_start(const struct options *o, struct child *children)
{
    for (int i = 0; i < o->processes; i++) {
        cleanup_free char *path = pick_model(o->model, i);
        int fds[2];
        if (!path || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
            fail("process %d: %m", i);
        pid_t pid = fork();
        if (pid == 0) {
            close(fds[0]);
            /* Else each would keep the others' pipes open after the parent's end. */
            for (int k = 0; k < i; k++)
                close(children[k].fd);
            child_run(o, path, fds[1]);
        }
        if (pid < 0)
            fail("process %d: %m", i);
        close(fds[1]);
        children[i] = (struct child){.pid = pid, .fd = fds[0]};
    }
}

/* Their tokens per second together. */
static double collect(const struct options *o, const struct child *children)
{
    double rate = 0;
    for (int i = 0; i < o->processes; i++) {
        struct answer a;
        if (!receive_all(children[i].fd, &a, sizeof(a)))
            fail("a process ended early; its message is above");
        rate += a.seconds > 0 ? a.tokens / a.seconds : 0;
    }
    return rate;
}

static double round_run(const struct options *o, const struct child *children, size_t side,
                        double seconds)
{
    struct order order = {.side = side, .begin_ns = now_ns() + LEAD_NS, .seconds = seconds};
    for (int i = 0; i < o->processes; i++)
        send_all(children[i].fd, &order, sizeof(order));
    return collect(o, children);
}

void command_together(const struct options *o)
{
    struct child children[PROCESSES_MAX] = {0};
    children_start(o, children);
    collect(o, children); /* all are ready */
    for (size_t i = 0; i < o->n_sides; i++)
        round_run(o, children, i, o->seconds / 4); /* warm-up */
    for (int pair = 0; pair < o->pairs; pair++) {
        for (size_t i = 0; i < o->n_sides; i++) {
            size_t side = options_turn(o, pair, i);
            double rate = round_run(o, children, side, o->seconds);
            options_sample(o, o->sides[side].name, "together",
                           (struct sample){.pair = pair, .value = rate, .unit = "t/s"});
        }
    }
    /* The end of its pipe ends an idle one. */
    for (int i = 0; i < o->processes; i++)
        close(children[i].fd);
    for (int i = 0; i < o->processes; i++)
        waitpid(children[i].pid, NULL, 0);
}
