/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/rights.h"

#include <errno.h>
#include <sys/capability.h>

/* In the order of need, so that a step's rights are the first of them. */
static const cap_value_t all[] = {CAP_SYS_ADMIN, CAP_DAC_OVERRIDE, CAP_CHOWN, CAP_SYS_CHROOT,
                                  CAP_SYS_PTRACE};

static const int counts[] = {
    [HOOK_RIGHTS_NONE] = 0,
    [HOOK_RIGHTS_MOUNT] = 3,
    /* setns() into a mount namespace wants CAP_SYS_CHROOT, /proc/PID/ns of a
     * process that is not dumpable (runc's init is none) CAP_SYS_PTRACE. */
    [HOOK_RIGHTS_ENTER] = 5,
};

int hook_rights_keep(enum hook_rights rights)
{
    cap_t have = cap_get_proc();
    cap_t want = cap_init();
    int rc = !have || !want ? -ENOMEM : 0;

    for (int i = 0; rc == 0 && i < counts[rights]; i++) {
        cap_flag_value_t value = CAP_CLEAR;

        if (cap_get_flag(have, all[i], CAP_PERMITTED, &value) == 0 && value == CAP_SET &&
            (cap_set_flag(want, CAP_PERMITTED, 1, &all[i], CAP_SET) < 0 ||
             cap_set_flag(want, CAP_EFFECTIVE, 1, &all[i], CAP_SET) < 0))
            rc = -errno;
    }
    if (rc == 0 && cap_set_proc(want) < 0)
        rc = -errno;
    cap_free(have);
    cap_free(want);
    return rc;
}
