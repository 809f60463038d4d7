/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/loop.h"

#include <stddef.h>

#include "backend/server/list.h"
#include "backend/server/ready.h"
#include "backend/server/system.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

int64_t server_now_ms(void)
{
    return (int64_t)apir_now_ms();
}

int server_loop_init(struct server_loop *loop)
{
    *loop = (struct server_loop){.ready_fd = server_ready_open()};
    return loop->ready_fd < 0 ? loop->ready_fd : 0;
}

void server_loop_fini(struct server_loop *loop)
{
    apir_close_fd(&loop->ready_fd);
}

/* ---- how long a handler takes ------------------------------------------------ */

struct handler_use {
    bool measured;
    int64_t from_ms;
    struct server_self_use used;
};

static struct handler_use handler_begin(void)
{
    struct handler_use use = {.measured = apir_log_enabled(APIR_LOG_INFO)};
    if (use.measured) {
        use.from_ms = server_now_ms();
        use.used = server_self_used();
    }
    return use;
}

static void handler_end(const struct handler_use *use, const char *what)
{
    if (!use->measured)
        return;
    const struct server_self_use now = server_self_used();
    const long long cpu_ms = (now.cpu_us - use->used.cpu_us) / 1000;
    const long long all_ms = server_now_ms() - use->from_ms;
    const long sleeps = now.sleeps - use->used.sleeps;
    if (cpu_ms >= SERVER_LOOP_LONG_MS || (sleeps > 0 && all_ms >= SERVER_LOOP_LONG_MS))
        apir_log(APIR_LOG_INFO,
                 "the server was held up: %s took %lld ms, computed for %lld and slept %ld times",
                 what, all_ms, cpu_ms, sleeps);
}

/* ---- turns --------------------------------------------------------------------- */

static struct server_timer *timers_first(const struct server_loop *loop)
{
    struct server_timer *first = loop->timers;
    for (struct server_timer *t = first; t; t = t->next) {
        if (t->at_ms < first->at_ms)
            first = t;
    }
    return first;
}

/* Fires one timer that is due, and so no event of a socket waits for many of them. Returns how long
 * there is time until the next (-1: for ever). */
static int timers_fire(struct server_loop *loop)
{
    struct server_timer *first = timers_first(loop);
    if (first && first->at_ms <= server_now_ms()) {
        void (*fire)(void *) = first->fire;
        void *user = first->user;
        server_timer_disarm(loop, first);
        const struct handler_use use = handler_begin();
        fire(user); /* may change the list */
        handler_end(&use, "a timer");
        first = timers_first(loop);
    }
    if (!first)
        return -1;
    const int64_t left = first->at_ms - server_now_ms();
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

int server_loop_turn(struct server_loop *loop, int timeout_ms)
{
    /* One event per call: a handler may free the owner of any other source,
     * and a batch would still hold pointers to it. The kernel keeps the
     * ready ones in turn, so nobody starves. */
    struct server_source *source = NULL;
    uint32_t events = 0;
    const int due_ms = timers_fire(loop);
    if (loop->stop)
        return 0;
    if (due_ms >= 0 && (timeout_ms < 0 || due_ms < timeout_ms))
        timeout_ms = due_ms;
    int n = server_ready_wait(loop->ready_fd, timeout_ms, &source, &events);
    if (n == 1) {
        const struct handler_use use = handler_begin();
        source->ready(source->user, events);
        handler_end(&use, "an event");
    }
    return n;
}

int server_loop_run(struct server_loop *loop)
{
    int rc = 0;
    while (rc >= 0 && !loop->stop)
        rc = server_loop_turn(loop, -1);
    return rc < 0 ? rc : 0;
}

int server_loop_add(struct server_loop *loop, struct server_source *source, int fd, uint32_t events,
                    void (*ready)(void *user, uint32_t events), void *user)
{
    int rc = server_ready_add(loop->ready_fd, source, fd, events);
    if (rc < 0)
        return rc;
    *source = (struct server_source){
        .fd = fd,
        .added = true,
        .events = events,
        .ready = ready,
        .user = user,
    };
    return 0;
}

void server_loop_modify(struct server_loop *loop, struct server_source *source, uint32_t events)
{
    if (!source->added || source->events == events)
        return;
    server_ready_change(loop->ready_fd, source, events);
    source->events = events;
}

void server_loop_remove(struct server_loop *loop, struct server_source *source)
{
    if (!source->added)
        return;
    server_ready_remove(loop->ready_fd, source);
    source->added = false;
}

void server_timer_arm(struct server_loop *loop, struct server_timer *timer, int64_t at_ms,
                      void (*fire)(void *user), void *user)
{
    if (!timer->armed) {
        timer->next = loop->timers;
        loop->timers = timer;
    }
    timer->armed = true;
    timer->at_ms = at_ms;
    timer->fire = fire;
    timer->user = user;
}

void server_timer_disarm(struct server_loop *loop, struct server_timer *timer)
{
    if (!timer->armed)
        return;
    SERVER_LIST_REMOVE(&loop->timers, timer);
    timer->armed = false;
}
