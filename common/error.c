/* SPDX-License-Identifier: Apache-2.0 */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int apir_error_set(struct apir_error *err, int code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
        va_end(ap);
        err->code = code;
    }
    return -code;
}

int apir_error_sys(struct apir_error *err, int code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < sizeof(err->msg))
            snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", strerror(code));
        err->code = code;
    }
    return -code;
}

int apir_error_wrap(struct apir_error *err, int rc, const char *fmt, ...)
{
    if (rc >= 0 || !err)
        return rc;
    char old[sizeof(err->msg)];
    memcpy(old, err->msg, sizeof(old));
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n + 3 < sizeof(err->msg))
        snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %.*s",
                 (int)(sizeof(err->msg) - (size_t)n - 3), old);
    return rc;
}
