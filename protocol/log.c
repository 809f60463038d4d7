/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static apir_log_sink log_sink;
static void *log_user;
static enum apir_log_level log_level = APIR_LOG_WARN;

void apir_log_set_sink(apir_log_sink sink, void *user)
{
    log_sink = sink;
    log_user = user;
}

void apir_log_set_level(enum apir_log_level level)
{
    log_level = level;
}

int apir_log_enabled(enum apir_log_level level)
{
    return level <= log_level;
}

int apir_log_parse_level(const char *name, enum apir_log_level *ret_level)
{
    static const char *const names[] = { "error", "warn", "info", "debug" };
    for (int i = 0; i < 4; i++) {
        if (name && strcmp(name, names[i]) == 0) {
            *ret_level = (enum apir_log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}

void apir_log(enum apir_log_level level, const char *fmt, ...)
{
    if (level > log_level)
        return;
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    int head = snprintf(line, sizeof(line), "apir: ");
    int n = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    size_t len = strlen(line);
    line[len] = '\n';
    line[len + 1] = '\0';
    if (log_sink) {
        log_sink(level, line, log_user);
        return;
    }
    /* One write, so that lines of several processes do not mix. */
    ssize_t ignored = write(STDERR_FILENO, line, len + 1);
    (void)ignored;
}
