/* SPDX-License-Identifier: Apache-2.0 */
#include "common/parent.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/event.h>
#include <unistd.h>

static int watched; /* a kqueue that tells of the parent's end; never closed */

static void *watch(void *user)
{
    struct kevent event;
    int n;
    (void)user;
    do {
        n = kevent(watched, NULL, 0, &event, 1, NULL);
    } while (n < 0 && errno == EINTR);
    if (n == 1)
        (void)kill(getpid(), SIGKILL);
    return NULL;
}

/* A thread of its own waits for it. In a child that is to become another program it ends there:
 * that one asks again. */
bool apir_ends_with_parent(pid_t parent)
{
    static pid_t by; /* the process that has the thread */
    struct kevent end;
    pthread_t thread;
    if (by == getpid())
        return getppid() == parent;
    watched = kqueue();
    EV_SET(&end, (uintptr_t)parent, EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, NULL);
    if (watched < 0 || kevent(watched, &end, 1, NULL, 0, NULL) < 0 ||
        pthread_create(&thread, NULL, watch, NULL) != 0)
        return false;
    by = getpid();
    (void)pthread_detach(thread);
    /* It may have ended before: then nobody would tell us. */
    return getppid() == parent;
}
