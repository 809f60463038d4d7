/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shader cache of this server's user: filled once in a server's life by a process of
 * the worker's program that has no context (backend/worker/shaders/fill.h). Workers read that cache
 * and keep nothing of what they compile themselves.
 * docs/decisions.md, The shader cache is filled by a process of its own.
 */
#pragma once

#include <stdbool.h>

#include "backend/config/settings.h"
#include "backend/server/child.h"
#include "backend/server/loop.h"
#include "backend/server/worker.h"

/* What it may take beside shader_seconds: its drivers' start, and the computation at hand. */
#define SERVER_SHADERS_LATE_MS 60000

struct server_shaders {
    struct server_children *children;
    const char *worker;                     /* its path; borrowed */
    const char *config_path;                /* NULL: defaults; borrowed */
    const struct server_left_out *left_out; /* borrowed */
    int64_t most_ms;
    bool begun; /* or none is wanted */
    struct server_child child;
    struct server_timer late;
    void (*filled)(void *user);
    void *user;
};

/* `setup` as for a worker, without a context. filled(user) is called from the loop once that
 * process has ended, however it did. */
void server_shaders_init(struct server_shaders *shaders, const struct server_worker_setup *setup,
                         const struct apir_config *config, void (*filled)(void *user), void *user);
void server_shaders_fini(struct server_shaders *shaders);

/* Starts it where that is due. True: it runs, and filled() will be called. */
bool server_shaders_fill(struct server_shaders *shaders);
