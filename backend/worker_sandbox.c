/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "backend/worker.h"
#include "protocol/error.h"

/*
 * Stage 1, while we are single-threaded and have loaded nothing: whatever GPU
 * libraries do later, they do it without privileges and cannot get new ones.
 */
int worker_sandbox_enter(struct apir_error *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return apir_error_sys(err, errno, "no_new_privs");
    /* No core files: they would hold the guest's model. */
    struct rlimit none = { 0, 0 };
    if (setrlimit(RLIMIT_CORE, &none) < 0)
        return apir_error_sys(err, errno, "RLIMIT_CORE");
    /* Dropped from the bounding set first: that needs CAP_SETPCAP itself. */
    for (cap_value_t c = 0; cap_get_bound(c) >= 0; c++) {
        if (cap_get_bound(c) > 0 && cap_drop_bound(c) < 0 && errno != EPERM)
            return apir_error_sys(err, errno, "bounding set");
    }
    cap_t none_caps = cap_init();
    if (!none_caps)
        return apir_error_sys(err, ENOMEM, "cap_init");
    int rc = cap_set_proc(none_caps);
    int saved = errno;
    cap_free(none_caps);
    return rc < 0 ? apir_error_sys(err, saved, "dropping capabilities") : 0;
}
