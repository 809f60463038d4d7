/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir metrics: OpenMetrics text. A family is told as a whole, so each goes through all servers.
 * What is of a context has its class, id, user and container as labels: as many series as there are
 * programs, and those of one end with it.
 */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "cdi/commands.h"
#include "cdi/top/sample.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/text.h"

/* Of a context: a number that it has, in this unit. */
static const struct family {
    const char *name, *suffix, *type, *help, *key;
    double unit;
} families[] = {
    {"apir_context_busy_seconds", "_total", "counter", "Time at work.", "busy_ns", 1e9},
    {"apir_context_graph_seconds", "_total", "counter", "Time in graphs.", "graphs_ns", 1e9},
    {"apir_context_turns_seconds", "_total", "counter", "Time waiting for turns.", "turns_ns", 1e9},
    {"apir_context_longest_graph_seconds", "", "gauge", "Longest graph.", "longest_ns", 1e9},
    {"apir_context_graphs", "_total", "counter", "Graphs computed.", "graphs", 1},
    {"apir_context_calls", "_total", "counter", "Messages served.", "messages", 1},
    {"apir_context_set_bytes", "_total", "counter", "Bytes to the host.", "set_bytes", 1},
    {"apir_context_got_bytes", "_total", "counter", "Bytes from the host.", "got_bytes", 1},
    {"apir_context_shared_memory_bytes", "", "gauge", "Shared memory.", "shm", 1},
    {"apir_context_queue_bytes", "", "gauge", "Messages that wait.", "queue", 1},
};

static void head(const char *name, const char *type, const char *help)
{
    printf("# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

/* name="text": cleaned, and with the three characters escaped that have a meaning there. */
static void label(const char *name, const char *text)
{
    cleanup_free char *copy = strdup(text);

    printf("%s=\"", name);
    if (copy)
        apir_text_clean(copy);
    for (const char *p = copy ? copy : ""; *p; p++) {
        if (*p == '"' || *p == '\\')
            putchar('\\');
        putchar(*p);
    }
    putchar('"');
}

/* One sample, of a server or, where there is one, a context of its; key: one label more, or NULL.
 */
static void sample(const char *name, const char *suffix, struct json_object *server,
                   struct json_object *context, const char *key, const char *text, double value)
{
    struct json_object *who = apir_json_object(context, "who");
    const char *engine = cdi_top_text(who, "engine"), *id = cdi_top_text(who, "id");

    printf("%s%s{", name, suffix);
    label("class", cdi_top_text(server, "class"));
    printf(",server=\"%" PRId64 "\"", cdi_top_number(server, "pid"));
    if (context) {
        printf(",context=\"%" PRId64 "\",uid=\"%" PRId64 "\",pid=\"%" PRId64 "\",",
               cdi_top_number(context, "id"), cdi_top_number(context, "uid"),
               cdi_top_number(context, "pid"));
        label("engine", engine);
        putchar(',');
        label("container", id);
    }
    if (key) {
        putchar(',');
        label(key, text);
    }
    printf("} %.17g\n", value);
}

static struct json_object *server_at(struct json_object *servers, size_t i)
{
    return i < apir_json_length(servers) ? json_object_array_get_idx(servers, i) : NULL;
}

static void print_servers(struct json_object *servers)
{
    struct json_object *server;

    head("apir_server_up", "gauge", "Whether the server answers.");
    for (size_t i = 0; (server = server_at(servers, i)); i++)
        sample("apir_server_up", "", server, NULL, NULL, NULL,
               *cdi_top_text(server, "error") == '\0');
    head("apir_events", "counter", "What was refused or lost.");
    for (size_t i = 0; (server = server_at(servers, i)); i++) {
        struct json_object *sums = apir_json_object(server, "event_sums");
        if (!sums)
            continue;
        json_object_object_foreach(sums, kind, sum)
        {
            (void)sum;
            sample("apir_events", "_total", server, NULL, "kind", kind,
                   (double)cdi_top_number(sums, kind));
        }
    }
}

static void print_family(struct json_object *servers, const struct family *f)
{
    struct json_object *server, *context;

    head(f->name, f->type, f->help);
    for (size_t i = 0; (server = server_at(servers, i)); i++) {
        for (size_t k = 0; (context = cdi_top_item(server, "contexts", k)); k++)
            sample(f->name, f->suffix, server, context, NULL, NULL,
                   (double)cdi_top_number(context, f->key) / f->unit);
    }
}

static void print_states(struct json_object *servers)
{
    static const char *const states[] = {"waiting", "served", "refused", "lost"};
    struct json_object *server, *context;

    head("apir_context_state", "stateset", "What has become of it.");
    for (size_t i = 0; (server = server_at(servers, i)); i++) {
        for (size_t k = 0; (context = cdi_top_item(server, "contexts", k)); k++) {
            for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++)
                sample("apir_context_state", "", server, context, "apir_context_state", states[s],
                       strcmp(cdi_top_text(context, "state"), states[s]) == 0);
        }
    }
}

static void print_memory(struct json_object *servers)
{
    struct json_object *server, *item;

    head("apir_context_device_memory_bytes", "gauge", "Memory of a device.");
    for (size_t i = 0; (server = server_at(servers, i)); i++) {
        for (size_t k = 0; (item = cdi_top_item(server, "contexts", k)); k++) {
            struct json_object *devices = apir_json_object(item, "devices");
            if (!devices)
                continue;
            json_object_object_foreach(devices, id, bytes)
            {
                (void)bytes;
                sample("apir_context_device_memory_bytes", "", server, item, "device", id,
                       (double)cdi_top_number(devices, id));
            }
        }
    }
    head("apir_device_memory_bytes", "gauge", "What a server's contexts have of a device.");
    for (size_t i = 0; (server = server_at(servers, i)); i++) {
        for (size_t k = 0; (item = cdi_top_item(server, "devices", k)); k++)
            sample("apir_device_memory_bytes", "", server, NULL, "device", cdi_top_text(item, "id"),
                   (double)cdi_top_number(item, "memory"));
    }
}

int cdi_metrics_main(const struct cdi_args *args)
{
    struct apir_error err = {0};
    cleanup_json struct json_object *servers = cdi_top_sample(&err);
    if (!servers) {
        apir_text_print(stderr, "%s: %s\n", args->command, err.msg);
        return CDI_EXIT_FAILED;
    }
    print_servers(servers);
    print_states(servers);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        print_family(servers, &families[i]);
    print_memory(servers);
    puts("# EOF");
    return cdi_top_code(servers) == CDI_EXIT_FAILED ? CDI_EXIT_FAILED : CDI_EXIT_OK;
}
