/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The apir contexts of one server. A context is a ring, further shared memory
 * and a worker; how its guest reaches us is the socket's business: vmm/virgl.h
 * (a VMM's virglrenderer) or unix/unix.h (a process of this very machine), which
 * embed it as their first member.
 *
 * A context that cannot be served (another protocol version, too many contexts,
 * a broken configuration) may be made all the same, but *refused*: it is lost
 * from birth, and its ring says why.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/config/config.h"
#include "backend/server/child.h"
#include "backend/server/loop.h"
#include "backend/server/share/mps.h"
#include "backend/server/output.h"
#include "backend/server/quota.h"
#include "backend/server/seen/events.h"
#include "backend/server/shm.h"
#include "backend/server/ahead/spare.h"
#include "backend/server/ahead/trial.h"
#include "backend/server/spin.h"
#include "backend/server/worker.h"
#include "backend/server/limits/user.h"
#include "common/log.h"
#include "protocol/shm.h"

/* Served and refused ones together. */
#define SERVER_CONTEXTS_MAX 512u

struct server_context;

/* What a server stands on. All that it points at is the creator's, and outlives who is given it. */
struct server_env {
    struct server_loop *loop;
    struct server_children *children;
    const struct apir_config *config;
    const char *config_path; /* for the workers; NULL: defaults */
    const char *worker_path;
    struct server_mps *mps; /* which the workers compute through; NULL: none */
    const char *refusal;    /* not NULL: no context is served, and why, for who asks for one */
};

/* The set, and what its contexts share. */
struct server_contexts {
    struct server_env env;
    uint32_t max_per_user; /* contexts; whoever makes them has checked it */
    pid_t vmm;             /* whose contexts they are; 0: each has a peer of its own */
    bool strangers_send;   /* descriptors, on the socket that listens (backend/server/closer.h) */
    struct server_context *first;
    struct server_spin spin;
    struct server_accounts accounts;
    struct server_turns turns;
    struct server_shm_books books;
    struct server_trial trial;
    struct server_spares spares;
    struct server_outputs outputs;
    struct server_users users;
    char refusal[APIR_REASON_MAX]; /* of the last blob that was over the limit of all */
    unsigned n_served;
    unsigned n_refused;
    struct server_events events;
};

/* What the socket's side does; `context` is its first member. */
struct server_context_ops {
    /* server_context_fini, then the end of all that is around it. */
    void (*destroy)(struct server_context *context);
};

struct server_context_blob {
    bool used;
    uint64_t size;
    int fd;   /* ours (backend/server/shm.h) */
    int late; /* the worker's, while there is none to get it; 0: it has got it */
};

struct server_context {
    struct server_context *next;
    struct server_contexts *contexts;
    const struct server_context_ops *ops;
    uint32_t id;
    struct server_user *user; /* whose it is */
    pid_t pid;                /* of the peer; 0: a VMM's guest, or it cannot be told */
    int64_t began_ms;
    bool served; /* counted as such; not refused at birth */
    bool lost;   /* for good */
    bool waits;  /* for the trial of the devices, and then a worker */
    bool begun;  /* it has had shared memory beside its ring */
    char reason[APIR_REASON_MAX];
    struct server_worker worker;
    struct apir_ring_header *ring; /* NULL before the ring blob exists */
    struct server_context_blob blobs[APIR_BLOBS_MAX];
    uint64_t shm_size;            /* of all blobs */
    struct server_shm_book *book; /* of those that were destroyed */
    struct server_quota log_quota;
    struct server_quota limit_quota; /* events about memory that it was refused */
    struct server_timer watch;       /* seconds_per_graph */
    bool watch_busy;                 /* when it last looked: the worker was at the message … */
    uint64_t watch_head;             /* … at this place … */
    int64_t watch_since_ms;          /* … and had been since then, at least */
};

/* Of *contexts env and max_per_user are set, and the rest is zero. Returns 0 or -errno;
 * fini either way. */
int server_contexts_init(struct server_contexts *contexts);
/* Destroys all contexts. */
void server_contexts_clear(struct server_contexts *contexts);
void server_contexts_fini(struct server_contexts *contexts);

/* NULL: there is none with this id. */
struct server_context *server_contexts_find(struct server_contexts *contexts, uint32_t id);

/*
 * Adds a context of `user`, whose process `pid` is (0: as server_context.pid says), to the set;
 * `refusal` (NULL: it is served) is the text that its guest will read. ops outlive it.
 */
void server_context_init(struct server_context *context, struct server_contexts *contexts,
                         uint32_t id, struct server_user *user, pid_t pid, const char *refusal,
                         const struct server_context_ops *ops);

/* Kills its worker, unmaps its ring, and takes it out of the set. */
void server_context_fini(struct server_context *context);

/* By its ops: the socket is closed and the memory freed, too. */
void server_context_destroy(struct server_context *context);

/* A line that the guest can cause as often as it likes: few of them per minute are logged. */
void __attribute__((format(printf, 2, 3))) server_context_complain(struct server_context *context,
                                                                   const char *fmt, ...);

/* Ends the worker; the ring says LOST and why, and moved() follows. May be repeated. */
void server_context_lose(struct server_context *context, enum apir_log_level level,
                         const char *reason);

/*
 * A blob of the guest's choice: the ring (id 0), which starts the worker, then
 * others. Returns its memfd, the caller's, or -errno with *ret_why set, a text that lasts until the
 * next call. -EDQUOT: all contexts together have what they may have. One that has had nothing but
 * its ring is lost then, so that its guest reads why there.
 */
int server_context_blob_create(struct server_context *context, uint64_t blob_id, uint64_t size,
                               const char **ret_why);

/* Without the ring the context is lost. A blob that does not exist is nothing to do. */
void server_context_blob_destroy(struct server_context *context, uint32_t blob_id);

/* The guest's doorbells: wakes the worker; stores `value` as the proof that we live. */
void server_context_kick(struct server_context *context);
void server_context_ping(struct server_context *context, uint32_t value);
