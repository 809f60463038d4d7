/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers that share one MPS: each has its class of containers, all have one user and so one
 * fault domain (backend/server/share/mps.h). They meet in a folder that no other user can enter,
 * and the first of them, which holds a lock there, *owns* the daemon: it starts it, and tells the
 * others what becomes of it. When it ends, the daemon ends with it, and another server is the
 * first.
 *
 * A server without a group has a folder of its own, and is always its owner.
 *
 * Who is in the folder is trusted as the user itself is. A worker is that user, too: by the time it
 * looks at a guest's bytes it can make no connection any more, and what a member sends is not read.
 */
#pragma once

#include <stdbool.h>

#include "backend/server/loop.h"
#include "common/error.h"

/* So that a socket's address has room for "/control_privileged" behind it. */
#define SERVER_GROUP_FOLDER_MAX 88u
#define SERVER_GROUP_MEMBERS    64u

/* From a look for an owner, or for members that could not be taken, to the next. */
#define SERVER_GROUP_AGAIN_MS 100

/* What becomes of an MPS. */
enum server_mps_news {
    SERVER_MPS_USED,  /* somebody computes through it */
    SERVER_MPS_FAULT, /* a program of it had a fatal fault on the GPU */
    SERVER_MPS_ENDED,
};

struct server_group;

struct server_group_events {
    /* This server is the owner from now on, and nothing of a daemon is in the folder. */
    void (*own)(void *user);
    /* Of a member: what the owner has told. */
    void (*told)(void *user, enum server_mps_news news);
};

struct server_group_member {
    struct server_group *group;
    int fd; /* when source.added */
    struct server_source source;
};

/* {0} is a valid one that was never joined. */
struct server_group {
    struct server_loop *loop;
    char folder[SERVER_GROUP_FOLDER_MAX]; /* "": none */
    bool named, owner;
    bool used; /* SERVER_MPS_USED is the last that was told: of a member, by its owner */
    int lock_fd;
    int socket_fd; /* an owner's, which listens; or a member's, to the owner; -1: none */
    struct server_source source;
    struct server_timer again;
    struct server_group_member members[SERVER_GROUP_MEMBERS];
    const struct server_group_events *events;
    void *user;
};

/*
 * Makes or enters the folder of the group `name`, or a folder of this server's own if that is NULL.
 * Returns 0 or -errno with *err set; fini either way.
 */
int server_group_init(struct server_group *group, struct server_loop *loop, const char *name,
                      const struct server_group_events *events, void *user, struct apir_error *err);
/* Owns, or follows who does; own() may be called from here. */
void server_group_join(struct server_group *group);
/* The folder stays where others may be in it. */
void server_group_fini(struct server_group *group);

/* An owner's: every member is told. */
void server_group_tell(struct server_group *group, enum server_mps_news news);
/* An owner's: what an ended daemon leaves goes, for a worker would take it for one that is there.
 */
void server_group_clear(const struct server_group *group);
