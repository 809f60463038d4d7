/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/top/table.h"

#include <json-c/json.h>
#include <string.h>
#include <time.h>

#include "cdi/top/sample.h"
#include "common/json.h"
#include "common/text.h"

#define DEVICES_MAX 64
#define EVENTS_LAST 5

struct device {
    const char *id;
    int64_t memory, contexts;
    double busy, graphs;
};

/* ---- contexts ---------------------------------------------------------------------- */

static void memory_text(char *text, size_t size, int64_t bytes)
{
    if (bytes >= (INT64_C(1) << 30))
        snprintf(text, size, "%.1fG", (double)bytes / (1 << 30));
    else
        snprintf(text, size, "%.1fM", (double)bytes / (1 << 20));
}

static int64_t memory_of(struct json_object *context)
{
    struct json_object *devices = apir_json_object(context, "devices");
    int64_t sum = 0;

    if (!devices)
        return 0;
    json_object_object_foreach(devices, id, value)
    {
        (void)value;
        const int64_t n = cdi_top_number(devices, id);
        sum = n > INT64_MAX - sum ? INT64_MAX : sum + n;
    }
    return sum;
}

static void print_context(FILE *out, struct json_object *server, struct json_object *context)
{
    const char *reason = cdi_top_text(context, "reason");
    struct json_object *odd = apir_json_member(context, "odd", json_type_boolean);
    char memory[32];

    memory_text(memory, sizeof(memory), memory_of(context));
    apir_text_print(out, "%-10.10s %-26.26s %6lld %9s %5.1f%% %8.1f %8.1f %9.1f %7lld %s%s%s%s\n",
                    cdi_top_text(server, "class"),
                    cdi_top_text(apir_json_object(context, "who"), "text"),
                    (long long)cdi_top_number(context, "uid"), memory,
                    100 * cdi_top_rate(context, "busy"), cdi_top_rate(context, "graphs"),
                    cdi_top_rate(context, "calls"), cdi_top_rate(context, "us_per_call"),
                    (long long)cdi_top_number(context, "queue"), cdi_top_text(context, "state"),
                    odd && json_object_get_boolean(odd) ? ", its counts cannot be" : "",
                    *reason ? ": " : "", reason);
}

/* ---- devices ----------------------------------------------------------------------- */

static struct device *device_find(struct device *devices, int *n, const char *id)
{
    for (int i = 0; i < *n; i++)
        if (strcmp(devices[i].id, id) == 0)
            return &devices[i];
    if (*n == DEVICES_MAX)
        return NULL;
    devices[*n] = (struct device){.id = id};
    return &devices[(*n)++];
}

static int devices_add(struct json_object *server, struct device *devices, int n)
{
    struct json_object *item;

    for (size_t i = 0; (item = cdi_top_item(server, "devices", i)); i++) {
        struct device *d = device_find(devices, &n, cdi_top_text(item, "id"));
        const int64_t memory = cdi_top_number(item, "memory");
        if (!d)
            continue;
        d->memory = memory > INT64_MAX - d->memory ? INT64_MAX : d->memory + memory;
        d->contexts += cdi_top_number(item, "contexts") & INT32_MAX;
    }
    for (size_t i = 0; (item = cdi_top_item(server, "contexts", i)); i++) {
        struct json_object *of = apir_json_object(item, "devices");
        if (!of)
            continue;
        json_object_object_foreach(of, id, value)
        {
            (void)value;
            struct device *d = device_find(devices, &n, id);
            if (!d)
                continue;
            d->busy += cdi_top_rate(item, "busy");
            d->graphs += cdi_top_rate(item, "graphs");
        }
    }
    return n;
}

static void print_devices(FILE *out, struct json_object *servers)
{
    struct device devices[DEVICES_MAX];
    int n = 0;

    for (size_t i = 0; i < apir_json_length(servers); i++)
        n = devices_add(json_object_array_get_idx(servers, i), devices, n);
    fputs("\n", out);
    if (n > 0)
        apir_text_print(out, "%-44s %9s %6s %8s %8s\n", "DEVICE", "MEMORY", "BUSY", "GRAPHS/s",
                        "CONTEXTS");
    for (int i = 0; i < n; i++) {
        char memory[32];
        memory_text(memory, sizeof(memory), devices[i].memory);
        apir_text_print(out, "%-44.64s %9s %5.1f%% %8.1f %8lld\n", devices[i].id, memory,
                        100 * devices[i].busy, devices[i].graphs, (long long)devices[i].contexts);
    }
}

/* ---- events ------------------------------------------------------------------------ */

void cdi_top_event_line(FILE *out, struct json_object *server, struct json_object *event)
{
    const time_t at = (time_t)(cdi_top_number(event, "at_ms") / 1000);
    const int64_t times = cdi_top_number(event, "times"),
                  context = cdi_top_number(event, "context");
    const char *who = cdi_top_text(apir_json_object(event, "who"), "text");
    char when[32] = "?", again[32] = "", which[32] = "";
    struct tm tm;

    if (localtime_r(&at, &tm))
        (void)strftime(when, sizeof(when), "%F %T", &tm);
    if (times > 1)
        snprintf(again, sizeof(again), " (%lld times)", (long long)times);
    if (context > 0)
        snprintf(which, sizeof(which), " context %lld", (long long)context);
    apir_text_print(out, "%s %s %s%s uid %lld%s%s: %s%s\n", when, cdi_top_text(server, "class"),
                    cdi_top_text(event, "kind"), which, (long long)cdi_top_number(event, "uid"),
                    *who ? " " : "", who, cdi_top_text(event, "reason"), again);
}

/* The last of each server: the newest of all are among them. */
static void print_events(FILE *out, struct json_object *servers)
{
    for (size_t i = 0; i < apir_json_length(servers); i++) {
        struct json_object *server = json_object_array_get_idx(servers, i);
        const size_t n = apir_json_length(apir_json_array(server, "events"));
        for (size_t k = n > EVENTS_LAST ? n - EVENTS_LAST : 0; k < n; k++) {
            cdi_top_event_line(out, server, cdi_top_item(server, "events", k));
        }
    }
}

void cdi_top_table(FILE *out, struct json_object *servers)
{
    struct json_object *context;

    apir_text_print(out, "%-10s %-26s %6s %9s %6s %8s %8s %9s %7s %s\n", "CLASS", "CONTAINER",
                    "UID", "MEMORY", "BUSY", "GRAPHS/s", "CALLS/s", "us/CALL", "QUEUE", "STATE");
    for (size_t i = 0; i < apir_json_length(servers); i++) {
        struct json_object *server = json_object_array_get_idx(servers, i);
        for (size_t k = 0; (context = cdi_top_item(server, "contexts", k)); k++)
            print_context(out, server, context);
    }
    print_devices(out, servers);
    fputs("\n", out);
    for (size_t i = 0; i < apir_json_length(servers); i++) {
        struct json_object *server = json_object_array_get_idx(servers, i);
        const char *error = cdi_top_text(server, "error");
        if (*error)
            apir_text_print(out, "server %lld (%s) %s\n", (long long)cdi_top_number(server, "pid"),
                            cdi_top_text(server, "at"), error);
    }
    print_events(out, servers);
}
