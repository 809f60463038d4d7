/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line to where an operator finds it: the journal or syslog (/dev/log); where
 * there is none the kernel's log; where the container's device rules forbid that
 * already, /run/apir-hook.log. And stderr in any case, but engines drop it.
 */
#ifndef APIR_HOOK_LOG_H
#define APIR_HOOK_LOG_H

enum hook_level {
    HOOK_ERROR = 3, /* the syslog severities */
    HOOK_WARNING = 4,
    HOOK_INFO = 6,
};

/* Opens the log; id (a container's, may be NULL) goes in front of each line. */
void hook_log_open(void);
void hook_log_set_id(const char *id);
void hook_log(enum hook_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
