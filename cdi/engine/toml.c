/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/engine/toml.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"

#define NAME_MAX_ 128

/* A key or a table's name, in parts. */
struct name {
    size_t n;
    char part[CDI_TOML_DEPTH_MAX][NAME_MAX_];
};

struct scan {
    const char *text; /* NUL-terminated: reading one byte ahead is always allowed */
    size_t at;
    size_t line;
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

static bool put(char *out, size_t size, size_t *used, char c)
{
    if (*used + 1 >= size)
        return false;
    out[(*used)++] = c;
    out[*used] = '\0';
    return true;
}

static const char escapes[] = "btnfr\"\\", escaped[] = "\b\t\n\f\r\"\\";

/* What a backslash and this stand for; NUL: something else than one character. */
static char unescape(char c)
{
    const char *at = strchr(escapes, c);

    return at == NULL ? '\0' : escaped[at - escapes];
}

/* A string of one line. out may be NULL; where it is not, \u and the like are refused. */
static int read_string(struct scan *s, char *out, size_t size)
{
    char quote = peek(s);
    size_t used = 0;

    s->at++;
    if (out != NULL)
        out[0] = '\0';
    while (peek(s) != quote) {
        if (peek(s) == '\0' || peek(s) == '\n')
            return bad(s, "a string that does not end");
        char c = peek(s);
        if (quote == '"' && c == '\\') {
            s->at++;
            if (peek(s) == '\0' || peek(s) == '\n')
                return bad(s, "a string that does not end");
            c = unescape(peek(s));
            if (c == '\0' && out != NULL)
                return bad(s, "a string with an escape that is not understood");
        }
        if (out != NULL && !put(out, size, &used, c))
            return bad(s, "a string that is too long");
        s->at++;
    }
    s->at++;
    return 0;
}

static bool is_bare(char c)
{
    return isascii((unsigned char)c) && (isalnum((unsigned char)c) || c == '_' || c == '-');
}

static int read_name(struct scan *s, struct name *name)
{
    name->n = 0;
    for (;;) {
        skip_blanks(s);
        if (name->n == CDI_TOML_DEPTH_MAX)
            return bad(s, "a name of too many parts");
        char *out = name->part[name->n];
        size_t used = 0;

        out[0] = '\0';
        if (peek(s) == '"' || peek(s) == '\'') {
            int r = read_string(s, out, NAME_MAX_);
            if (r < 0)
                return r;
        } else {
            for (; is_bare(peek(s)); s->at++)
                if (!put(out, NAME_MAX_, &used, peek(s)))
                    return bad(s, "a name that is too long");
            if (used == 0)
                return bad(s, "a name is missing");
        }
        name->n++;
        skip_blanks(s);
        if (peek(s) != '.')
            return 0;
        s->at++;
    }
}

static int skip_value(struct scan *s, int depth);

static int skip_array(struct scan *s, int depth)
{
    size_t from = s->line;

    s->at++;
    for (;;) {
        skip_space(s);
        if (peek(s) == ']') {
            s->at++;
            return 0;
        }
        if (peek(s) == '\0') {
            s->line = from;
            return bad(s, "an array that does not end");
        }
        int r = skip_value(s, depth + 1);
        if (r < 0)
            return r;
        skip_space(s);
        if (peek(s) == ',')
            s->at++;
        else if (peek(s) != ']' && peek(s) != '\0')
            return bad(s, "a comma is missing in an array");
    }
}

static int skip_inline_table(struct scan *s, int depth)
{
    s->at++;
    skip_blanks(s);
    if (peek(s) == '}') {
        s->at++;
        return 0;
    }
    for (;;) {
        struct name name;
        int r = read_name(s, &name);

        if (r < 0)
            return r;
        if (peek(s) != '=')
            return bad(s, "= is missing");
        s->at++;
        skip_blanks(s);
        r = skip_value(s, depth + 1);
        if (r < 0)
            return r;
        skip_blanks(s);
        if (peek(s) == '}') {
            s->at++;
            return 0;
        }
        if (peek(s) != ',')
            return bad(s, "a comma is missing in an inline table");
        s->at++;
    }
}

static int skip_value(struct scan *s, int depth)
{
    if (depth > CDI_TOML_DEPTH_MAX)
        return bad(s, "nested too deeply");
    if (starts(s, "\"\"\"") || starts(s, "'''"))
        return skip_long_string(s);
    if (peek(s) == '"' || peek(s) == '\'')
        return read_string(s, NULL, 0);
    if (peek(s) == '[')
        return skip_array(s, depth);
    if (peek(s) == '{')
        return skip_inline_table(s, depth);
    size_t start = s->at;
    /* Numbers, booleans, dates; a date's time may be behind a blank. */
    for (; peek(s) != '\0'; s->at++) {
        bool time = peek(s) == ' ' && s->at == start + 10 && s->text[start + 4] == '-' &&
                    isdigit((unsigned char)s->text[s->at + 1]);

        if (!time && !is_bare(peek(s)) && strchr("+.:", peek(s)) == NULL)
            break;
    }
    return s->at == start ? bad(s, "a value is missing") : 0;
}

/* ---- finding ------------------------------------------------------------------ */

/* How many of name's parts, behind `offset` others, agree with path from its start. */
static size_t agree(const struct name *name, const char *const *path, size_t offset, size_t n)
{
    size_t i = 0;

    while (i < name->n && offset + i < n && strcmp(name->part[i], path[offset + i]) == 0)
        i++;
    return i;
}

struct finder {
    const char *const *path;
    size_t n;
    struct cdi_toml_place place;
    bool inside;  /* the table we are in is an ancestor of (or is) the value's */
    size_t above; /* how many parts of path that table is */
};

static int take_header(struct scan *s, struct finder *f)
{
    struct name name;
    size_t start = s->at;
    bool many = starts(s, "[[");

    while (start > 0 && s->text[start - 1] != '\n')
        start--;
    s->at += many ? 2 : 1;
    int r = read_name(s, &name);
    if (r < 0)
        return r;
    if (!starts(s, many ? "]]" : "]"))
        return bad(s, "] is missing");
    s->at += many ? 2 : 1;
    size_t same = agree(&name, f->path, 0, f->n);
    f->inside = same == name.n && name.n < f->n;
    f->above = name.n;
    if (many && f->inside)
        return bad(s, "a list of tables where one table belongs");
    if (same == f->n)
        return bad(s, "a table where a value belongs");
    bool mine = f->inside && name.n + 1 == f->n;
    if (mine && f->place.table_found)
        return bad(s, "this table is there twice");
    f->place.table_found = f->place.table_found || mine;
    return skip_line_end(s);
}

static int take_key(struct scan *s, struct finder *f)
{
    struct name name;
    size_t line = s->line;
    int r = read_name(s, &name);

    if (r < 0)
        return r;
    if (peek(s) != '=')
        return bad(s, "= is missing");
    s->at++;
    skip_blanks(s);
    size_t value = s->at;
    r = skip_value(s, 0);
    if (r < 0)
        return r;
    size_t end = s->at;
    r = skip_line_end(s);
    if (r < 0 || !f->inside)
        return r;

    size_t same = agree(&name, f->path, f->above, f->n);
    if (same == name.n && f->above + same == f->n) {
        if (f->place.found)
            return apir_error_set(s->err, EBADMSG, "line %zu: this value is there twice", line);
        f->place.found = true;
        f->place.line = line;
        f->place.start = value;
        f->place.end = end;
        return 0;
    }
    /*
     * A table on our way that is an inline one, or made of dotted keys, cannot be
     * given a header; that is rare enough to be left to its author.
     */
    if (same > 0 && (same == name.n || f->above + same + 1 >= f->n))
        return apir_error_set(s->err, EBADMSG,
                              "line %zu: this table is not written as [TABLE]; change it by hand",
                              line);
    return 0;
}

int cdi_toml_find(const char *text, const char *const *path, size_t n,
                  struct cdi_toml_place *ret_place, struct apir_error *err)
{
    struct scan s = {.text = text, .line = 1, .err = err};
    struct finder f = {.path = path, .n = n, .inside = true};

    for (;;) {
        skip_space(&s);
        if (peek(&s) == '\0')
            break;
        int r = peek(&s) == '[' ? take_header(&s, &f) : take_key(&s, &f);
        if (r < 0)
            return r;
    }
    *ret_place = f.place;
    return 0;
}

/* ---- values ------------------------------------------------------------------- */

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
    if (copy == NULL)
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

int cdi_toml_bool(const char *text, const struct cdi_toml_place *place, bool *ret)
{
    size_t n = place->end - place->start;

    if (n == 4 && memcmp(text + place->start, "true", 4) == 0)
        *ret = true;
    else if (n == 5 && memcmp(text + place->start, "false", 5) == 0)
        *ret = false;
    else
        return -EBADMSG;
    return 0;
}

static int take_append(struct scan *s, bool *ret_append)
{
    struct name name;

    s->at++;
    int r = read_name(s, &name);
    if (r < 0)
        return r;
    if (name.n != 1 || strcmp(name.part[0], "append") != 0 || peek(s) != '=')
        return -EBADMSG;
    s->at++;
    skip_blanks(s);
    *ret_append = starts(s, "true");
    if (!*ret_append && !starts(s, "false"))
        return -EBADMSG;
    s->at += *ret_append ? 4 : 5;
    skip_blanks(s);
    if (peek(s) != '}')
        return -EBADMSG;
    s->at++;
    return 0;
}

int cdi_toml_strings(const char *text, const struct cdi_toml_place *place, struct cdi_strings *list,
                     bool *ret_append)
{
    struct scan s = {.text = text, .at = place->start, .line = place->line};
    bool append = false;

    if (peek(&s) != '[')
        return -EBADMSG;
    s.at++;
    for (;;) {
        char item[1024];
        int r;

        skip_space(&s);
        if (peek(&s) == ']')
            break;
        if (peek(&s) == '{') {
            r = take_append(&s, &append);
        } else if ((peek(&s) == '"' || peek(&s) == '\'') && !starts(&s, "\"\"\"") &&
                   !starts(&s, "'''")) {
            r = read_string(&s, item, sizeof(item));
            if (r == 0)
                r = cdi_strings_add(list, item);
        } else {
            r = -EBADMSG;
        }
        if (r < 0)
            return r;
        skip_space(&s);
        if (peek(&s) == ',')
            s.at++;
    }
    if (ret_append != NULL)
        *ret_append = append;
    return 0;
}

void cdi_toml_put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        const char *at = strchr(escaped, *text);

        if (at == NULL)
            fputc(*text, out);
        else
            fprintf(out, "\\%c", escapes[at - escaped]);
    }
    fputc('"', out);
}
