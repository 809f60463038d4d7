/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leveled one-line log. The sink is chosen once by the program (stderr by
 * default); the level comes from APIR_LOG=error|warn|info|debug.
 */
#pragma once

enum apir_log_level {
    APIR_LOG_ERROR = 0,
    APIR_LOG_WARN = 1,
    APIR_LOG_INFO = 2,
    APIR_LOG_DEBUG = 3,
};

/* `line` ends with a newline and is valid during the call only. */
typedef void (*apir_log_sink)(enum apir_log_level level, const char *line, void *user);

/* NULL restores stderr. Not thread-safe: call it before the first log line. */
void apir_log_set_sink(apir_log_sink sink, void *user);
void apir_log_set_level(enum apir_log_level level);
/*
 * At most so many warnings and errors per minute (0, the default: any number), for a program whose
 * peer can cause them: one line says that more are left out. Before the first log line.
 */
void apir_log_set_limit(unsigned lines);
/* Whether a line of this level would be printed. */
int apir_log_enabled(enum apir_log_level level);
/* Parses a level name; returns 0, or -EINVAL and leaves *ret_level alone. */
int apir_log_parse_level(const char *name, enum apir_log_level *ret_level);

void apir_log(enum apir_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A line that somebody else has printed, with its name before it: at any level, and not counted. */
void apir_log_forward(const char *who, const char *text);
