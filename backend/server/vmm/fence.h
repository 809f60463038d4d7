/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fences of one context. A fence is the VMM's {ring_index, seqno}; it is
 * done when seqno stands in the timeline memfd and the eventfd has been written.
 *
 * A guest of ours waits for no fence, it looks at the head. But its kernel and
 * the VMM make fences for each submission, and a pending one holds a descriptor
 * of the queue that all containers of a VM share. So each is completed at once.
 */
#pragma once

#include <stdint.h>

#define SERVER_TIMELINES_MAX 64u /* virglrenderer's own count */

struct server_fences {
    uint32_t *timeline; /* NULL before attach */
    uint32_t n_timelines;
    int eventfd; /* owned; -1: the VMM polls the timeline */
};

void server_fences_init(struct server_fences *fences);
void server_fences_fini(struct server_fences *fences);

/*
 * Maps the VMM's timeline memfd (shmem_fd stays the caller's) and takes the
 * eventfd (-1: none) over on success. Returns 0 or -errno; -EEXIST: done before.
 */
int server_fences_attach(struct server_fences *fences, int shmem_fd, uint64_t shmem_size,
                         int *eventfd);

/* Completes a fence. Returns 0, or -ERANGE where the timeline has no such ring. */
int server_fences_complete(struct server_fences *fences, uint32_t ring, uint32_t seqno);
