/* SPDX-License-Identifier: Apache-2.0 */
/* Whose process it is: a container by its control group, a program by its name. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CDI_WHO_ENGINE 16u
#define CDI_WHO_ID     64u

struct cdi_who {
    char engine[CDI_WHO_ENGINE + 1]; /* "": in no container that we know the sign of */
    char id[CDI_WHO_ID + 1];         /* 64 hex digits */
    char name[64];                   /* of the program, as it calls itself; "": it cannot be told */
};

/*
 * The container in the text of a /proc/PID/cgroup: the innermost folder that has a container's id
 * in its name. Who may make control groups may take any name for them.
 */
void cdi_who_parse(const char *cgroup, struct cdi_who *ret_who);

/* Of a process that has been there before began_ms (of CLOCK_MONOTONIC): another one may have its
 * number by now. False: it is not there, or not to be seen. */
bool cdi_who_look(int64_t pid, int64_t began_ms, struct cdi_who *ret_who);
