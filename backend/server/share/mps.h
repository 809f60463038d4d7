/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's Multi-Process Service for this server's workers. Without it the driver gives each
 * process slices of the GPU in turn; with it they compute on one GPU at the same time.
 *
 * The server, or the first of those that share one (group.h), starts nvidia-cuda-mps-control in a
 * folder that no other user can enter, and starts it again when it ends. The control daemon starts
 * an MPS server when the first worker asks for one, and that one ends with it. Neither outlives
 * this server.
 *
 * All workers of one MPS server are one fault domain: a fatal fault of one on the GPU (an address
 * that is not its own, say) ends what all of them have there. Whose it was, MPS does not tell for
 * sure. The contexts of this server are lost then, with a reason, and its workers are killed at
 * once, so that the next program finds an MPS that takes it.
 *
 * A container has no part in it: folder and percentage are the worker's environment, which it gets
 * from here, and once it looks at what its guest sends it can make no connection any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/config/settings.h"
#include "backend/server/child.h"
#include "backend/server/loop.h"
#include "backend/server/output.h"
#include "backend/server/share/group.h"
#include "common/error.h"

/* From an end of the daemon to its next start: doubled each time, and back at the first once it has
 * been there for as long as the last. */
#define SERVER_MPS_AGAIN_MS     500
#define SERVER_MPS_AGAIN_MAX_MS 30000

/* {0} is a valid one that was never started. */
struct server_mps {
    struct server_children *children;
    struct server_group group;
    char program[4096];
    struct server_child daemon;
    struct server_output output;
    struct server_outputs lines;           /* the daemon's own share of the log */
    char last[SERVER_OUTPUT_LINE_MAX + 1]; /* that it has said */
    bool used;                             /* by a worker: MPS has started its server */
    struct server_timer again;
    int64_t pause_ms, started_ms;
    void (*lost)(void *user, const char *reason);
    void *user;
    char pipe_variable[SERVER_GROUP_FOLDER_MAX + 32], log_variable[SERVER_GROUP_FOLDER_MAX + 32];
    char percent_variable[64];
    const char *daemon_environment[3];
    const char *worker_environment[4];
};

/*
 * Starts what the configuration asks for: nothing with "off". Where it cannot be, "auto" says so in
 * the log and is 0, and workers compute without; "required" is -errno with *err set.
 */
int server_mps_init(struct server_mps *mps, struct server_children *children,
                    const struct apir_config *config, struct apir_error *err);
/* Ends the daemon, and all that still computes through it. */
void server_mps_fini(struct server_mps *mps);

/*
 * lost(user, reason) is called from the loop when all that computes through MPS has lost what it
 * had on the GPU: one of its programs had a fatal fault there, or MPS itself has ended. MPS takes
 * no new program before the last of them is gone.
 */
void server_mps_watch(struct server_mps *mps, void (*lost)(void *user, const char *reason),
                      void *user);

/* What every worker's environment gets: "NAME=VALUE" texts up to NULL, for as long as *mps lives;
 * or NULL. */
const char *const *server_mps_environment(const struct server_mps *mps);
