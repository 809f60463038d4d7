/* SPDX-License-Identifier: Apache-2.0 */
/* Reading samples files: another program, or a person, may have written them. */
#define _GNU_SOURCE
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/bench/sample.h"

enum { SAMPLES_MAX = 1 << 20, LINE_DEPTH_MAX = 4 };

static void json_put(struct json_object **json)
{
    json_object_put(*json);
}

static void tokener_free(struct json_tokener **t)
{
    if (*t)
        json_tokener_free(*t);
}

#define cleanup_json    __attribute__((cleanup(json_put)))
#define cleanup_tokener __attribute__((cleanup(tokener_free)))

/* NULL with *ret_why set: not one whole JSON object. */
static struct json_object *line_object(const char *line, size_t size, const char **ret_why)
{
    cleanup_tokener struct json_tokener *t = json_tokener_new_ex(LINE_DEPTH_MAX);
    *ret_why = "out of memory";
    if (!t)
        return NULL;
    json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    /* Strict: what follows the value is an error too, blanks included. */
    while (size > 0 && strchr(" \t\r", line[size - 1]))
        size--;
    struct json_object *o = json_tokener_parse_ex(t, line, (int)size);
    enum json_tokener_error bad = json_tokener_get_error(t);
    if (bad == json_tokener_success && json_object_is_type(o, json_type_object))
        return o;
    *ret_why = bad == json_tokener_continue  ? "the line ends too early"
               : bad == json_tokener_success ? "not a JSON object"
                                             : json_tokener_error_desc(bad);
    json_object_put(o);
    return NULL;
}

static int read_text(struct json_object *value, const char *key, bool (*ok)(const char *),
                     char *buf, size_t size, struct apir_error *err)
{
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    /* A NUL within would end it early and unseen. */
    if (strlen(text) >= size || !ok(text) ||
        strlen(text) != (size_t)json_object_get_string_len(value))
        return apir_error_set(err, EINVAL,
                              "\"%s\" must be a string of 1 to %zu letters, digits and -._:", key,
                              size - 1);
    memcpy(buf, text, strlen(text) + 1);
    return 0;
}

static int read_number(struct json_object *value, const char *key, double *ret_number,
                       struct apir_error *err)
{
    if (!json_object_is_type(value, json_type_double) && !json_object_is_type(value, json_type_int))
        return apir_error_set(err, EINVAL, "\"%s\" must be a number", key);
    *ret_number = json_object_get_double(value);
    if (!isfinite(*ret_number))
        return apir_error_set(err, EINVAL, "\"%s\" is not finite", key);
    return 0;
}

static int read_key(struct sample *s, const char *key, struct json_object *value,
                    struct apir_error *err)
{
    if (strcmp(key, "case") == 0)
        return read_text(value, key, sample_name_ok, s->name, sizeof(s->name), err);
    if (strcmp(key, "side") == 0)
        return read_text(value, key, sample_name_ok, s->side, sizeof(s->side), err);
    if (strcmp(key, "metric") == 0)
        return read_text(value, key, sample_name_ok, s->metric, sizeof(s->metric), err);
    if (strcmp(key, "time") == 0)
        return read_text(value, key, sample_name_ok, s->time, sizeof(s->time), err);
    if (strcmp(key, "commit") == 0)
        return read_text(value, key, sample_name_ok, s->commit, sizeof(s->commit), err);
    if (strcmp(key, "unit") == 0)
        return read_text(value, key, sample_unit_ok, s->unit, sizeof(s->unit), err);
    if (strcmp(key, "pair") == 0) {
        s->pair = json_object_get_int64(value);
        if (!json_object_is_type(value, json_type_int) || s->pair < 0 || s->pair > INT32_MAX)
            return apir_error_set(err, EINVAL, "\"pair\" must be a whole number, 0 or more");
        return 0;
    }
    if (strcmp(key, "n") == 0) {
        int rc = read_number(value, key, &s->n, err);
        return rc < 0 || s->n > 0 ? rc : apir_error_set(err, EINVAL, "\"n\" must be more than 0");
    }
    if (strcmp(key, "seconds") == 0 || strcmp(key, "value") == 0)
        return read_number(value, key, &s->value, err);
    return apir_error_set(err, EINVAL, "unknown key \"%s\"", key);
}

static int read_sample(struct json_object *o, struct sample *ret_sample, struct apir_error *err)
{
    struct sample s = {.pair = SAMPLE_NO_PAIR};
    json_object_object_foreach(o, key, value)
    {
        int rc = read_key(&s, key, value, err);
        if (rc < 0)
            return rc;
    }
    bool seconds = json_object_object_get_ex(o, "seconds", NULL);
    if (!s.name[0] || !s.side[0] || !s.metric[0])
        return apir_error_set(err, EINVAL, "\"case\", \"side\" and \"metric\" must all be there");
    if (seconds == json_object_object_get_ex(o, "value", NULL) || seconds == (s.unit[0] != 0))
        return apir_error_set(err, EINVAL, "either \"seconds\", or \"value\" with \"unit\"");
    if (seconds && s.value <= 0)
        return apir_error_set(err, EINVAL, "\"seconds\" must be more than 0");
    *ret_sample = s;
    return 0;
}

/* Two runs in one file could not be told apart: pairs would be made of their mixture. */
static bool is_repeated(const struct samples *all, const struct sample *s)
{
    for (size_t i = 0; s->pair != SAMPLE_NO_PAIR && i < all->n; i++) {
        const struct sample *other = &all->all[i];
        if (other->pair == s->pair && strcmp(other->metric, s->metric) == 0 &&
            strcmp(other->name, s->name) == 0 && strcmp(other->side, s->side) == 0)
            return true;
    }
    return false;
}

static int samples_add(struct samples *all, const struct sample *s, struct apir_error *err)
{
    if (is_repeated(all, s))
        return apir_error_set(err, EEXIST,
                              "pair %lld of case %s, side %s, metric %s was there before; give the "
                              "files of one run only",
                              (long long)s->pair, s->name, s->side, s->metric);
    if (all->n == SAMPLES_MAX)
        return apir_error_set(err, EFBIG, "more than %d samples", SAMPLES_MAX);
    if (all->n == all->space) {
        size_t space = all->space ? 2 * all->space : 256;
        struct sample *bigger = realloc(all->all, space * sizeof(*bigger));
        if (!bigger)
            return apir_error_sys(err, ENOMEM, "samples");
        all->all = bigger;
        all->space = space;
    }
    all->all[all->n++] = *s;
    return 0;
}

static int line_parse(struct samples *all, const char *line, size_t size, struct apir_error *err)
{
    const char *why;
    cleanup_json struct json_object *o = line_object(line, size, &why);
    if (!o)
        return apir_error_set(err, EINVAL, "%s", why);
    struct json_object *facts;
    if (json_object_object_get_ex(o, "facts", &facts)) {
        if (!json_object_is_type(facts, json_type_object))
            return apir_error_set(err, EINVAL, "\"facts\" must be an object");
        if (!all->facts)
            all->facts = json_object_get(facts);
        return 0;
    }
    struct sample s;
    int rc = read_sample(o, &s, err);
    return rc < 0 ? rc : samples_add(all, &s, err);
}

int samples_parse(struct samples *all, const char *path, const char *text, struct apir_error *err)
{
    size_t number = 1;
    for (const char *line = text; *line; number++) {
        size_t size = strcspn(line, "\n");
        if (strspn(line, " \t\r") < size) {
            int rc = line_parse(all, line, size, err);
            if (rc < 0) {
                (void)apir_error_wrap(err, "%s:%zu", path, number);
                return rc;
            }
        }
        line += size + (line[size] == '\n');
    }
    return 0;
}

int samples_read(struct samples *all, const char *path, struct apir_error *err)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return apir_error_sys(err, errno, "%s", path);
    cleanup_free char *text = NULL;
    size_t space = 0;
    errno = 0;
    /* Up to a NUL, which no JSON holds: the whole file. */
    ssize_t size = getdelim(&text, &space, '\0', f);
    int code = ferror(f) ? errno : 0;
    fclose(f);
    if (code)
        return apir_error_sys(err, code, "%s", path);
    if (size < 0)
        return 0; /* empty */
    if (strlen(text) != (size_t)size)
        return apir_error_set(err, EINVAL, "%s: holds a NUL byte; not a samples file", path);
    return samples_parse(all, path, text, err);
}

void samples_fini(struct samples *all)
{
    free(all->all);
    json_object_put(all->facts);
    *all = (struct samples){0};
}
