/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thread's event loop: fds by their readiness (ready.h), deadlines by
 * its time-out. Nothing in the server ever waits anywhere else.
 *
 * A handler may remove or free any source or timer, its own included: the loop
 * takes one event at a time and touches nothing of it after the call.
 *
 * All contexts of all guests share this thread, so no handler does work whose length a guest
 * chooses: each says at what it bounds it, takes a part and comes back for the rest, or gives it to
 * threads of their own (closer.h). One that holds the thread up is told in the log.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/server/ready.h"

struct server_timer;

struct server_loop {
    int ready_fd; /* ready.h */
    bool stop;    /* set by a handler: server_loop_run returns */
    struct server_timer *timers;
};

/* A handler that computes for so long, or sleeps in between and takes so long, is told in the log
 * at the level info. What the machine's other processes take from it does not count. */
#define SERVER_LOOP_LONG_MS 20

/* One shot. {0} is a valid disarmed timer. */
struct server_timer {
    struct server_timer *next;
    bool armed;
    int64_t at_ms;
    void (*fire)(void *user);
    void *user;
};

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t server_now_ms(void);

/* Returns 0 or -errno. */
int server_loop_init(struct server_loop *loop);
void server_loop_fini(struct server_loop *loop);

/* Runs until `stop`. Returns 0 or -errno. */
int server_loop_run(struct server_loop *loop);
/* What is due of the timers: one at most. Then one event, waited for timeout_ms at most (-1: for
 * ever), or until the next timer is due. Returns 1, 0 (there was no event) or -errno. */
int server_loop_turn(struct server_loop *loop, int timeout_ms);

/* Returns 0 or -errno. */
int server_loop_add(struct server_loop *loop, struct server_source *source, int fd, uint32_t events,
                    void (*ready)(void *user, uint32_t events), void *user);
void server_loop_modify(struct server_loop *loop, struct server_source *source, uint32_t events);
/* Before the fd is closed. Does nothing on a removed source. */
void server_loop_remove(struct server_loop *loop, struct server_source *source);

/* Moves the deadline where it is armed already. */
void server_timer_arm(struct server_loop *loop, struct server_timer *timer, int64_t at_ms,
                      void (*fire)(void *user), void *user);
void server_timer_disarm(struct server_loop *loop, struct server_timer *timer);
