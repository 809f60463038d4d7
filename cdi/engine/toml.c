/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/engine/toml.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

#define STRING_SIZE 1024 /* of a name, and of a string that is understood */

static const char escapes[] = "btnfr\"\\", escaped[] = "\b\t\n\f\r\"\\";

/*
 * Moves behind the string that begins at *at, whose text goes into out (STRING_SIZE). Returns 0, 1
 * where it is one that is not understood (of several lines, with an escape such as \u0041, too
 * long), or -1 where it does not end.
 */
static int read_string(const char **at, char *out)
{
    const char quote = **at, end[4] = {quote, quote, quote, '\0'};
    const bool is_long = strncmp(*at, end, 3) == 0;
    const char *p = *at + (is_long ? 3 : 1);
    size_t used = 0;
    int rc = is_long ? 1 : 0;

    for (; is_long ? strncmp(p, end, 3) != 0 : *p != quote; p++) {
        const char *known = NULL;
        char c = *p;

        if (quote == '"' && c == '\\' && p[1] != '\0') {
            known = strchr(escapes, *++p);
            c = known ? escaped[known - escapes] : '\0';
        }
        /* What we read is written into files that engines read, and no engine takes these. */
        if (*p == '\0' || (!is_long && !known && *p != '\t' && iscntrl((unsigned char)*p)))
            return -1;
        if (c == '\0' || used + 1 == STRING_SIZE)
            rc = 1;
        else if (!is_long)
            out[used++] = c;
    }
    out[used] = '\0';
    p += is_long ? 3 : 1;
    /* Up to two more quotes are a long string's own. */
    for (int i = 0; is_long && i < 2 && *p == quote; i++)
        p++;
    *at = p;
    return rc;
}

static const char *skip_space(const char *at, const char *space)
{
    for (;;) {
        at += strspn(at, space);
        if (*at != '#')
            return at;
        at += strcspn(at, "\n");
    }
}

/* Adds the name at *at to name (STRING_SIZE), without quotes and blanks. Returns 0 or -1. */
static int read_name(const char **at, char *name)
{
    for (;;) {
        char part[STRING_SIZE];

        *at += strspn(*at, " \t");
        if (**at == '"' || **at == '\'') {
            if (read_string(at, part) != 0)
                return -1;
        } else {
            size_t n = strspn(*at, "._-0123456789abcdefghijklmnopqrstuvwxyz"
                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

            if (n == 0)
                return 0;
            if (n >= sizeof(part))
                return -1;
            memcpy(part, *at, n);
            part[n] = '\0';
            *at += n;
        }
        if (strlen(name) + strlen(part) >= STRING_SIZE)
            return -1;
        strcat(name, part);
    }
}

/* Moves behind a value and its line. Returns 0 or -1. */
static int skip_value(const char **at)
{
    char text[STRING_SIZE];
    int depth = 0;

    for (;;) {
        *at = skip_space(*at, " \t\r");
        switch (**at) {
        case '"':
        case '\'':
            if (read_string(at, text) < 0)
                return -1;
            continue;
        case '[':
        case '{':
            depth++;
            break;
        case ']':
        case '}':
            if (--depth < 0)
                return -1;
            break;
        case '\0':
            return depth == 0 ? 0 : -1;
        case '\n':
            if (depth == 0)
                return 0;
            break;
        default:
            break;
        }
        ++*at;
    }
}

static int bad(const char *text, const char *at, const char *what, struct apir_error *err)
{
    size_t line = 1;

    for (const char *p = text; p < at; p++)
        line += *p == '\n';
    return apir_error_set(err, EBADMSG, "line %zu: %s", line, what);
}

int cdi_toml_find(const char *text, const char *name, const char **ret_value,
                  struct apir_error *err)
{
    char table[STRING_SIZE] = "", full[STRING_SIZE];

    for (const char *at = text; *(at = skip_space(at, " \t\r\n")) != '\0';) {
        const char *from = at;

        if (*at == '[') {
            table[0] = '\0';
            at += strspn(at, "[");
            if (read_name(&at, table) < 0 || *at != ']' || table[0] == '\0' ||
                strlen(table) + 1 >= STRING_SIZE)
                return bad(text, from, "a table's name is not understood", err);
            strcat(table, ".");
            at += strspn(at, "]");
            continue;
        }
        strcpy(full, table);
        if (read_name(&at, full) < 0 || *at != '=')
            return bad(text, from, "no NAME = VALUE", err);
        at += 1 + strspn(at + 1, " \t");
        if (strcmp(full, name) == 0) {
            *ret_value = at;
            return 1;
        }
        if (skip_value(&at) < 0)
            return bad(text, from, "a value that does not end", err);
    }
    return 0;
}

int cdi_toml_list(const char *text, const char *name, struct cdi_strings *list, bool *ret_append,
                  struct apir_error *err)
{
    const char *from = NULL;
    char item[STRING_SIZE], what[STRING_SIZE + 32];
    int rc = cdi_toml_find(text, name, &from, err);

    if (rc <= 0)
        return rc;
    snprintf(what, sizeof(what), "%s is no list of strings", name);
    const char *at = from;
    if (*at != '[')
        return bad(text, from, what, err);
    for (at = skip_space(at + 1, " \t\r\n"); *at != ']'; at = skip_space(at, " \t\r\n")) {
        int n = 0;

        if (*at == '"' || *at == '\'') {
            if (read_string(&at, item) != 0)
                return bad(text, from, what, err);
            rc = cdi_strings_add(list, item);
            if (rc < 0)
                return apir_error_sys(err, -rc, "%s", name);
        } else if (ret_append && sscanf(at, "{ append = %5[a-z] }%n", item, &n) == 1 && n > 0) {
            *ret_append = strcmp(item, "true") == 0;
            at += n;
        } else {
            return bad(text, from, what, err);
        }
        at = skip_space(at, " \t\r\n");
        if (*at == ',')
            at++;
        else if (*at != ']')
            return bad(text, from, what, err);
    }
    return 1;
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
