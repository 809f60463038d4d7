/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line to where an operator finds it, the first of these that can be opened:
 *
 *   /dev/log                      the journal or syslog; rootless too
 *   /run/apir-hook.log            where there is no syslog
 *   /run/user/UID/apir-hook.log   rootless, without syslog
 *   BUNDLE/apir-hook.log          the container's own folder of the runtime, till it is removed
 *
 * And stderr in any case, but engines mostly drop it. A file that has grown to a
 * mebibyte goes on under the same name; what was in it is in apir-hook.log.1.
 */
#pragma once

enum hook_level {
    HOOK_ERROR = 3, /* the syslog severities */
    HOOK_WARNING = 4,
    HOOK_INFO = 6,
};

void hook_log_open(void);
/* The id goes in front of each line from now on. Both may be NULL. */
void hook_log_set_container(const char *id, const char *bundle);
void hook_log(enum hook_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
