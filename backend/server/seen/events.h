/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has been refused, lost or taken away lately, and why: for `apir events`. The last of them
 * are kept, in a fixed place; each has a number of its own, so who asks again sees what is new, and
 * what was missed.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "protocol/shm.h"

#define SERVER_EVENTS_KEPT 256u

enum server_event_kind {
    SERVER_EVENT_REFUSED, /* a context, or a connection that was to become one */
    SERVER_EVENT_LOST,    /* a context, by more than its own end */
    SERVER_EVENT_LIMIT,   /* memory that a context has asked for */
    SERVER_EVENT_FAULT,   /* of what contexts share: MPS */
    SERVER_EVENT_DEVICE,  /* one of the host's that does not compute */
    SERVER_EVENT_KINDS,
};

struct server_event {
    uint64_t number; /* from 1 */
    int64_t at_ms;   /* CLOCK_REALTIME */
    enum server_event_kind kind;
    uint32_t context; /* 0: none */
    uint32_t uid;
    pid_t pid;      /* of the peer; 0: none, or it cannot be told */
    uint64_t times; /* it has happened so often since, to the same user */
    char reason[APIR_REASON_MAX];
};

/* {0}: none. */
struct server_events {
    uint64_t n;
    uint64_t of_kind[SERVER_EVENT_KINDS];
    struct server_event kept[SERVER_EVENTS_KEPT]; /* number n at (n - 1) % SERVER_EVENTS_KEPT */
};

/* What has just happened to the same user, with the same reason, only counts once more: a user who
 * tries without end does not push out what happened to others. */
void server_events_add(struct server_events *events, enum server_event_kind kind, uint32_t context,
                       uint32_t uid, pid_t pid, const char *reason);

/* For people and JSON. */
const char *server_event_name(enum server_event_kind kind);

/* The number of the oldest that is kept; it is above n where there is none. */
uint64_t server_events_first(const struct server_events *events);
/* number is one that is kept. */
const struct server_event *server_events_get(const struct server_events *events, uint64_t number);
