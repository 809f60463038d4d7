/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/server/closer.h"

#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOSER_STACK (64u << 10)

struct batch {
    struct batch *next;
    size_t n;
    int fds[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct batch *waiting; /* below lock */
static unsigned n_closers;    /* below lock */

static struct batch *batch_take(void)
{
    pthread_mutex_lock(&lock);
    struct batch *batch = waiting;
    if (batch)
        waiting = batch->next;
    else
        n_closers--;
    pthread_mutex_unlock(&lock);
    return batch;
}

static void *closer(void *unused)
{
    (void)unused;
    for (struct batch *batch; (batch = batch_take());) {
        for (size_t i = 0; i < batch->n; i++)
            close(batch->fds[i]);
        free(batch);
    }
    return NULL;
}

/* Signals are the main thread's: a new thread has them blocked as that one has. */
static int closer_start(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    const size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);
    int rc = pthread_attr_init(&attr);
    if (rc)
        return rc;
    rc = pthread_attr_setstacksize(&attr, CLOSER_STACK > least ? CLOSER_STACK : least);
    if (!rc)
        rc = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (!rc)
        rc = pthread_create(&thread, &attr, closer, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

void server_close_later(const int *fds, size_t n)
{
    /* Without memory they stay open: to wait would be worse. */
    struct batch *batch = n ? malloc(sizeof(*batch) + n * sizeof(*fds)) : NULL;
    if (!batch)
        return;
    batch->n = n;
    memcpy(batch->fds, fds, n * sizeof(*fds));
    pthread_mutex_lock(&lock);
    batch->next = waiting;
    waiting = batch;
    const unsigned most = n_closers;
    if (most < SERVER_CLOSERS_MAX)
        n_closers++;
    pthread_mutex_unlock(&lock);
    /* Where none can be started this one waits for the next call's. */
    if (most < SERVER_CLOSERS_MAX && closer_start() != 0) {
        pthread_mutex_lock(&lock);
        n_closers--;
        pthread_mutex_unlock(&lock);
    }
}
