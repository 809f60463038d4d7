/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/cleanup.h"

/* The bytes of the UTF-8 character at p, and which it is; 1 and 0xFFFD for what is none. */
static size_t next(const char *p, uint32_t *ret_character)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)p;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7Fu >> n);

    *ret_character = 0xFFFD;
    if (n == 0 || s[0] >= 0xF8)
        return 1;
    /* A NUL is no such byte, so this ends with the text. */
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 1;
        c = c << 6 | (s[i] & 0x3F);
    }
    if (n > 1 && (c < lowest[n] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)))
        return 1;
    *ret_character = c;
    return n;
}

static bool is_control(uint32_t c)
{
    /* Of those beyond C1: marks, embeddings, overrides and isolates of right-to-left text, and what
     * ends a line or a paragraph. */
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

/* In place. keep_layout: tabs, and a newline at the end, stay. */
static void clean(char *text, bool keep_layout)
{
    for (size_t n; *text != '\0'; text += n) {
        uint32_t c;

        n = next(text, &c);
        if (keep_layout && (c == '\t' || (c == '\n' && text[1] == '\0')))
            continue;
        if (is_control(c) || (c == 0xFFFD && n == 1))
            memset(text, '?', n);
    }
}

void apir_text_clean(char *text)
{
    clean(text, false);
}

void apir_text_accept(char *text, size_t size)
{
    text[size - 1] = '\0';
    apir_text_clean(text);
}

void apir_text_print(FILE *out, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    cleanup_free char *text = apir_text_vformat(fmt, ap);
    va_end(ap);
    if (!text)
        return;
    clean(text, true);
    fputs(text, out);
}

char *apir_text_vformat(const char *fmt, va_list ap)
{
    char *text;

    return vasprintf(&text, fmt, ap) < 0 ? NULL : text;
}

char *apir_text_format(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    char *text = apir_text_vformat(fmt, ap);
    va_end(ap);
    return text;
}

int apir_text_print_json(const char *text)
{
    /* Those below U+0020 are the layout's own, or escaped already. */
    for (size_t n; *text != '\0'; text += n) {
        uint32_t c;

        n = next(text, &c);
        if (c >= 0x7F && is_control(c))
            printf("\\u%04x", c);
        else if (c == 0xFFFD && n == 1)
            putchar('?');
        else
            fwrite(text, n, 1, stdout);
    }
    return putchar('\n') == EOF ? -EIO : 0;
}
