/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/top/sample.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cdi/commands.h"
#include "cdi/top/ask.h"
#include "cdi/top/who.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/text.h"

#define SHORT_ID 12

int64_t cdi_top_number(struct json_object *object, const char *key)
{
    struct json_object *member = apir_json_member(object, key, json_type_int);
    const int64_t n = member ? json_object_get_int64(member) : 0;

    return n > 0 ? n : 0;
}

double cdi_top_rate(struct json_object *context, const char *key)
{
    struct json_object *rates = apir_json_object(context, "rates");
    struct json_object *rate = rates ? apir_json_member(rates, key, json_type_double) : NULL;

    return rate ? json_object_get_double(rate) : 0;
}

const char *cdi_top_text(struct json_object *object, const char *key)
{
    const char *text = apir_json_string(object, key);

    return text ? text : "";
}

struct json_object *cdi_top_item(struct json_object *object, const char *key, size_t i)
{
    struct json_object *list = apir_json_array(object, key);

    return i < apir_json_length(list) ? json_object_array_get_idx(list, i) : NULL;
}

int cdi_top_code(struct json_object *servers)
{
    for (size_t i = 0; i < apir_json_length(servers); i++)
        if (*cdi_top_text(json_object_array_get_idx(servers, i), "error"))
            return CDI_EXIT_FAILED;
    return apir_json_length(servers) == 0 ? CDI_EXIT_NOTHING : CDI_EXIT_OK;
}

int cdi_top_end(const char *command, int code, const struct apir_error *err)
{
    if (err->code)
        apir_text_print(stderr, "%s: %s\n", command, err->msg);
    else if (code == CDI_EXIT_NOTHING)
        apir_text_print(stderr, "%s: no server of apir that this user may look at\n", command);
    return code;
}

/* ---- names ------------------------------------------------------------------------ */

/* By the folder of its socket: /run/apir/host-CLASS. */
static void name_class(struct json_object *server)
{
    struct json_object *said = apir_json_object(server, "server");
    const char *path = cdi_top_text(said, "socket"), *name = path;
    const char *end = strrchr(path, '/');
    size_t size = strlen(path);

    for (const char *p = path; end && p < end; p++)
        name = *p == '/' ? p + 1 : name;
    if (end && strncmp(name, "host-", 5) == 0 && end > name + 5) {
        name += 5;
        size = (size_t)(end - name);
    } else if (end && end - name == 4 && strncmp(name, "host", 4) == 0) {
        size = 4;
    } else {
        name = *path ? path : "vm";
        size = strlen(name);
    }
    (void)apir_json_set(server, "class", json_object_new_string_len(name, (int)size));
}

static void name_peer(struct json_object *object, int64_t began_ms, bool vm)
{
    const int64_t pid = cdi_top_number(object, "pid");
    struct json_object *who = json_object_new_object();
    struct cdi_who found;
    char text[128];

    const bool is_there = cdi_who_look(pid, began_ms, &found);
    if (vm)
        snprintf(text, sizeof(text), "vm:%lld %s", (long long)pid, found.name);
    else if (is_there && found.id[0])
        snprintf(text, sizeof(text), "%s:%.*s", found.engine, SHORT_ID, found.id);
    else
        snprintf(text, sizeof(text), "%lld %s", (long long)pid, found.name);
    if (text[strlen(text) - 1] == ' ')
        text[strlen(text) - 1] = '\0';
    if (found.id[0]) {
        (void)apir_json_set(who, "engine", json_object_new_string(found.engine));
        (void)apir_json_set(who, "id", json_object_new_string(found.id));
    }
    if (found.name[0])
        (void)apir_json_set(who, "name", json_object_new_string(found.name));
    (void)apir_json_set(who, vm ? "vm" : "pid", json_object_new_int64(pid));
    (void)apir_json_set(who, "text", json_object_new_string(text));
    (void)apir_json_set(object, "who", who);
}

static void name_all(struct json_object *server)
{
    struct json_object *said = apir_json_object(server, "server"), *item;
    const bool vm = said && !apir_json_string(said, "socket");
    const int64_t to_real = (int64_t)(apir_clock_ns(CLOCK_REALTIME) - apir_now_ns()) / 1000000;

    name_class(server);
    for (size_t i = 0; (item = cdi_top_item(server, "contexts", i)); i++)
        if (json_object_is_type(item, json_type_object))
            name_peer(item, cdi_top_number(item, "began_ms"), vm);
    for (size_t i = 0; (item = cdi_top_item(server, "events", i)); i++)
        if (json_object_is_type(item, json_type_object) && cdi_top_number(item, "pid") > 0)
            name_peer(item, cdi_top_number(item, "at_ms") - to_real, vm);
}

struct json_object *cdi_top_sample(struct apir_error *err)
{
    struct json_object *servers = cdi_top_ask(CDI_TOP_PATIENCE_MS, err);

    for (size_t i = 0; i < apir_json_length(servers); i++)
        name_all(json_object_array_get_idx(servers, i));
    return servers;
}

/* ---- rates ------------------------------------------------------------------------ */

struct json_object *cdi_top_same_server(struct json_object *servers, struct json_object *server)
{
    for (size_t i = 0; i < apir_json_length(servers); i++) {
        struct json_object *other = json_object_array_get_idx(servers, i);
        if (strcmp(cdi_top_text(other, "at"), cdi_top_text(server, "at")) == 0)
            return cdi_top_number(other, "pid") == cdi_top_number(server, "pid") ? other : NULL;
    }
    return NULL;
}

static struct json_object *same_context(struct json_object *server, struct json_object *context)
{
    struct json_object *other;

    for (size_t i = 0; (other = cdi_top_item(server, "contexts", i)); i++)
        if (cdi_top_number(other, "id") == cdi_top_number(context, "id") &&
            cdi_top_number(other, "began_ms") == cdi_top_number(context, "began_ms"))
            return other;
    return NULL;
}

/* A server counts up only; one that does not is not to be believed. */
static double grown(struct json_object *now, struct json_object *before, const char *key)
{
    const int64_t n = cdi_top_number(now, key) - cdi_top_number(before, key);

    return n > 0 ? (double)n : 0;
}

static void rate(struct json_object *now, struct json_object *before, double seconds)
{
    struct json_object *rates = json_object_new_object();
    const double busy_ns = grown(now, before, "busy_ns"), calls = grown(now, before, "messages");
    const double share = busy_ns / seconds / 1e9;

    (void)apir_json_set(rates, "busy", json_object_new_double(share < 1 ? share : 1));
    (void)apir_json_set(rates, "graphs",
                        json_object_new_double(grown(now, before, "graphs") / seconds));
    (void)apir_json_set(rates, "calls", json_object_new_double(calls / seconds));
    (void)apir_json_set(rates, "us_per_call",
                        json_object_new_double(calls > 0 ? busy_ns / calls / 1000 : 0));
    (void)apir_json_set(now, "rates", rates);
}

void cdi_top_rates(struct json_object *now, struct json_object *before)
{
    for (size_t i = 0; i < apir_json_length(now); i++) {
        struct json_object *server = json_object_array_get_idx(now, i), *context;
        struct json_object *other = cdi_top_same_server(before, server);
        const double ns = grown(apir_json_object(server, "server"),
                                other ? apir_json_object(other, "server") : NULL, "now_ns");
        for (size_t k = 0; ns > 0 && (context = cdi_top_item(server, "contexts", k)); k++) {
            struct json_object *then = same_context(other, context);
            if (then && json_object_is_type(context, json_type_object))
                rate(context, then, ns / 1e9);
        }
    }
}
