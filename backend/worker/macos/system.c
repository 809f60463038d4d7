/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/system.h"

#include <pthread.h>
#include <sys/resource.h>

/* No kernel tells the client: the server does, unless both have ended. */
void worker_system_tell_end(uint32_t *word)
{
    (void)word;
}

void worker_system_name(const char *name)
{
    (void)pthread_setname_np(name);
}

void worker_system_exact_timers(void)
{
}

void worker_system_step_back(void)
{
    (void)setpriority(PRIO_DARWIN_PROCESS, 0, PRIO_DARWIN_BG);
}
