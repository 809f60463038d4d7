/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/server/vmm/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/server/page.h"
#include "protocol/atomic.h"
#include "common/cleanup.h"

void server_fences_init(struct server_fences *fences)
{
    *fences = (struct server_fences){.eventfd = -1};
}

void server_fences_fini(struct server_fences *fences)
{
    server_page_unmap(fences->timeline);
    apir_close_fd(&fences->eventfd);
    server_fences_init(fences);
}

int server_fences_attach(struct server_fences *fences, int shmem_fd, uint64_t shmem_size,
                         int *eventfd)
{
    if (fences->timeline)
        return -EEXIST;
    uint64_t count = shmem_size / sizeof(uint32_t);
    if (count == 0 || shmem_size > 65536)
        return -EINVAL;
    struct stat st;
    if (fstat(shmem_fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size < shmem_size)
        return -EINVAL;
    /* We write to it whenever a fence is done: a full pipe would stop us, for all contexts. */
    if (*eventfd >= 0 && (fcntl(*eventfd, F_GETFL) & O_NONBLOCK) == 0)
        return -EINVAL;
    void *page;
    int rc = server_page_map(shmem_fd, &page);
    if (rc < 0)
        return rc;
    fences->timeline = page;
    fences->n_timelines = count > SERVER_TIMELINES_MAX ? SERVER_TIMELINES_MAX : (uint32_t)count;
    for (uint32_t i = 0; i < fences->n_timelines; i++)
        apir_store_release32(&fences->timeline[i], 0);
    fences->eventfd = steal_fd(eventfd);
    return 0;
}

int server_fences_expect(struct server_fences *fences, uint32_t ring, uint64_t target)
{
    if (ring >= SERVER_TIMELINES_MAX)
        return -ERANGE;
    fences->expected[ring] = target;
    return 0;
}

static void server_fences_signal(struct server_fences *fences, const struct server_fence *fence)
{
    apir_store_release32(&fences->timeline[fence->ring], fence->seqno);
}

static void server_fences_wake(const struct server_fences *fences)
{
    const uint64_t one = 1;
    if (fences->eventfd >= 0) {
        /* A full counter wakes it as well. */
        ssize_t ignored = write(fences->eventfd, &one, sizeof(one));
        (void)ignored;
    }
}

int server_fences_submit(struct server_fences *fences, uint32_t ring, uint32_t seqno,
                         int64_t now_ms)
{
    if (ring >= fences->n_timelines)
        return -ERANGE;
    if (fences->n == SERVER_FENCES_MAX) {
        /* The oldest of all is the first of its timeline: order is kept. */
        server_fences_signal(fences, &fences->queue[0]);
        server_fences_wake(fences);
        fences->n--;
        memmove(&fences->queue[0], &fences->queue[1], fences->n * sizeof(fences->queue[0]));
    }
    fences->queue[fences->n++] = (struct server_fence){
        .ring = ring,
        .seqno = seqno,
        .target = fences->expected[ring],
        .since_ms = now_ms,
    };
    fences->expected[ring] = 0;
    return 0;
}

uint64_t server_fences_complete(struct server_fences *fences, uint64_t head, int64_t now_ms)
{
    uint64_t blocked = 0; /* a bit per timeline: an earlier fence of it still waits */
    uint64_t lowest = SERVER_FENCE_NEVER;
    size_t kept = 0;
    for (size_t i = 0; i < fences->n; i++) {
        const struct server_fence fence = fences->queue[i];
        const uint64_t bit = UINT64_C(1) << fence.ring;
        const bool due = fence.target <= head || now_ms - fence.since_ms >= SERVER_FENCE_AGE_MS;
        if (!(blocked & bit) && due) {
            server_fences_signal(fences, &fence);
            continue;
        }
        if (!(blocked & bit) && fence.target < lowest)
            lowest = fence.target;
        blocked |= bit;
        fences->queue[kept++] = fence;
    }
    if (kept != fences->n)
        server_fences_wake(fences);
    fences->n = kept;
    return lowest;
}

int64_t server_fences_deadline(const struct server_fences *fences)
{
    return fences->n ? fences->queue[0].since_ms + SERVER_FENCE_AGE_MS : -1;
}
