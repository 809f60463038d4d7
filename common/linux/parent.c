/* SPDX-License-Identifier: Apache-2.0 */
#include "common/parent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

bool apir_ends_with_parent(pid_t parent)
{
    /* The parent may have ended before the prctl: then nobody would tell us. */
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}
