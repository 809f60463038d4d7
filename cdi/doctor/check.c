/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/doctor/check.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/text.h"

enum doctor_status doctor_say(struct doctor_outcome *o, enum doctor_status status, const char *fmt,
                              ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(o->text, sizeof(o->text), fmt, ap);
    va_end(ap);
    apir_text_clean(o->text);
    return status;
}

void doctor_todo(struct doctor_outcome *o, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(o->todo, sizeof(o->todo), fmt, ap);
    va_end(ap);
    apir_text_clean(o->todo);
}
