/* SPDX-License-Identifier: Apache-2.0 */
/* For units that mount: a namespace of the program's own, so that nothing shows outside and all
 * goes with it. To be included by a program's one file of tests. */
#ifndef APIR_TEST_MOUNT_NAMESPACE_H
#define APIR_TEST_MOUNT_NAMESPACE_H

#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>

#include "tests/lib/unit.h"

static bool mount_namespace_is_own;

static int mount_namespace_enter(void **state)
{
    (void)state;
    mount_namespace_is_own = unshare(CLONE_NEWNS) == 0;
    return mount_namespace_is_own && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}
BEFORE_ALL_TESTS(mount_namespace_enter)

#define skip_unless_mounts_are_own()                                                               \
    do {                                                                                           \
        if (!mount_namespace_is_own)                                                               \
            unit_skip("no mounts of its own here");                                                \
    } while (0)

#endif
