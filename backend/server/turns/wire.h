/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What servers and the broker tell each other: messages of this one size on a SOCK_SEQPACKET
 * socket, in the byte order of the machine, which they never leave.
 */
#pragma once

#include <stdint.h>

#include "protocol/shm.h"

enum server_turns_op {
    /* From a server. */
    SERVER_TURNS_WANT = 1, /* a turn of the device; while it waits or has one: its need now */
    SERVER_TURNS_LEFT = 2, /* its turn is over */
    /* From the broker. */
    SERVER_TURNS_GRANT = 3,  /* the turn is the server's */
    SERVER_TURNS_RETURN = 4, /* it is to be over at the first end of a graph after_ns from now */
    SERVER_TURNS_WAIT = 5,   /* answers a WANT that cannot be granted yet */
};

struct server_turns_message {
    uint32_t op;
    uint32_t weight;  /* WANT: backend/server/turns/order.h */
    uint32_t latency; /* WANT: 0 or 1 */
    uint32_t need;    /* WANT: backend/server/turns/order.h */
    uint64_t after_ns;
    char device[APIR_ID_SIZE]; /* NUL-padded */
};
_Static_assert(sizeof(struct server_turns_message) == 88, "no padding");
