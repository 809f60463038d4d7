/* SPDX-License-Identifier: Apache-2.0 */
/* apir events */
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cdi/commands.h"
#include "cdi/top/sample.h"
#include "cdi/top/table.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/text.h"

struct event {
    struct json_object *server, *event; /* borrowed */
};

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    const int64_t t = cdi_top_number(x->event, "at_ms"), u = cdi_top_number(y->event, "at_ms");

    return t < u ? -1 : t > u;
}

/* What is new of one server; notes how far that goes. */
static size_t collect(struct json_object *server, int64_t from, struct event *ret_events)
{
    struct json_object *event;
    int64_t last = from;
    size_t n = 0;

    for (size_t i = 0; (event = cdi_top_item(server, "events", i)); i++) {
        const int64_t number = cdi_top_number(event, "number");
        if (number <= from)
            continue;
        last = number > last ? number : last;
        ret_events[n++] = (struct event){server, event};
    }
    (void)apir_json_set(server, "printed", json_object_new_int64(last));
    return n;
}

static void print_json(const struct event *e)
{
    if (json_object_is_type(e->event, json_type_object))
        (void)apir_json_set(e->event, "class",
                            json_object_new_string(cdi_top_text(e->server, "class")));
    (void)apir_text_print_json(json_object_to_json_string_ext(
        e->event, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
}

static void print_new(struct json_object *now, struct json_object *before, bool json)
{
    size_t room = 1, n = 0;

    for (size_t i = 0; i < apir_json_length(now); i++)
        room += apir_json_length(apir_json_array(json_object_array_get_idx(now, i), "events"));
    cleanup_free struct event *events = calloc(room, sizeof(*events));
    for (size_t i = 0; events && i < apir_json_length(now); i++) {
        struct json_object *server = json_object_array_get_idx(now, i);
        struct json_object *then = cdi_top_same_server(before, server);
        n += collect(server, cdi_top_number(then, "printed"), events + n);
    }
    if (n > 0)
        qsort(events, n, sizeof(*events), by_time);
    for (size_t i = 0; i < n; i++) {
        if (json)
            print_json(&events[i]);
        else
            cdi_top_event_line(stdout, events[i].server, events[i].event);
    }
    fflush(stdout);
}

static int code_of(struct json_object *servers)
{
    for (size_t i = 0; i < apir_json_length(servers); i++) {
        struct json_object *server = json_object_array_get_idx(servers, i);
        const char *error = cdi_top_text(server, "error");
        if (!*error)
            continue;
        apir_text_print(stderr, "apir events: server %lld (%s) %s\n",
                        (long long)cdi_top_number(server, "pid"), cdi_top_text(server, "at"),
                        error);
    }
    return cdi_top_code(servers);
}

static int show(bool follow, bool json, struct apir_error *err)
{
    const struct timespec pause = {.tv_sec = 1};
    cleanup_json struct json_object *before = NULL;

    for (;;) {
        struct json_object *now = cdi_top_sample(err);
        if (!now)
            return CDI_EXIT_FAILED;
        print_new(now, before, json);
        json_object_put(before);
        before = now;
        if (!follow || ferror(stdout))
            return code_of(now);
        (void)nanosleep(&pause, NULL);
    }
}

int cdi_events_main(const struct cdi_args *args)
{
    struct apir_error err = {0};
    return cdi_top_end(args->command, show(args->follow, args->json, &err), &err);
}
