/* SPDX-License-Identifier: Apache-2.0 */
#include "common/c17.h"

#include "cdi/engine/toml.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#define STRING_SIZE 1024 /* of a name, and of a string that is understood */

struct scan {
    const char *text;
    size_t at, line;
    struct apir_error *err;
};

static int bad(struct scan *s, const char *what)
{
    return apir_error_set(s->err, EBADMSG, "line %zu: %s", s->line, what);
}

static char peek(const struct scan *s)
{
    return s->text[s->at];
}

static bool starts(const struct scan *s, const char *with)
{
    return strncmp(s->text + s->at, with, strlen(with)) == 0;
}

static void skip_blanks(struct scan *s)
{
    while (peek(s) == ' ' || peek(s) == '\t')
        s->at++;
}

static void skip_comment(struct scan *s)
{
    if (peek(s) == '#')
        while (peek(s) != '\0' && peek(s) != '\n')
            s->at++;
}

static bool skip_newline(struct scan *s)
{
    if (peek(s) == '\r' && s->text[s->at + 1] == '\n')
        s->at++;
    if (peek(s) != '\n')
        return false;
    s->at++;
    s->line++;
    return true;
}

/* Blanks, comments and line ends, as between the elements of an array. */
static void skip_space(struct scan *s)
{
    do {
        skip_blanks(s);
        skip_comment(s);
    } while (skip_newline(s));
}

static int skip_line_end(struct scan *s)
{
    skip_blanks(s);
    skip_comment(s);
    if (peek(s) == '\0' || skip_newline(s))
        return 0;
    return bad(s, "something follows the value");
}

/* """…""" and '''…''': up to the last of the quotes. */
static int skip_long_string(struct scan *s)
{
    char quote = peek(s);
    const char end[4] = {quote, quote, quote, '\0'};
    size_t from = s->line;

    s->at += 3;
    while (!starts(s, end)) {
        if (peek(s) == '\0') {
            s->line = from;
            return bad(s, "a string that does not end");
        }
        if (quote == '"' && peek(s) == '\\' && s->text[s->at + 1] != '\0' &&
            s->text[s->at + 1] != '\n')
            s->at += 2;
        else if (!skip_newline(s))
            s->at++;
    }
    s->at += 3;
    /* Up to two more quotes are the string's own. */
    for (int i = 0; i < 2 && peek(s) == quote; i++)
        s->at++;
    return 0;
}

static const char escapes[] = "btnfr\"\\", escaped[] = "\b\t\n\f\r\"\\";

/* What a backslash and this stand for; NUL: something else than one character. */
static char unescape(char c)
{
    const char *at = strchr(escapes, c);

    return at ? escaped[at - escapes] : '\0';
}

/*
 * A string of one line. Returns 0, 1 where it is one that is not understood (an escape such as
 * \u0041, or too long), or -EBADMSG.
 */
static int read_string(struct scan *s, char out[STRING_SIZE])
{
    char quote = peek(s);
    size_t used = 0;
    int rc = 0;

    for (s->at++; peek(s) != quote; s->at++) {
        bool escaped_one = quote == '"' && peek(s) == '\\';

        s->at += escaped_one;
        if (peek(s) == '\0' || peek(s) == '\n')
            return bad(s, "a string that does not end");
        /* What we read is written into files that engines read, and no engine takes these. */
        if (iscntrl((unsigned char)peek(s)) && peek(s) != '\t')
            return bad(s, "a control character in a string");
        char c = escaped_one ? unescape(peek(s)) : peek(s);
        if (c == '\0' || used + 1 == STRING_SIZE)
            rc = 1;
        else
            out[used++] = c;
    }
    s->at++;
    out[used] = '\0';
    return rc;
}

static bool is_bare(char c)
{
    return isascii((unsigned char)c) && (isalnum((unsigned char)c) || c == '_' || c == '-');
}

static int read_part(struct scan *s, char out[STRING_SIZE])
{
    size_t used = 0;

    if (peek(s) == '"' || peek(s) == '\'') {
        int rc = read_string(s, out);
        return rc > 0 ? bad(s, "a name that is not understood") : rc;
    }
    for (; is_bare(peek(s)) && used + 1 < STRING_SIZE; s->at++)
        out[used++] = peek(s);
    out[used] = '\0';
    return used == 0 ? bad(s, "a name is missing") : 0;
}

/* *table becomes the table of that name in it, which is made where it is missing. */
static int enter(struct scan *s, struct json_object **table, const char *name)
{
    struct json_object *inner = NULL;

    if (!json_object_object_get_ex(*table, name, &inner)) {
        inner = json_object_new_object();
        if (apir_json_set(*table, name, inner) < 0)
            return apir_error_sys(s->err, ENOMEM, "TOML");
    }
    /* Of a list of tables the last one. */
    size_t n = apir_json_length(inner);
    if (n > 0)
        inner = json_object_array_get_idx(inner, n - 1);
    if (!json_object_is_type(inner, json_type_object))
        return bad(s, "a table where there is a value");
    *table = inner;
    return 0;
}

/* A name with its dots: *table becomes the table of its last part. */
static int read_name(struct scan *s, struct json_object **table, char last[STRING_SIZE])
{
    for (int n = 1;; n++) {
        skip_blanks(s);
        int rc = read_part(s, last);
        if (rc < 0)
            return rc;
        skip_blanks(s);
        if (peek(s) != '.')
            return 0;
        if (n == CDI_TOML_DEPTH_MAX)
            return bad(s, "a name of too many parts");
        s->at++;
        rc = enter(s, table, last);
        if (rc < 0)
            return rc;
    }
}

static int read_value(struct scan *s, int depth, struct json_object **ret);

static int read_pair(struct scan *s, struct json_object *table, int depth)
{
    struct json_object *value = NULL;
    char name[STRING_SIZE];
    int rc = read_name(s, &table, name);

    if (rc < 0)
        return rc;
    if (peek(s) != '=')
        return bad(s, "= is missing");
    s->at++;
    skip_blanks(s);
    if (json_object_object_get_ex(table, name, NULL))
        return bad(s, "this value is there twice");
    rc = read_value(s, depth, &value);
    if (rc == 0 && json_object_object_add(table, name, value) < 0)
        rc = apir_error_sys(s->err, ENOMEM, "TOML");
    if (rc < 0)
        json_object_put(value);
    return rc;
}

static int read_array(struct scan *s, int depth, struct json_object *array)
{
    size_t from = s->line;

    s->at++;
    for (;;) {
        struct json_object *item = NULL;

        skip_space(s);
        if (peek(s) == ']') {
            s->at++;
            return 0;
        }
        if (peek(s) == '\0') {
            s->line = from;
            return bad(s, "an array that does not end");
        }
        int rc = read_value(s, depth + 1, &item);
        if (rc == 0 && json_object_array_add(array, item) < 0)
            rc = apir_error_sys(s->err, ENOMEM, "TOML");
        if (rc < 0) {
            json_object_put(item);
            return rc;
        }
        skip_space(s);
        if (peek(s) == ',')
            s->at++;
        else if (peek(s) != ']' && peek(s) != '\0')
            return bad(s, "a comma is missing in an array");
    }
}

static int read_inline_table(struct scan *s, int depth, struct json_object *table)
{
    s->at++;
    skip_blanks(s);
    while (peek(s) != '}') {
        int rc = read_pair(s, table, depth + 1);

        if (rc < 0)
            return rc;
        skip_blanks(s);
        if (peek(s) == ',')
            s->at++;
        else if (peek(s) != '}')
            return bad(s, "a comma is missing in an inline table");
    }
    s->at++;
    return 0;
}

/* Numbers, booleans, dates; a date's time may be behind a blank. */
static int read_word(struct scan *s, struct json_object **ret)
{
    const char *word = s->text + s->at;
    size_t start = s->at;

    for (; peek(s) != '\0'; s->at++) {
        bool time = peek(s) == ' ' && s->at == start + 10 && word[4] == '-' &&
                    isdigit((unsigned char)s->text[s->at + 1]);

        if (!time && !is_bare(peek(s)) && !strchr("+.:", peek(s)))
            break;
    }
    size_t n = s->at - start;
    if (n == 0)
        return bad(s, "a value is missing");
    if (n == 4 && memcmp(word, "true", 4) == 0)
        *ret = json_object_new_boolean(1);
    else if (n == 5 && memcmp(word, "false", 5) == 0)
        *ret = json_object_new_boolean(0);
    else if (n < 10 && strspn(word, "0123456789") == n)
        *ret = json_object_new_int(atoi(word));
    return 0;
}

/* *ret is NULL for a value that nobody here asks for, such as a date. */
static int read_value(struct scan *s, int depth, struct json_object **ret)
{
    char text[STRING_SIZE];

    if (depth > CDI_TOML_DEPTH_MAX)
        return bad(s, "nested too deeply");
    if (starts(s, "\"\"\"") || starts(s, "'''"))
        return skip_long_string(s);
    if (peek(s) == '"' || peek(s) == '\'') {
        int rc = read_string(s, text);
        if (rc == 0)
            *ret = json_object_new_string(text);
        return rc < 0 ? rc : 0;
    }
    if (peek(s) != '[' && peek(s) != '{')
        return read_word(s, ret);
    *ret = peek(s) == '[' ? json_object_new_array() : json_object_new_object();
    if (!*ret)
        return apir_error_sys(s->err, ENOMEM, "TOML");
    return peek(s) == '[' ? read_array(s, depth, *ret) : read_inline_table(s, depth, *ret);
}

/* [name] or [[name]]: *ret_table is what the lines below it fill. */
static int read_header(struct scan *s, struct json_object *top, struct json_object **ret_table)
{
    struct json_object *table = top, *list = NULL;
    char name[STRING_SIZE];
    bool many = starts(s, "[[");

    s->at += many ? 2 : 1;
    int rc = read_name(s, &table, name);
    if (rc < 0)
        return rc;
    if (!starts(s, many ? "]]" : "]"))
        return bad(s, "] is missing");
    s->at += many ? 2 : 1;
    if (many) {
        if (!json_object_object_get_ex(table, name, &list)) {
            list = json_object_new_array();
            rc = apir_json_set(table, name, list);
        }
        if (rc == 0 && !json_object_is_type(list, json_type_array))
            return bad(s, "a list of tables where there is something else");
        if (rc == 0)
            rc = apir_json_append(list, json_object_new_object());
        if (rc < 0)
            return apir_error_sys(s->err, ENOMEM, "TOML");
    }
    rc = enter(s, &table, name);
    *ret_table = table;
    return rc;
}

int cdi_toml_parse(const char *text, struct json_object **ret_top, struct apir_error *err)
{
    struct scan s = {.text = text, .line = 1, .err = err};
    cleanup_json struct json_object *top = json_object_new_object();
    struct json_object *table = top;

    if (!top)
        return apir_error_sys(err, ENOMEM, "TOML");
    for (;;) {
        skip_space(&s);
        if (peek(&s) == '\0')
            break;
        int rc = peek(&s) == '[' ? read_header(&s, top, &table) : read_pair(&s, table, 0);
        if (rc == 0)
            rc = skip_line_end(&s);
        if (rc < 0)
            return rc;
    }
    *ret_top = steal_pointer(&top);
    return 0;
}

/* ---- lists of strings ----------------------------------------------------------- */

void cdi_strings_fini(struct cdi_strings *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
    list->n = 0;
}

int cdi_strings_add(struct cdi_strings *list, const char *item)
{
    if (list->n == CDI_STRINGS_MAX)
        return -ENOSPC;
    char *copy = strdup(item);
    if (!copy)
        return -ENOMEM;
    list->items[list->n++] = copy;
    return 0;
}

bool cdi_strings_have(const struct cdi_strings *list, const char *item)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

int cdi_toml_strings(struct json_object *value, struct cdi_strings *list, bool *ret_append)
{
    if (!json_object_is_type(value, json_type_array))
        return -EBADMSG;
    for (size_t i = 0; i < apir_json_length(value); i++) {
        const char *text = apir_json_string_at(value, i);
        struct json_object *append =
            apir_json_member(json_object_array_get_idx(value, i), "append", json_type_boolean);

        if (!text && !append)
            return -EBADMSG;
        if (append && ret_append)
            *ret_append = json_object_get_boolean(append);
        int rc = text ? cdi_strings_add(list, text) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

void cdi_toml_put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        const char *at = strchr(escaped, *text);

        if (!at)
            fputc(*text, out);
        else
            fprintf(out, "\\%c", escapes[at - escaped]);
    }
    fputc('"', out);
}
