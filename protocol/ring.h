/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command ring: one producer (the guest process, under its own lock), one
 * consumer (the worker). Offsets are free-running 64-bit byte counts. A position
 * that the producer got from put() is complete once head has reached it: the
 * head doubles as the completion counter of everything on the ring.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/shm.h"

/* ---- guest ---------------------------------------------------------------- */

struct apir_ring_guest {
    struct apir_ring_header *header; /* borrowed: the mapped ring blob */
    uint8_t *cmd;
    uint64_t cmd_size;
    uint64_t tail;      /* ours, ahead of the shared one until publish */
    uint64_t published; /* what the shared tail says */
};

/*
 * Takes a mapped ring blob of blob_size bytes. Returns 0; -ENODEV where there is
 * no magic (a host without us); -EPROTO where the server's layout is not one
 * that this protocol makes.
 */
int apir_ring_guest_init(struct apir_ring_guest *rg, void *blob, uint64_t blob_size);

/* The completed position, never beyond our own tail whatever the host writes. */
uint64_t apir_ring_guest_head(const struct apir_ring_guest *rg);

/* Whether a message of `size` bytes fits now. */
bool apir_ring_guest_has_room(const struct apir_ring_guest *rg, size_t size);

/*
 * Copies one encoded message (a multiple of 8 bytes) behind the tail; the
 * caller has made sure of room. Returns the position that completes it.
 */
uint64_t apir_ring_guest_put(struct apir_ring_guest *rg, const void *msg, size_t size);

/* Shows everything put so far to the host. True: the host sleeps, kick it. */
bool apir_ring_guest_publish(struct apir_ring_guest *rg);

/* ---- host ----------------------------------------------------------------- */

struct apir_ring_host {
    struct apir_ring_header *header; /* borrowed: mapped, hostile */
    const uint8_t *cmd;
    uint64_t cmd_size;
    uint64_t head;  /* ours; the shared word is only ever written */
    uint64_t limit; /* tail as last checked: head <= limit <= head + cmd_size */
    uint64_t taken; /* size of the message at hand */
    uint64_t shown; /* what the shared head says */
};

/* Of the guest's threads that sleep, so many are woken at once; the others look by themselves soon.
 * A guest may have thousands sleep there, and the server wakes those of all guests. */
#define APIR_RING_WAKES 64

/* `blob` is the mapped ring blob of a size that apir_ring_size_ok accepts. */
void apir_ring_host_init(struct apir_ring_host *rh, void *blob, uint64_t blob_size);

/*
 * Copies the next message out of shared memory into buf. Returns 0 with its
 * size, -EAGAIN (nothing there), or -EBADMSG (tail or header make no sense: the
 * context is to become FATAL).
 */
int apir_ring_host_take(struct apir_ring_host *rh, void *buf, size_t cap, size_t *ret_size);

/* The taken message is done. Others see that with the next apir_ring_host_show(). */
void apir_ring_host_done(struct apir_ring_host *rh);

/*
 * Shows what is done to others, and wakes a waiter. False: it was shown already. To take the head's
 * line from a guest that looks at it costs a trip between cores, so after a short message it is
 * due only where nothing follows or a quarter of the ring is free that the guest does not know of;
 * and always before anything that may take long.
 */
bool apir_ring_host_show(struct apir_ring_host *rh);
bool apir_ring_host_show_due(const struct apir_ring_host *rh);

/*
 * The taken message is done but for `left` steps, 0 < left < its size: head stands that many
 * bytes before its end, for others to see.
 */
void apir_ring_host_progress(struct apir_ring_host *rh, uint64_t left);

/* Whether anything is behind the taken message. */
bool apir_ring_host_has_more(const struct apir_ring_host *rh);

/*
 * Announces sleep. True: nothing arrived meanwhile.
 * Either way call apir_ring_host_awake afterwards.
 */
bool apir_ring_host_prepare_sleep(struct apir_ring_host *rh);
void apir_ring_host_awake(struct apir_ring_host *rh);

/* Blocks until somebody wakes us, or for `timeout_ns`; between prepare_sleep (true) and awake.
 * True: somebody has. */
bool apir_ring_host_sleep(struct apir_ring_host *rh, uint64_t timeout_ns);

/* Whether the worker sleeps, and what is sent to it now would be waited for. */
bool apir_ring_host_sleeps(const struct apir_ring_header *h);

/*
 * Wakes the worker, if it sleeps: from the same kernel (the server; a guest without
 * a VM). The one futex is the header's `idle`. A guest whose own threads sleep there wakes one of
 * those instead: it waits longer, and nobody else does.
 */
void apir_ring_wake_host(struct apir_ring_header *h);

/* Sets the reason, then the state, and wakes a waiter. For worker and server. */
void apir_ring_set_state(struct apir_ring_header *h, enum apir_state state, const char *reason);
