/* SPDX-License-Identifier: Apache-2.0 */
/*
 * without CALL[=ERRNO],... PROGRAM [ARG]...: runs the program on a kernel that answers
 * those system calls with an error (ENOSYS): one without Landlock, without seccomp, or
 * one that forbids namespaces. Filters hold for all that it starts.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: without CALL[=ERRNO],... PROGRAM [ARG]...\n", stderr);
        return 2;
    }
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int rc = filter ? 0 : -ENOMEM;
    for (char *rest = argv[1], *name; !rc && (name = strsep(&rest, ","));) {
        char *value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        int call = seccomp_syscall_resolve_name(name);
        rc = call == __NR_SCMP_ERROR
                 ? -EINVAL
                 : seccomp_rule_add(
                       filter, SCMP_ACT_ERRNO((uint32_t)(value ? atoi(value) : ENOSYS)), call, 0);
    }
    if (!rc)
        rc = seccomp_load(filter);
    if (rc) {
        fprintf(stderr, "without: %s: %s\n", argv[1], strerror(-rc));
        return 125;
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "without: %s: %s\n", argv[2], strerror(errno));
    return 127;
}
