/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/system.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "protocol/atomic.h"

/*
 * The kernel walks the list of robust locks of a thread that ends, however it ends, and says so in
 * each that has the thread's id. The list is ours and not glibc's, so that its links lie where no
 * guest sees or writes them; glibc has no robust lock of this thread. What the guest writes into
 * the word breaks its own sign and nothing else.
 */
void worker_system_tell_end(uint32_t *word)
{
    static struct robust_list lock;
    static struct robust_list_head list = {.list = {.next = &lock}};
    lock.next = &list.list;
    list.futex_offset = (long)((intptr_t)word - (intptr_t)&lock);
    apir_store_release32(word, (uint32_t)syscall(SYS_gettid));
    (void)syscall(SYS_set_robust_list, &list, sizeof(list));
}

void worker_system_name(const char *name)
{
    (void)prctl(PR_SET_NAME, name);
}

void worker_system_exact_timers(void)
{
    (void)prctl(PR_SET_TIMERSLACK, 1ul);
}

/*
 * Of two threads with one core the lower nice value has the greater share, but when it wakes up it
 * may wait for the end of the other's slice: milliseconds, as long as a token. It does not wait for
 * one that is SCHED_IDLE, unless it has given its core away itself (sched_yield).
 */
void worker_system_step_back(void)
{
    const struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &none))
        (void)setpriority(PRIO_PROCESS, 0, 19);
}
