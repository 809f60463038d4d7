/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/seen/report.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/text.h"
#include "protocol/atomic.h"

/* Where there is no memory, the object that is being built is void: each of these takes NULL. */
static void set_number(struct json_object *object, const char *key, uint64_t n)
{
    (void)apir_json_set(object, key, json_object_new_int64(n < INT64_MAX ? (int64_t)n : INT64_MAX));
}

/* Reasons have words of guests and drivers. */
static void set_text(struct json_object *object, const char *key, const char *text)
{
    cleanup_free char *copy = strdup(text);
    if (copy)
        apir_text_clean(copy);
    (void)apir_json_set(object, key, copy ? json_object_new_string(copy) : NULL);
}

/* ---- the server ---------------------------------------------------------------- */

static struct json_object *limits_of(const struct apir_config *config)
{
    const struct {
        const char *name;
        uint32_t value;
    } limits[] = {
        {"max_contexts", config->max_contexts},
        {"max_contexts_per_user", config->max_contexts_per_user},
        {"max_contexts_per_device", config->max_contexts_per_device},
        {"device_memory_mib", config->device_memory_mib},
        {"class_device_memory_mib", config->class_device_memory_mib},
        {"context_device_memory_mib", config->context_device_memory_mib},
        {"context_host_memory_mib", config->context_host_memory_mib},
        {"context_shm_mib", config->context_shm_mib},
        {"class_shm_mib", config->class_shm_mib},
        {"context_gpu_percent", config->context_gpu_percent},
        {"weight", config->weight},
    };
    struct json_object *object = json_object_new_object();
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        set_number(object, limits[i].name, limits[i].value);
    return object;
}

static struct json_object *server_of(const struct server_contexts *contexts, const char *socket)
{
    struct json_object *object = json_object_new_object();
    set_number(object, "pid", (uint64_t)getpid());
    set_number(object, "uid", geteuid());
    set_text(object, "version", APIR_VERSION);
    if (socket)
        set_text(object, "socket", socket);
    else
        set_number(object, "vmm", (uint64_t)contexts->vmm);
    if (contexts->env.config_path)
        set_text(object, "config", contexts->env.config_path);
    set_number(object, "now_ns", apir_now_ns());
    (void)apir_json_set(object, "mps",
                        json_object_new_boolean(contexts->env.config->mps != APIR_CONFIG_OFF));
    (void)apir_json_set(object, "limits", limits_of(contexts->env.config));
    return object;
}

/* By the books: also of contexts that have ended, whose workers have not. */
static struct json_object *devices_of(const struct server_limits *limits)
{
    struct json_object *list = json_object_new_array();
    for (uint32_t i = 0; i < limits->n_rows; i++) {
        const struct server_claim *row = &limits->rows[i];
        if (row->contexts == 0)
            continue;
        struct json_object *object = json_object_new_object();
        set_text(object, "id", row->device);
        set_number(object, "memory", row->bytes);
        set_number(object, "contexts", row->contexts);
        (void)apir_json_append(list, object);
    }
    return list;
}

/* ---- contexts ------------------------------------------------------------------- */

static const char *state_of(const struct server_context *context)
{
    if (!context->served)
        return "refused";
    if (context->lost)
        return "lost";
    return server_worker_ready(&context->worker) ? "served" : "waiting";
}

/* Bytes of messages that wait; the guest writes one end, and may write anything. */
static uint64_t queue_of(const struct server_context *context)
{
    if (!context->ring)
        return 0;
    const uint64_t head = apir_load_acquire64(&context->ring->head);
    const uint64_t queue = apir_load_acquire64(&context->ring->tail) - head;
    const uint64_t most = context->blobs[APIR_RING_BLOB_ID].size / 2;
    return queue < most ? queue : most;
}

static void set_worker(struct json_object *object, struct server_context *context)
{
    const struct server_counts *counts = server_worker_counts(&context->worker);
    char sandbox[sizeof(((struct apir_worker_counts *)NULL)->sandbox)];
    if (!counts)
        return;
    set_number(object, "worker", (uint64_t)context->worker.child.pid);
    set_number(object, "busy_ns", counts->busy_ns);
    set_number(object, "graphs_ns", counts->graphs_ns);
    set_number(object, "turns_ns", counts->turns_ns);
    set_number(object, "longest_ns", counts->longest_ns);
    set_number(object, "messages", counts->messages);
    set_number(object, "graphs", counts->graphs);
    set_number(object, "set_bytes", counts->set_bytes);
    set_number(object, "got_bytes", counts->got_bytes);
    (void)apir_json_set(object, "odd", json_object_new_boolean(counts->odd));
    memcpy(sandbox, context->worker.status->counts.sandbox, sizeof(sandbox));
    sandbox[sizeof(sandbox) - 1] = '\0';
    set_text(object, "sandbox", sandbox);
}

static struct json_object *memory_of(const struct server_account *account)
{
    struct json_object *object = json_object_new_object();
    for (unsigned i = 0; account && i < account->n_devices; i++)
        set_number(object, account->devices[i].id, account->devices[i].bytes);
    return object;
}

static struct json_object *context_of(struct server_context *context)
{
    const pid_t pid = context->pid ? context->pid : context->contexts->vmm;
    struct json_object *object = json_object_new_object();
    set_number(object, "id", context->id);
    set_number(object, "uid", context->user->uid);
    set_number(object, "pid", (uint64_t)pid);
    set_number(object, "began_ms", (uint64_t)context->began_ms);
    set_text(object, "state", state_of(context));
    if (context->lost)
        set_text(object, "reason", context->reason);
    set_number(object, "shm", context->shm_size);
    set_number(object, "queue", queue_of(context));
    (void)apir_json_set(object, "devices", memory_of(context->worker.account));
    set_worker(object, context);
    return object;
}

/* ---- events --------------------------------------------------------------------- */

static struct json_object *event_of(const struct server_event *event)
{
    struct json_object *object = json_object_new_object();
    set_number(object, "number", event->number);
    set_number(object, "at_ms", (uint64_t)event->at_ms);
    set_text(object, "kind", server_event_name(event->kind));
    if (event->context)
        set_number(object, "context", event->context);
    if (event->pid)
        set_number(object, "pid", (uint64_t)event->pid);
    set_number(object, "uid", event->uid);
    set_number(object, "times", event->times);
    set_text(object, "reason", event->reason);
    return object;
}

static void set_events(struct json_object *object, const struct server_events *events)
{
    struct json_object *list = json_object_new_array(), *sums = json_object_new_object();
    for (uint64_t n = server_events_first(events); n <= events->n; n++)
        (void)apir_json_append(list, event_of(server_events_get(events, n)));
    for (unsigned kind = 0; kind < SERVER_EVENT_KINDS; kind++)
        set_number(sums, server_event_name((enum server_event_kind)kind), events->of_kind[kind]);
    (void)apir_json_set(object, "events", list);
    (void)apir_json_set(object, "event_sums", sums);
}

char *server_report_make(struct server_contexts *contexts, const char *socket, size_t *ret_size)
{
    cleanup_json struct json_object *object = json_object_new_object();
    struct json_object *list = json_object_new_array();
    for (struct server_context *c = contexts->first; c; c = c->next)
        (void)apir_json_append(list, context_of(c));
    (void)apir_json_set(object, "server", server_of(contexts, socket));
    (void)apir_json_set(object, "devices", devices_of(&contexts->accounts.limits));
    (void)apir_json_set(object, "contexts", list);
    set_events(object, &contexts->events);
    size_t size = 0;
    const char *text =
        object ? json_object_to_json_string_length(
                     object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &size)
               : NULL;
    char *copy = text ? malloc(size + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, text, size);
    copy[size] = '\n';
    *ret_size = size + 1;
    return copy;
}
