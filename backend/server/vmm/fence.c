/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/vmm/fence.h"

#include <errno.h>
#include <fcntl.h>
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

int server_fences_complete(struct server_fences *fences, uint32_t ring, uint32_t seqno)
{
    if (ring >= fences->n_timelines)
        return -ERANGE;
    apir_store_release32(&fences->timeline[ring], seqno);
    if (fences->eventfd >= 0) {
        const uint64_t one = 1;
        /* A full counter wakes it as well. */
        ssize_t ignored = write(fences->eventfd, &one, sizeof(one));
        (void)ignored;
    }
    return 0;
}
