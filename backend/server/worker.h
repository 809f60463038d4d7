/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One context's worker process as the server sees it. The worker may have been
 * taken over by its guest: nothing here waits for it, and it holds no open file
 * description through which it could make one of our calls block.
 *
 * Command line:
 *   apir-worker --spin-slot N [--limited] [--turns] [--config FILE] [--without DEVICE]...
 *               [--spare | --try-devices]
 * with the descriptors of enum apir_worker_fd:
 *   control  SEQPACKET, struct apir_control, one fd with ADD_BLOB; end of file: exit.
 *            From the worker: struct apir_ask (backend/server/limits/account.h)
 *   status   memfd of one page: struct apir_worker_status
 *   spin     memfd of one page: struct apir_spin_page, and which byte is the worker's
 *   turns    memfd of one page, to read: struct apir_turn_page, where classes take turns
 *   stdout, stderr  a pipe to the server (output.h)
 *   spare    it loads its drivers before it has a ring: a spare one (backend/server/ahead/spare.h)
 *   try-devices  the same, and it tries the devices (backend/server/ahead/trial.h)
 *   without  a device that is not offered
 * The worker is killed when the server dies (PR_SET_PDEATHSIG, which a later
 * change of credentials clears; the end of the control socket says it too).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/server/ahead/left_out.h"
#include "backend/server/limits/account.h"
#include "backend/server/child.h"
#include "backend/server/loop.h"
#include "backend/server/output.h"
#include "backend/server/seen/counts.h"
#include "backend/server/spin.h"
#include "common/error.h"
#include "protocol/shm.h"

/* A stopped worker has this long to be continued. */
#define SERVER_WORKER_STOPPED_MS 1000

struct server_worker_events {
    /* Stopped for too long, not ready in time, or it breaks the rules: to be killed. */
    void (*failed)(void *user, const char *reason);
    void (*gone)(void *user, const char *reason);
    /* Memory that it has asked for; may be NULL. */
    void (*refused)(void *user, const char *why);
};

/* What a worker is started with; all of it outlives it, but for `who`. */
struct server_worker_setup {
    struct server_children *children;
    struct server_spin *spin;
    struct server_accounts *accounts;
    struct server_turns *turns; /* NULL: classes take none */
    struct server_user *owner;  /* whose the context is */
    const char *path;
    const char *config_path; /* may be NULL */
    struct server_outputs *outputs;
    const char *who; /* in the log, in front of what it prints */
    const struct server_left_out *left_out;
    bool spare; /* of no context yet: nobody's memory is accounted, and nobody's user is set */
    bool tries; /* a spare one that tries the devices first */
    const struct server_worker_events *events;
    void *user;
};

/* {0} is a valid worker that was never started. */
struct server_worker {
    struct server_children *children;
    struct server_child child;
    struct server_timer stopped;
    struct server_timer late; /* seconds_to_start */
    const struct server_worker_events *events;
    void *user;
    int control_fd;
    struct apir_worker_status *status; /* NULL: not started */
    struct server_spin *spin;
    uint32_t spin_slot;
    struct server_account *account; /* NULL: no process, or it is gone, or a spare one */
    uint32_t seconds_to_start;
    bool is_late; /* not ready in time: to be killed, or killed */
    /* It was stopped or killed by somebody else, or for want of memory: not by what it did. */
    bool is_blameless;
    struct server_output output;
    struct server_counts counts; /* as seen last … */
    uint64_t counted_from_ns;    /* … since it has been its context's */
};

/* Returns 0 or -errno with *err set. */
int server_worker_start(struct server_worker *worker, const struct server_worker_setup *setup,
                        struct apir_error *err);

/* Whether a spare one has loaded its drivers and runs. */
bool server_worker_waits(const struct server_worker *worker);
/*
 * `worker` becomes what `spare`, which waits, has been, for the context that `setup` tells of;
 * spare is {0} then. Returns 0, or -errno: nothing has changed.
 */
int server_worker_take(struct server_worker *worker, struct server_worker *spare,
                       const struct server_worker_setup *setup);

/* Whether it has loaded its drivers. */
bool server_worker_ready(const struct server_worker *worker);
/* What it has done for its context, up to now or to its end; NULL: there was no worker. */
const struct server_counts *server_worker_counts(struct server_worker *worker);

/* Kills it, releases everything, and makes no further calls. */
void server_worker_fini(struct server_worker *worker);

/* SIGKILL; gone() follows. */
void server_worker_kill(struct server_worker *worker);

/* Whether there is a process that has not been reaped. */
bool server_worker_alive(const struct server_worker *worker);

/* Returns 0 or -errno (-EAGAIN: it has not read its control socket for long). fd is not taken. */
int server_worker_add_blob(struct server_worker *worker, uint32_t blob_id, uint64_t size, int fd);
int server_worker_del_blob(struct server_worker *worker, uint32_t blob_id);

/*
 * Whether it works on a message; *ret_at then says where it has got to: as long as that stays the
 * same, it is at the same step of the same message. A worker under foreign control can say what it
 * likes.
 */
bool server_worker_busy(const struct server_worker *worker, uint64_t *ret_at);

/* Shared memory of the context is host memory of its account. */
void server_worker_note_shm(struct server_worker *worker, uint64_t bytes);
