/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/spec/number.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/given.h"
#include "common/json.h"

/* "gpu0", "gpu12"; "gpu012" is somebody else's. */
static bool parse_name(const char *name, const char *prefix, unsigned *ret_number)
{
    if (!name || strncmp(name, prefix, strlen(prefix)) != 0)
        return false;
    name += strlen(prefix);
    size_t n = strlen(name);
    if (n == 0 || n > 4 || strspn(name, "0123456789") != n || (n > 1 && name[0] == '0'))
        return false;
    *ret_number = (unsigned)atoi(name);
    return true;
}

static bool copy(char *to, size_t size, const char *from)
{
    return from && (size_t)snprintf(to, size, "%s", from) < size;
}

static void read_id(struct json_object *edits, unsigned variable, struct cdi_spec_device *k)
{
    struct json_object *env = apir_json_array(edits, "env");
    char prefix[32];
    size_t n = (size_t)snprintf(prefix, sizeof(prefix), "APIR_DEVICE_%u=", variable);

    for (size_t i = 0; i < apir_json_length(env); i++) {
        const char *s = apir_json_string_at(env, i);
        if (s && strncmp(s, prefix, n) == 0 && !copy(k->id, sizeof(k->id), s + n))
            k->id[0] = '\0';
    }
}

static bool read_device(struct json_object *device, bool host, struct cdi_spec_device *k)
{
    struct json_object *edits = apir_json_object(device, "containerEdits");
    struct json_object *nodes = apir_json_array(edits, "deviceNodes");
    const char *prefix = host ? APIR_GIVEN_HOST_DEVICE : APIR_GIVEN_GPU;

    *k = (struct cdi_spec_device){0};
    if (!parse_name(apir_json_string(device, "name"), prefix, &k->number))
        return false;
    read_id(edits, (host ? APIR_GIVEN_HOST_FIRST : 0) + k->number, k);
    return host ? k->id[0] != '\0'
                : apir_json_length(nodes) > 0 &&
                      copy(k->node, sizeof(k->node),
                           apir_json_string(json_object_array_get_idx(nodes, 0), "path"));
}

size_t cdi_number_read(struct json_object *spec, bool host, struct cdi_spec_device *known)
{
    struct json_object *devices = apir_json_array(spec, "devices");
    size_t n = 0;

    for (size_t i = 0; i < apir_json_length(devices) && n < CDI_DEVICES_MAX; i++) {
        bool twice = false;

        if (!read_device(json_object_array_get_idx(devices, i), host, &known[n]))
            continue;
        for (size_t k = 0; k < n; k++)
            twice = twice || known[k].number == known[n].number;
        n += !twice;
    }
    return n;
}

static bool same_both(const struct cdi_spec_device *a, const struct cdi_spec_device *b)
{
    return strcmp(a->node, b->node) == 0 && strcmp(a->id, b->id) == 0;
}

static bool same_id(const struct cdi_spec_device *a, const struct cdi_spec_device *b)
{
    return a->id[0] != '\0' && strcmp(a->id, b->id) == 0;
}

static bool same_node(const struct cdi_spec_device *a, const struct cdi_spec_device *b)
{
    return strcmp(a->node, b->node) == 0 && (a->id[0] == '\0' || b->id[0] == '\0');
}

void cdi_number_assign(struct cdi_spec_device *found, size_t n_found,
                       const struct cdi_spec_device *known, size_t n_known)
{
    static bool (*const same[])(const struct cdi_spec_device *,
                                const struct cdi_spec_device *) = {same_both, same_id, same_node};
    bool has_number[CDI_DEVICES_MAX] = {false}, known_again[CDI_DEVICES_MAX] = {false};
    bool taken[CDI_NUMBER_MAX + 1] = {false};

    /* The surest way over all devices first: a guess must not take what is another's. */
    for (size_t way = 0; way < sizeof(same) / sizeof(same[0]); way++) {
        for (size_t i = 0; i < n_found; i++) {
            for (size_t k = 0; k < n_known && !has_number[i]; k++) {
                if (known_again[k] || !same[way](&found[i], &known[k]))
                    continue;
                has_number[i] = known_again[k] = taken[known[k].number] = true;
                found[i].number = known[k].number;
            }
        }
    }
    for (size_t i = 0, next = 0; i < n_found; i++) {
        if (has_number[i])
            continue;
        while (taken[next])
            next++;
        found[i].number = (unsigned)next;
        taken[next] = true;
    }
}
