/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static apir_log_sink log_sink;
static void *log_user;
static enum apir_log_level log_level = APIR_LOG_WARN;
static unsigned log_limit;

void apir_log_set_sink(apir_log_sink sink, void *user)
{
    log_sink = sink;
    log_user = user;
}

void apir_log_set_level(enum apir_log_level level)
{
    log_level = level;
}

void apir_log_set_limit(unsigned lines)
{
    log_limit = lines;
}

int apir_log_enabled(enum apir_log_level level)
{
    return level <= log_level;
}

int apir_log_parse_level(const char *name, enum apir_log_level *ret_level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++) {
        if (name && strcmp(name, names[i]) == 0) {
            *ret_level = (enum apir_log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}

static void log_write(enum apir_log_level level, const char *line)
{
    if (log_sink) {
        log_sink(level, line, log_user);
        return;
    }
    /* One write, so that lines of several processes do not mix. */
    ssize_t ignored = write(STDERR_FILENO, line, strlen(line));
    (void)ignored;
}

/* Any thread may log, so a few lines more or less are printed where a minute begins. */
static bool log_is_within_limit(void)
{
    static int64_t since;
    static unsigned used;
    struct timespec now;
    if (log_limit == 0 || clock_gettime(CLOCK_MONOTONIC, &now) < 0)
        return true;
    int64_t began = __atomic_load_n(&since, __ATOMIC_RELAXED);
    const int64_t seconds = (int64_t)now.tv_sec + 1; /* never 0 */
    if ((began == 0 || seconds - began >= 60) &&
        __atomic_compare_exchange_n(&since, &began, seconds, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
        __atomic_store_n(&used, 0, __ATOMIC_RELAXED);
    const unsigned n = __atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);
    if (n == log_limit)
        log_write(APIR_LOG_WARN, "apir: too much to say: more is left out for a minute\n");
    return n < log_limit;
}

void apir_log_forward(const char *who, const char *text)
{
    char line[1024];
    const int n = snprintf(line, sizeof(line) - 1, "apir: %s: %s", who, text);
    if (n < 0)
        return;
    const size_t len = strlen(line);
    line[len] = '\n';
    line[len + 1] = '\0';
    log_write(APIR_LOG_ERROR, line);
}

void apir_log(enum apir_log_level level, const char *fmt, ...)
{
    if (level > log_level || (level <= APIR_LOG_WARN && !log_is_within_limit()))
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
    log_write(level, line);
}
