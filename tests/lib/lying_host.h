/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host of the `unix` transport for one program with the plug-in. It says yes to everything and
 * computes nothing; whatever it is about to say or give goes through the test's lie first.
 */
#ifndef APIR_TEST_LYING_HOST_H
#define APIR_TEST_LYING_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/graph.h"
#include "protocol/messages.h"
#include "protocol/unix.h"

/* What is at hand: one of these, or a message's code with its answer. */
enum lie_step {
    LIE_WELCOME = 1000,
    LIE_MEMORY, /* a blob that was asked for */
    LIE_READY,  /* the ring's header, before the program sees it */
};

struct lie_data {
    void *answer; /* struct apir_unix_welcome, apir_unix_answer, apir_reply_* or apir_ring_header */
    size_t size;  /* of what is sent over the socket; may be changed, up to the next */
    size_t room;
    int *fds; /* that go along; room for LIE_FDS_MAX, what is in there is closed then */
    size_t n_fds;
    uint64_t blob_id, blob_size;
    const struct apir_msg *msg;
    const struct apir_graph *graph; /* OP_QUERY, GRAPH_OPTIMIZE, GRAPH_DEF: what it is about */
    const uint8_t *payload;         /* its bytes */
    size_t payload_size;
    uint32_t *order; /* GRAPH_OPTIMIZE: the places of all nodes, then of dependencies */
};
#define LIE_FDS_MAX 8u

typedef void lie(enum lie_step step, struct lie_data *d);

/* A memfd of this size that cannot shrink, as a server's. */
int lying_host_memory(uint64_t size);

/* Serves the first program that connects, until it has gone; ends the process: 0, 2 where it did
 * not work, another number where the lie has ended it. The listener is a SOCK_SEQPACKET. */
_Noreturn void lying_host_serve(int listener, lie *tell);

/* For a lie: nothing more is said until the program has gone, which ends the process with 0. */
_Noreturn void lying_host_falls_silent(void);

/* For a lie: the ring's header as both sides have it; NULL: not yet. */
struct apir_ring_header *lying_host_ring(void);

#endif
