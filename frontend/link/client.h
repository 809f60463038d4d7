/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session with the host: one context per process, one ring, one arena, and
 * shared memory for what has to be fast.
 * Every function may be called from any thread. The "locked" ones want
 * client_lock held; what they put on the ring becomes visible to the host with
 * the next client_flush.
 *
 * Loss is sticky: from the first call that notices that the host is gone (or
 * that we are a forked child, which shares nothing with it), every function here
 * fails at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "frontend/link/os.h"
#include "frontend/link/transport.h"
#include "protocol/crowd.h"
#include "protocol/messages.h"
#include "protocol/ring.h"

#define CLIENT_ARENA_SIZE (8u << 20)
#define CLIENT_CHUNK      (1u << 20) /* of a read, or of rows: the rest overlaps */
#define CLIENT_BLOCKS_MAX 1024u
#define CLIENT_CALLS_MAX  64u /* that wait for an answer at the same time; more wait for a place */

/* Part of the arena, in use until the host has passed `until` and it is not held. */
struct client_block {
    uint64_t offset;
    uint64_t size;
    uint64_t until;
    uint32_t held; /* 1: its contents are still to be read by us */
};

/* In the place of a stream: of ggml's synchronous calls, which have none. */
#define CLIENT_SYNCHRONOUS UINT32_MAX

/* A read whose bytes are at `dst` once the host has passed `until`: copied from
 * `block`, or written there by the host itself (no block: dst is shared memory). */
struct client_read {
    void *dst;
    uint64_t size;
    uint64_t stride; /* of rows in dst; 0: one piece */
    uint64_t row;
    uint64_t until;
    struct client_block *block;
    uint32_t type;   /* GGUF type number: what to write if the host is lost */
    uint32_t stream; /* its id, or CLIENT_SYNCHRONOUS */
};

/* Shared memory beside ring and arena: host buffers (shared.h). */
struct client_shared {
    struct transport_blob blob; /* map NULL: unused */
    uint32_t id;                /* blob id on the wire */
    bool direct;                /* the device itself reads and writes it */
};

struct client {
    struct os_lock lock;
    struct os_lock bell_lock; /* innermost */
    struct transport transport;
    struct apir_ring_guest ring;
    uint8_t *replies; /* reply area in the ring blob */
    uint8_t *arena;
    uint64_t arena_size;

    struct client_block blocks[CLIENT_BLOCKS_MAX]; /* a queue in order of offset */
    uint32_t block_first, block_count;
    uint64_t arena_next;
    uint64_t arena_turn; /* where the present run of blocks began */

    struct client_read reads[CLIENT_BLOCKS_MAX]; /* deferred reads, oldest first */
    uint32_t read_count;

    uint64_t calls;                              /* bit per reply place of a call */
    uint32_t *alive;                             /* 1; the kernel wipes it in a forked child */
    uint32_t lost;                               /* 1: the host is gone; read without the lock */
    struct client_shared shared[APIR_BLOBS_MAX]; /* by blob id; 0 and 1 are ring and arena */
    uint64_t shared_size;                        /* of all of them */

    uint32_t ping;
    struct apir_crowd crowd; /* without the lock */
    bool exit_on_loss;
    struct apir_reply_hello hello;
};

/* False in a forked child and after a loss. */
bool client_usable(struct client *c);

/* True in a forked child of the process that connected: nothing may be locked. */
bool client_forked(struct client *c);

/* The host is gone, and why: one line, once per process; no call reaches it any more. Not with
 * bell_lock held. */
void client_lose(struct client *c, const char *why);

void client_lock(struct client *c);
void client_unlock(struct client *c);

/* Puts msg on the ring; returns the position that completes it, 0: lost. */
uint64_t client_put_locked(struct client *c, const struct apir_msg *msg);

/* Shows what was put to the host, and wakes it if it sleeps. */
void client_flush_locked(struct client *c);

/* The host has completed `pos`. */
bool client_reached(const struct client *c, uint64_t pos);
/* Notices a state that ends the session. */
bool client_state_ok(struct client *c);
/* The host has completed all that it was shown: it waits for us. */
bool client_host_idle(struct client *c);

/*
 * Waits until the host has completed `pos`. expect_ns: how long that takes as
 * far as is known, 0 for soon. Returns 0, or -ENODEV: lost. Without the lock.
 */
int client_wait(struct client *c, uint64_t pos, uint64_t expect_ns);
/*
 * The same for what computes on every core: looking would take one of them, and what is waited for
 * would wait for that core. In one kernel it sleeps until the host wakes it.
 * docs/decisions.md, A client sleeps while every core computes.
 */
int client_wait_asleep(struct client *c, uint64_t pos, uint64_t expect_ns);
int client_wait_locked(struct client *c, uint64_t pos);

/* In the reply area, behind the places of calls: each stream id has a place of its own, for struct
 * apir_stream_status. */
static inline uint32_t client_stream_offset(uint32_t stream)
{
    return (CLIENT_CALLS_MAX + stream - 1) * APIR_REPLY_SIZE;
}
_Static_assert((CLIENT_CALLS_MAX + APIR_STREAMS_MAX) * APIR_REPLY_SIZE <=
                   APIR_RING_SIZE / 2 - APIR_RING_HEADER_SIZE,
               "all places are in the reply area");

/* A device that is the CPU of this very machine: without a GPU and a VM nothing is gained. */
static inline bool client_has_own_cpu(const struct client *c,
                                      const struct apir_reply_device_info *info)
{
    return c->transport.same_kernel && (info->flags & APIR_DEVICE_SYNC);
}
