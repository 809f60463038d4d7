/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._:", c));
}

bool sample_name_ok(const char *name)
{
    size_t n = 0;
    while (is_name_char(name[n]))
        n++;
    return n > 0 && n <= SAMPLE_NAME_MAX && !name[n];
}

int sample_write(FILE *f, const struct sample *s)
{
    fprintf(f, "{\"case\":\"%s\",\"side\":\"%s\",\"metric\":\"%s\"", s->name, s->side, s->metric);
    if (s->pair != SAMPLE_NO_PAIR)
        fprintf(f, ",\"pair\":%" PRId64, s->pair);
    if (s->n > 0)
        fprintf(f, ",\"n\":%.17g", s->n);
    if (s->unit[0])
        fprintf(f, ",\"value\":%.9g,\"unit\":\"%s\"", s->value, s->unit);
    else
        fprintf(f, ",\"seconds\":%.9g", s->value);
    if (s->time[0])
        fprintf(f, ",\"time\":\"%s\"", s->time);
    if (s->commit[0])
        fprintf(f, ",\"commit\":\"%s\"", s->commit);
    fputs("}\n", f);
    /* At once: what was measured before a crash is kept. */
    return fflush(f) == 0 ? 0 : -errno;
}
