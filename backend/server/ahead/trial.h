/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trial of the host's devices: each has computed a little for this server before a context is
 * offered it. A library that lists a GPU and aborts at its first graph costs a process of ours and
 * no client's.
 *
 * The first worker of a configuration has no context and tries the devices, in its sandbox and with
 * its drivers loaded; once all of them have computed, it becomes that of the first context that
 * waits. So no context waits for drivers that are loaded twice, and of a guest nothing has come
 * near the trial. Where a device does not compute, or its driver aborts or hangs, that process ends
 * and another one tries what is left; later workers are told what to leave out.
 *
 * It is made once in a server's life for each configuration; where nothing computed, or the process
 * was ended from outside or before it came to a device, again for a later context, a minute
 * afterwards at the earliest, or spare_seconds if that is less.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/config/settings.h"
#include "backend/server/ahead/config_file.h"
#include "backend/server/ahead/left_out.h"
#include "backend/server/loop.h"
#include "backend/server/worker.h"

/* A GPU whose memory was all in use looks like one that cannot compute. */
#define SERVER_TRIAL_AGAIN_SECONDS 60u

enum server_trial_state {
    SERVER_TRIAL_NEVER,     /* none yet */
    SERVER_TRIAL_RUNS,      /* over() will be called */
    SERVER_TRIAL_PASSED,    /* by those that are not left out */
    SERVER_TRIAL_NONE,      /* no device computes: `reason` */
    SERVER_TRIAL_UNDECIDED, /* nothing is known of any; workers can say themselves what is wrong */
};

struct server_trial {
    struct server_worker_setup setup;
    int64_t pause_ms; /* to the next one, where none computed */
    enum server_trial_state state;
    struct server_config_file config; /* that it is of */
    struct server_left_out left_out;
    char reason[APIR_REASON_MAX]; /* of NONE */
    int64_t not_before_ms;        /* of NONE and UNDECIDED */
    void (*over)(void *user, const char *reason);
    void *user;

    /* While it runs, and until somebody has taken the worker. */
    struct server_worker worker;
    struct server_source source;     /* its control socket */
    char device[APIR_ID_SIZE];       /* that it is at; "": at none yet */
    char words[SERVER_LEFT_OUT_WHY]; /* what it has printed since then */
    char failed[APIR_REASON_MAX];    /* why it was ended; "": it was not */
    bool nothing_left;               /* it has said so */
};

/*
 * `setup` as for a worker, without a context. over() is called from the loop at a trial's end, with
 * NULL: contexts may have workers, the first of them this one; or with what they are to be told.
 */
void server_trial_init(struct server_trial *trial, const struct server_worker_setup *setup,
                       const struct apir_config *config,
                       void (*over)(void *user, const char *reason), void *user);
void server_trial_fini(struct server_trial *trial);

/* A context wants a worker: begins a trial where one is due. Returns the state,
 * which is not SERVER_TRIAL_NEVER. */
enum server_trial_state server_trial_ask(struct server_trial *trial);
/* Whether what is known holds for the configuration as it is now, and workers may start. */
bool server_trial_holds(const struct server_trial *trial);

/* Within over(): the process that has tried the devices becomes `worker`, for the context that
 * `setup` tells of. False: there is none. What nobody takes by then ends. */
bool server_trial_take(struct server_trial *trial, struct server_worker *worker,
                       const struct server_worker_setup *setup);
