/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fences of one context. A fence is the VMM's {ring_index, seqno}; it is
 * done when seqno stands in the timeline memfd and the eventfd has been written.
 * On each timeline fences complete in the order of submission.
 *
 * For the guest a fence is a hint, it looks at the head itself. For the VMM a
 * pending fence holds a descriptor of the queue that all containers of a VM
 * share. So there are few per context and each has an age limit: whatever is
 * too many or too old completes early.
 */
#ifndef APIR_SERVER_FENCE_H
#define APIR_SERVER_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVER_TIMELINES_MAX 64u  /* virglrenderer's own count */
#define SERVER_FENCES_MAX    16u  /* pending, per context */
#define SERVER_FENCE_AGE_MS  5000 /* then it completes whatever the head says */
#define SERVER_FENCE_NEVER   UINT64_MAX

struct server_fence {
    uint32_t ring;
    uint32_t seqno;
    uint64_t target; /* the head that completes it; 0: any */
    int64_t since_ms;
};

struct server_fences {
    uint32_t *timeline; /* NULL before attach */
    uint32_t n_timelines;
    int eventfd; /* owned; -1: the VMM polls the timeline */
    size_t n;    /* oldest first */
    struct server_fence queue[SERVER_FENCES_MAX];
    uint64_t expected[SERVER_TIMELINES_MAX]; /* target of the next fence; 0: none */
};

void server_fences_init(struct server_fences *fences);
void server_fences_fini(struct server_fences *fences);

/*
 * Maps the VMM's timeline memfd (shmem_fd stays the caller's) and takes the
 * eventfd (-1: none) over on success. Returns 0 or -errno; -EEXIST: done before.
 */
int server_fences_attach(struct server_fences *fences, int shmem_fd, uint64_t shmem_size,
                         int *eventfd);

/* The next fence on `ring` waits for `target`. Returns 0, or -ERANGE for `ring`. */
int server_fences_expect(struct server_fences *fences, uint32_t ring, uint64_t target);

/* Queues a fence. Returns 0, or -ERANGE where the timeline has no such ring. */
int server_fences_submit(struct server_fences *fences, uint32_t ring, uint32_t seqno,
                         int64_t now_ms);

/*
 * Completes what `head` and `now_ms` allow, or with head SERVER_FENCE_NEVER
 * everything. Returns the lowest head that would complete another one, or
 * SERVER_FENCE_NEVER.
 */
uint64_t server_fences_complete(struct server_fences *fences, uint64_t head, int64_t now_ms);

/* When the oldest fence reaches its age limit; -1: none is pending. */
int64_t server_fences_deadline(const struct server_fences *fences);

#endif
