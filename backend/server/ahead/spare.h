/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spare workers: each has loaded the host's drivers and is in its sandbox before the context that
 * it is for exists, so that a container does not wait for that. A spare one has served nobody, and
 * serves one context once it has been taken.
 *
 * None is started before the first context, since a server whose GPU nobody uses holds nothing of
 * it; and what nobody has taken for spare_seconds ends. The shader cache is filled before, so that
 * they have it whole.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/config/settings.h"
#include "backend/server/ahead/config_file.h"
#include "backend/server/ahead/shaders.h"
#include "backend/server/ahead/trial.h"
#include "backend/server/loop.h"
#include "backend/server/worker.h"

/* From a context's start to that of a spare worker: its program has begun to compute by then,
 * mostly, and has the cores for itself until then. */
#define SERVER_SPARES_AFTER_MS 2000

struct server_spare {
    struct server_spares *spares;
    struct server_worker worker;
    struct server_config_file config; /* that it has read */
};

struct server_spares {
    struct server_worker_setup setup;
    const struct server_trial *trial; /* none is started while that is to come */
    uint32_t n;                       /* spare_workers */
    int64_t idle_ms;                  /* spare_seconds */
    struct server_shaders shaders;
    struct server_spare all[APIR_CONFIG_SPARES_MAX];
    struct server_timer next; /* the start of one */
    struct server_timer idle; /* the end of all */
    int64_t not_before_ms;    /* idle_ms after one could not start, or has ended by itself */
};

/* `setup` as for a worker, without a context. */
void server_spares_init(struct server_spares *spares, const struct server_worker_setup *setup,
                        const struct apir_config *config, const struct server_trial *trial);
/* Kills all. */
void server_spares_fini(struct server_spares *spares);

/* A spare one becomes `worker`, for the context that `setup` tells of. False: there is none that
 * has read the configuration as it is now. */
bool server_spares_take(struct server_spares *spares, struct server_worker *worker,
                        const struct server_worker_setup *setup);

/* Those that wait are no use any more: they end, and others are started where that is due. */
void server_spares_renew(struct server_spares *spares);

/* A context has begun: others may follow. */
void server_spares_expect(struct server_spares *spares);
