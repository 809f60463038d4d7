/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/closer.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/server/memory.h"
#include "protocol/atomic.h"

#define CLOSER_STACK (64u << 10)

struct batch {
    struct batch *next;
    uint64_t size;  /* of the memory that it is, to be freed; 0: only to be closed */
    uint32_t *done; /* or NULL */
    char *folder;   /* to be removed, or NULL; ours */
    size_t n;
    int fds[];
};

/* One kind of work, and its threads. */
struct closers {
    pthread_mutex_t lock;
    struct batch *waiting; /* below lock; the oldest is the last */
    unsigned n;            /* below lock */
    bool oldest;           /* below lock; whose turn it is */
    unsigned most;
};

static struct closers closing = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = SERVER_CLOSERS_MAX};
static struct closers freeing = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = 1};
static struct closers removing = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = 1};

/* By turns the smallest, so that nobody waits for the many gigabytes of somebody else, and the
 * oldest, so that nobody waits for ever for others who come and come. */
static struct batch *batch_take(struct closers *closers)
{
    pthread_mutex_lock(&closers->lock);
    struct batch **least = &closers->waiting;
    for (struct batch **at = least; *at; at = &(*at)->next) {
        if (closers->oldest || (*at)->size < (*least)->size)
            least = at;
    }
    closers->oldest = !closers->oldest;
    struct batch *batch = *least;
    if (batch)
        *least = batch->next;
    else
        closers->n--;
    pthread_mutex_unlock(&closers->lock);
    return batch;
}

/* Its process has been reaped; what else the kernel does with that may take a moment. */
static void folder_remove(const char *folder)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    for (int i = 0; i < 100 && rmdir(folder) < 0 && errno == EBUSY; i++)
        nanosleep(&moment, NULL);
}

static void *closer(void *user)
{
    for (struct batch *batch; (batch = batch_take(user));) {
        for (size_t i = 0; i < batch->n; i++) {
            if (batch->size)
                server_memory_free(batch->fds[i], batch->size);
            close(batch->fds[i]);
        }
        if (batch->done)
            apir_store_release32(batch->done, 1);
        if (batch->folder)
            folder_remove(batch->folder);
        free(batch->folder);
        free(batch);
    }
    return NULL;
}

/* Signals are the main thread's: a new thread has them blocked as that one has. */
static int closer_start(struct closers *closers)
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
        rc = pthread_create(&thread, &attr, closer, closers);
    pthread_attr_destroy(&attr);
    return rc;
}

/* False: there is no thread, and none can be started; this one waits for the next call's. */
static bool closers_add(struct closers *closers, struct batch *batch)
{
    pthread_mutex_lock(&closers->lock);
    batch->next = closers->waiting;
    closers->waiting = batch;
    const bool more = closers->n < closers->most;
    if (more)
        closers->n++;
    pthread_mutex_unlock(&closers->lock);
    if (!more || closer_start(closers) == 0)
        return true;
    pthread_mutex_lock(&closers->lock);
    closers->n--;
    /* It is the first, unless one has taken it since: nobody else adds any. */
    const bool waits = closers->n == 0 && closers->waiting == batch;
    pthread_mutex_unlock(&closers->lock);
    return !waits;
}

/* With these descriptors, or NULL: no memory. */
static struct batch *batch_new(const int *fds, size_t n)
{
    struct batch *batch = malloc(sizeof(*batch) + n * sizeof(*fds));
    if (!batch)
        return NULL;
    *batch = (struct batch){.n = n};
    if (n)
        memcpy(batch->fds, fds, n * sizeof(*fds));
    return batch;
}

void server_close_later(const int *fds, size_t n)
{
    struct batch *batch = n ? batch_new(fds, n) : NULL;
    if (batch)
        (void)closers_add(&closing, batch);
}

bool server_free_later(int fd, uint64_t size, uint32_t *done)
{
    struct batch *batch = batch_new(&fd, 1);
    if (!batch)
        return false;
    batch->size = size;
    batch->done = done;
    if (closers_add(&freeing, batch))
        return true;
    freeing.waiting = batch->next; /* no thread looks */
    free(batch);
    return false;
}

void server_remove_later(const char *folder)
{
    struct batch *batch = batch_new(NULL, 0);
    if (!batch)
        return;
    batch->folder = strdup(folder);
    (void)closers_add(&removing, batch);
}
