/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives out the turns of all devices of this machine: one of the servers that take turns does, in a
 * common folder, and the others connect to it. Whoever holds the lock of the file "turns.lock"
 * there is the broker; its end frees the lock, and another server takes its place. Who may write in
 * the folder may take part: that is the rule, as it is for limits (backend/server/limits/claims.h).
 *
 * A peer that sends nonsense or does not read is cut off. One that has a turn and does not give it
 * back keeps nobody waiting for longer than order.h says.
 */
#pragma once

#include "backend/server/loop.h"

#define SERVER_BROKER_PEERS_MAX 256u
#define SERVER_BROKER_LOCK      "turns.lock"
/* Names of sockets; where several are there, one listens. */
#define SERVER_BROKER_PREFIX "turns-"

struct server_broker_peer;
struct server_broker_device;

/* {0} is one that was never started. */
struct server_broker {
    struct server_loop *loop; /* NULL: not started, and then all of this is nothing */
    int dir_fd;               /* the folder, the owner's */
    int lock_fd;
    int fd;
    char name[32];
    struct server_source source;
    struct server_timer again; /* armed: there was no descriptor for a peer */
    struct server_broker_peer *peers;
    struct server_broker_device *devices;
    unsigned n_peers;
};

/* Returns 0; -EAGAIN: another server is the broker; or -errno. dir_fd outlives it. */
int server_broker_start(struct server_broker *broker, struct server_loop *loop, int dir_fd);
void server_broker_stop(struct server_broker *broker);

/* A connected socket, the caller's, to whoever is the broker in the folder, or -errno. */
int server_broker_connect(int dir_fd);
