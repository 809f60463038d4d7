/* SPDX-License-Identifier: Apache-2.0 */
/* `machine`: what the samples that follow were measured on. */
#define _GNU_SOURCE
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <ggml-backend.h>

#include "tests/bench/engine.h"

static void add(struct json_object *o, const char *key, const char *text)
{
    json_object_object_add(o, key, json_object_new_string(text));
}

/* What follows "KEY...: " in a file of such lines. */
static void add_line(struct json_object *o, const char *key, const char *path, const char *begins)
{
    FILE *f = fopen(path, "re");
    char line[512];
    while (f && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, begins, strlen(begins)) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        add(o, key, colon + 1 + strspn(colon + 1, " \t"));
        break;
    }
    if (f)
        fclose(f);
}

static void add_system(struct json_object *o)
{
    char text[320];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    add(o, "date", text);
    struct utsname u;
    if (uname(&u) == 0) {
        snprintf(text, sizeof(text), "%s %s %s", u.sysname, u.release, u.machine);
        add(o, "kernel", text);
    }
    add_line(o, "cpu", "/proc/cpuinfo", "model name");
    json_object_object_add(o, "cores", json_object_new_int64(sysconf(_SC_NPROCESSORS_ONLN)));
    add_line(o, "memory", "/proc/meminfo", "MemTotal");
    double load[3];
    if (getloadavg(load, 3) == 3) {
        snprintf(text, sizeof(text), "%.2f %.2f %.2f", load[0], load[1], load[2]);
        add(o, "load_at_start", text);
    }
}

static void add_libraries(struct json_object *o)
{
    add(o, "ggml", ggml_version());
    add(o, "llama", llama_version());
    struct json_object *devices = json_object_new_array();
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t d = ggml_backend_dev_get(i);
        char text[320];
        snprintf(text, sizeof(text), "%s: %s", ggml_backend_dev_name(d),
                 ggml_backend_dev_description(d));
        json_object_array_add(devices, json_object_new_string(text));
    }
    json_object_object_add(o, "devices", devices);
}

void command_machine(const struct options *o)
{
    struct json_object *line = json_object_new_object(), *facts = json_object_new_object();
    /* First: loading the backends is load, too. */
    add_system(facts);
    engine_setup(o);
    add_libraries(facts);
    for (size_t i = 0; i < o->n_list; i++) {
        char key[SAMPLE_NAME_MAX + 1];
        size_t size = strcspn(o->list[i], "=");
        snprintf(key, sizeof(key), "%.*s", (int)size, o->list[i]);
        if (size == 0 || size >= sizeof(key) || !o->list[i][size])
            fail("--set %s: give KEY=VALUE", o->list[i]);
        add(facts, key, o->list[i] + size + 1);
    }
    json_object_object_add(line, "facts", facts);
    if (fprintf(o->file, "%s\n", json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN)) < 0)
        fail("writing facts: %m");
    json_object_put(line);
}
