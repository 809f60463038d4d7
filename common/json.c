/* SPDX-License-Identifier: Apache-2.0 */
#include "common/json.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/regular.h"
#include "common/text.h"

#define DEPTH_MAX 32

static void tokener_free(struct json_tokener **tok)
{
    if (*tok)
        json_tokener_free(*tok);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t digits(const char *text, size_t size)
{
    size_t n = 0;

    while (n < size && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

/* The length of the number that text begins with; 0 for what is none, such as 01 and 1. */
static size_t number_length(const char *text, size_t size)
{
    size_t n = size > 0 && text[0] == '-', whole = digits(text + n, size - n);

    if (whole == 0 || (whole > 1 && text[n] == '0'))
        return 0;
    n += whole;
    if (n < size && text[n] == '.') {
        size_t part = digits(text + n + 1, size - n - 1);
        if (part == 0)
            return 0;
        n += 1 + part;
    }
    if (n < size && (text[n] == 'e' || text[n] == 'E')) {
        n++;
        if (n < size && (text[n] == '+' || text[n] == '-'))
            n++;
        size_t power = digits(text + n, size - n);
        if (power == 0)
            return 0;
        n += power;
    }
    return n;
}

/*
 * Where what json-c takes for JSON and no other reader does begins, in a text that it
 * has taken: 'names' in single quotes, NaN and Infinity, numbers such as -01, and a
 * name with a NUL, which it cuts there. size where there is none.
 */
static size_t find_liberty(const char *data, size_t size)
{
    bool in_string = false, has_nul = false;

    for (size_t i = 0; i < size; i++) {
        if (in_string && data[i] == '\\') {
            has_nul = has_nul || (size - i >= 6 && memcmp(data + i, "\\u0000", 6) == 0);
            i++;
        } else if (data[i] == '"') {
            in_string = !in_string;
            has_nul = has_nul && !in_string;
        } else if (!in_string && (data[i] == '-' || (data[i] >= '0' && data[i] <= '9'))) {
            size_t n = number_length(data + i, size - i);
            if (n == 0)
                return i;
            i += n - 1;
        } else if (!in_string && ((data[i] == ':' && has_nul) || data[i] == '\'' ||
                                  data[i] == 'N' || data[i] == 'I')) {
            return i;
        }
    }
    return size;
}

/* The names so far of each object that is open; NULL where an array is. */
struct open_objects {
    struct json_object *names[DEPTH_MAX + 1];
    size_t depth;
};

static void open_objects_put(struct open_objects *open)
{
    for (size_t i = 0; i <= DEPTH_MAX; i++)
        json_object_put(open->names[i]);
}

/*
 * Where a name comes a second time in its object, in a text that json-c has taken and
 * that has none of its liberties; size where none does. Of two json-c keeps the last;
 * others keep the first, or refuse. Where readers differ, what one has checked is not
 * what another does. Returns 0, -ENOMEM, or -EBADMSG for what json-c cannot have taken.
 */
static int find_twice(const char *data, size_t size, size_t *ret_at)
{
    __attribute__((cleanup(open_objects_put))) struct open_objects open = {.depth = 0};
    __attribute__((cleanup(tokener_free))) struct json_tokener *tok = json_tokener_new();

    if (!tok)
        return -ENOMEM;
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '{' || data[i] == '[') {
            if (open.depth == DEPTH_MAX)
                return -EBADMSG;
            open.names[++open.depth] = data[i] == '{' ? json_object_new_object() : NULL;
            if (data[i] == '{' && !open.names[open.depth])
                return -ENOMEM;
        } else if (data[i] == '}' || data[i] == ']') {
            if (open.depth == 0)
                return -EBADMSG;
            json_object_put(open.names[open.depth]);
            open.names[open.depth--] = NULL;
        } else if (data[i] == '"') {
            const size_t began = i;
            while (++i < size && data[i] != '"')
                i += data[i] == '\\';
            if (i >= size)
                return -EBADMSG;
            size_t next = i + 1;
            while (next < size && is_blank(data[next]))
                next++;
            if (next == size || data[next] != ':')
                continue;
            /* As json-c reads it: \u0061 is an a. */
            json_tokener_reset(tok);
            cleanup_json struct json_object *name =
                json_tokener_parse_ex(tok, data + began, (int)(i + 1 - began));
            if (!name)
                return -ENOMEM;
            struct json_object *names = open.names[open.depth];
            const char *text = json_object_get_string(name);
            if (!names || !text)
                return -EBADMSG;
            if (json_object_object_get_ex(names, text, NULL)) {
                *ret_at = began;
                return 0;
            }
            if (json_object_object_add(names, text, NULL) < 0)
                return -ENOMEM;
        }
    }
    *ret_at = size;
    return 0;
}

/* -EBADMSG, with the place in the text. */
static int bad(const char *data, size_t at, const char *what, struct apir_error *err)
{
    size_t line = 1;

    for (size_t i = 0; i < at; i++)
        line += data[i] == '\n';
    return apir_error_set(err, EBADMSG, "line %zu, byte %zu: %s", line, at, what);
}

int apir_json_parse(const char *data, size_t size, struct json_object **ret_object,
                    struct apir_error *err)
{
    __attribute__((cleanup(tokener_free))) struct json_tokener *tok =
        json_tokener_new_ex(DEPTH_MAX);
    cleanup_json struct json_object *object = NULL;

    if (!tok)
        return apir_error_sys(err, ENOMEM, "JSON");
    if (size > INT_MAX - 1)
        return apir_error_set(err, EFBIG, "JSON of %zu bytes", size);
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);

    /* An object ends with its brace: "continue" is one that has none. */
    object = json_tokener_parse_ex(tok, data, (int)size);
    enum json_tokener_error jerr = json_tokener_get_error(tok);
    size_t end = json_tokener_get_parse_end(tok);
    if (jerr == json_tokener_continue)
        return bad(data, size, "JSON ends early", err);
    if (jerr != json_tokener_success)
        return bad(data, end, json_tokener_error_desc(jerr), err);
    for (; end < size; end++)
        if (!is_blank(data[end]))
            return bad(data, end, "something follows the JSON object", err);
    if (!json_object_is_type(object, json_type_object))
        return apir_error_set(err, EBADMSG, "JSON: not an object");
    size_t at = find_liberty(data, size);
    if (at < size)
        return bad(data, at,
                   "single quotes, NaN, Infinity, a number such as 01 or a name with a NUL", err);
    int rc = find_twice(data, size, &at);
    if (rc < 0)
        return apir_error_sys(err, -rc, "JSON");
    if (at < size)
        return bad(data, at, "a name comes twice in one object", err);

    *ret_object = steal_pointer(&object);
    return 0;
}

int apir_json_load(const char *path, size_t max, struct json_object **ret_object,
                   struct apir_error *err)
{
    cleanup_fd int fd = apir_regular_open(AT_FDCWD, path, 0);
    cleanup_free char *data = NULL;
    size_t size = 0;

    if (fd == -EINVAL)
        return apir_error_set(err, EINVAL, "%s: not a regular file", path);
    if (fd < 0)
        return apir_error_sys(err, -fd, "%s", path);
    int rc = apir_file_read(fd, max, &data, &size, err);
    if (rc == 0)
        rc = apir_json_parse(data, size, ret_object, err);
    return apir_error_wrap(err, rc, "%s", path);
}

struct json_object *apir_json_member(struct json_object *object, const char *key, int type)
{
    struct json_object *member = NULL;

    if (!json_object_is_type(object, json_type_object) ||
        !json_object_object_get_ex(object, key, &member) ||
        !json_object_is_type(member, (enum json_type)type))
        return NULL;
    return member;
}

struct json_object *apir_json_array(struct json_object *object, const char *key)
{
    return apir_json_member(object, key, json_type_array);
}

struct json_object *apir_json_object(struct json_object *object, const char *key)
{
    return apir_json_member(object, key, json_type_object);
}

size_t apir_json_length(struct json_object *array)
{
    return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

static const char *whole_string(struct json_object *value)
{
    if (!json_object_is_type(value, json_type_string))
        return NULL;
    const char *s = json_object_get_string(value);
    /* "a\u0000b" must not become "a" on its way to a path. */
    return strlen(s) == (size_t)json_object_get_string_len(value) ? s : NULL;
}

const char *apir_json_string(struct json_object *object, const char *key)
{
    return whole_string(apir_json_member(object, key, json_type_string));
}

const char *apir_json_string_at(struct json_object *array, size_t i)
{
    return i < apir_json_length(array) ? whole_string(json_object_array_get_idx(array, i)) : NULL;
}

bool apir_json_has_string(struct json_object *array, const char *text)
{
    for (size_t i = 0; i < apir_json_length(array); i++) {
        const char *item = apir_json_string_at(array, i);
        if (item && strcmp(item, text) == 0)
            return true;
    }
    return false;
}

int apir_json_set(struct json_object *object, const char *key, struct json_object *value)
{
    if (object && value && json_object_object_add(object, key, value) == 0)
        return 0;
    json_object_put(value);
    return -ENOMEM;
}

int apir_json_append(struct json_object *array, struct json_object *value)
{
    if (array && value && json_object_array_add(array, value) == 0)
        return 0;
    json_object_put(value);
    return -ENOMEM;
}

void apir_json_put(struct json_object **object)
{
    json_object_put(*object);
    *object = NULL;
}

int apir_json_print(struct json_object *object)
{
    const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
                                                                  JSON_C_TO_STRING_NOSLASHESCAPE);

    return text ? apir_text_print_json(text) : -ENOMEM;
}
