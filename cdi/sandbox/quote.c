/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/sandbox/quote.h"

#include <string.h>

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+"

void sandbox_put_word(FILE *out, const char *before, const char *text)
{
    if (before[strspn(before, PLAIN)] == '\0' && text[strspn(text, PLAIN)] == '\0') {
        fprintf(out, "%s%s", before, text);
        return;
    }
    fprintf(out, "'%s", before);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    fputc('\'', out);
}

/* With a backslash before each of `escaped`, and each of `doubled` twice. */
static void put_escaped(FILE *out, const char *text, const char *escaped, const char *doubled)
{
    for (; *text; text++) {
        if (strchr(escaped, *text))
            fputc('\\', out);
        if (strchr(doubled, *text))
            fputc(*text, out);
        fputc(*text, out);
    }
}

void sandbox_put_compose(FILE *out, const char *text)
{
    fputc('"', out);
    put_escaped(out, text, "\"\\", "$");
    fputc('"', out);
}

void sandbox_put_unit(FILE *out, const char *text)
{
    fputc('"', out);
    put_escaped(out, text, "\"\\", "$%");
    fputc('"', out);
}

void sandbox_put_bind(FILE *out, const char *text)
{
    put_escaped(out, text, ":\\", "");
}

void sandbox_put_fstab(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == ' ' || *text == '\\' || *text == '#')
            fprintf(out, "\\%03o", (unsigned)*text);
        else
            fputc(*text, out);
}
