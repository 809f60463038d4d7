/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/seen/events.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LATELY 16u

static struct server_event *event_like(struct server_events *events, enum server_event_kind kind,
                                       uint32_t uid, const char *reason)
{
    for (uint64_t i = events->n; i > 0 && events->n - i < LATELY; i--) {
        struct server_event *event = &events->kept[(i - 1) % SERVER_EVENTS_KEPT];
        if (event->kind == kind && event->uid == uid && strcmp(event->reason, reason) == 0)
            return event;
    }
    return NULL;
}

void server_events_add(struct server_events *events, enum server_event_kind kind, uint32_t context,
                       uint32_t uid, pid_t pid, const char *reason)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    struct server_event *event = event_like(events, kind, uid, reason);
    events->of_kind[kind]++;
    if (event) {
        event->times++;
        return;
    }
    event = &events->kept[events->n % SERVER_EVENTS_KEPT];
    *event = (struct server_event){
        .number = ++events->n,
        .at_ms = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000,
        .kind = kind,
        .context = context,
        .uid = uid,
        .pid = pid,
        .times = 1,
    };
    snprintf(event->reason, sizeof(event->reason), "%s", reason);
}

const char *server_event_name(enum server_event_kind kind)
{
    static const char *const names[SERVER_EVENT_KINDS] = {
        [SERVER_EVENT_REFUSED] = "refused", [SERVER_EVENT_LOST] = "lost",
        [SERVER_EVENT_LIMIT] = "limit",     [SERVER_EVENT_FAULT] = "fault",
        [SERVER_EVENT_DEVICE] = "device",
    };
    return names[kind];
}

uint64_t server_events_first(const struct server_events *events)
{
    return events->n > SERVER_EVENTS_KEPT ? events->n - SERVER_EVENTS_KEPT + 1 : 1;
}

const struct server_event *server_events_get(const struct server_events *events, uint64_t number)
{
    assert(number >= server_events_first(events) && number <= events->n);
    return &events->kept[(number - 1) % SERVER_EVENTS_KEPT];
}
