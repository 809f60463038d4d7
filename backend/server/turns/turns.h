/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes take turns at a device ("weight", "latency"). This server is one class. While it has a
 * device's turn its workers compute there as they would alone; else they wait at the begin of a
 * graph. Who is next is the broker's to say (backend/server/turns/broker.h), by order.h.
 *
 * A class that has a turn keeps it until another one waits: alone it asks nobody. Then it gives the
 * turn back at the end of a graph: when it is told to, or as soon as it has had nothing to compute
 * for SERVER_TURNS_IDLE_MS, or a sixteenth of what its last graph has taken. That is longer than a
 * program takes between two graphs, so one that is at it does not lose its turn with each of them.
 *
 * Workers see a page of ours, which they cannot write (struct apir_turn_page); each says in its own
 * status page what it waits for and computes, and tells us on its control socket. One that lies
 * there, or whose graph takes long, keeps others of its class waiting for SERVER_TURNS_LATE_MS
 * after a turn, and then no more until it is at another message: they compute beside it. What other
 * classes wait is the broker's to bound, and is charged.
 *
 * Without a broker (no common folder, a broker that has stopped) nobody waits: devices are shared
 * as their drivers do. So they are through MPS, which bounds classes by itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/config/settings.h"
#include "backend/server/limits/limits.h"
#include "backend/server/loop.h"
#include "backend/server/turns/broker.h"
#include "backend/server/turns/wire.h"
#include "protocol/shm.h"

#define SERVER_TURNS_IDLE_MS     2
#define SERVER_TURNS_IDLE_MAX_MS 50
/* From a turn's end to when those who wait of the same class do not wait for the last graph. */
#define SERVER_TURNS_LATE_MS 250
/* Who waits asks again that often; without an answer for as many times the broker is given up. */
#define SERVER_TURNS_ASK_MS 1000
#define SERVER_TURNS_ASKS   3u
/* From a broker's end to the search for another. */
#define SERVER_TURNS_AGAIN_MS 200

enum server_turn_is {
    SERVER_TURN_OUT,     /* closed; nobody of ours wants it */
    SERVER_TURN_ASKED,   /* closed; the broker knows that we want it */
    SERVER_TURN_IN,      /* open, for as long as we like */
    SERVER_TURN_ENDING,  /* open, until the timer or a pause */
    SERVER_TURN_CLOSING, /* closed; workers are at their last graph of it */
    SERVER_TURN_FREE,    /* open; there is no broker, or it has not answered yet */
};

struct server_turns;

struct server_turn {
    struct server_turns *turns;
    char device[APIR_ID_SIZE]; /* "": not in use */
    bool is_cpu;               /* then programs may need less than all of it */
    enum server_turn_is is;
    uint32_t need;             /* that the broker has been told; 0: nothing yet */
    int64_t until_ms;          /* ENDING */
    int64_t late_ms;           /* CLOSING */
    struct server_timer timer; /* ENDING: until_ms, or the end of a pause; CLOSING: late_ms */
    bool pauses;               /* ENDING: nobody of ours is at work since pause_ms … */
    int64_t pause_ms;
    int64_t idle_ms;     /* … which may be so long … */
    int64_t ended_ms;    /* … by when the last graph ended, or the turn began */
    unsigned unanswered; /* ASKED */
};

/* A worker, as long as it has its context. {0}: it takes no part. */
struct server_turn_member {
    struct server_turns *turns; /* NULL: no part, and then all of this is nothing */
    struct server_turn_member *next;
    const struct apir_worker_status *status;
    uint32_t at;        /* bit per turn that it has asked for */
    uint32_t late;      /* … and per turn that it has not given back in time … */
    uint64_t late_head; /* … at the message where its status page's head was this */
};

struct server_turns {
    struct server_loop *loop; /* NULL: classes take no turns, and then all of this is nothing */
    const struct apir_config *config;
    struct server_limits *limits; /* whose folder is the common one */
    struct apir_turn_page *page;
    int page_fd;
    int fd; /* to the broker; -1: there is none */
    struct server_source source;
    struct server_timer again;   /* to search for one, or to ask again */
    struct server_broker broker; /* if it is us */
    bool told;                   /* the log, that there is none */
    struct server_turn turns[APIR_TURNS_MAX];
    struct server_turn_member *members;
};

/* With a weight in the configuration, and not for workers that compute through MPS. limits outlives
 * it. Returns 0 or -errno. */
int server_turns_init(struct server_turns *turns, struct server_loop *loop,
                      struct server_limits *limits, bool through_mps);
void server_turns_fini(struct server_turns *turns);

/* A descriptor of the page for a worker, the caller's; -1: classes take no turns. */
int server_turns_share(const struct server_turns *turns);

/* *member is {0}; it and status outlive what is between the two calls. */
void server_turns_join(struct server_turns *turns, struct server_turn_member *member,
                       const struct apir_worker_status *status);
void server_turns_leave(struct server_turn_member *member);

/* Answers APIR_ASK_TURN: the device's turn, or APIR_TURNS_MAX. */
uint64_t server_turns_ask(struct server_turn_member *member, const char *device, bool is_cpu);
/* After APIR_ASK_MOVED. */
void server_turns_moved(struct server_turn_member *member);

/* Whether it waits for a turn that its class has not got: not for what it does itself. */
bool server_turns_waits(const struct server_turn_member *member);
