/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/ahead/spare.h"

#include "backend/server/machine.h"
#include "common/log.h"

/* What ended one, or kept it from starting, would do so to the next: a context that gets a worker
 * of its own can say what it is. */
static void spares_pause(struct server_spares *spares)
{
    spares->not_before_ms = server_now_ms() + spares->idle_ms;
}

static void spare_failed(void *user, const char *reason)
{
    struct server_spare *spare = user;
    apir_log(APIR_LOG_WARN, "spare worker: %s", reason);
    server_worker_kill(&spare->worker);
}

static void spare_gone(void *user, const char *reason)
{
    struct server_spare *spare = user;
    apir_log(APIR_LOG_WARN, "spare worker: %s", reason);
    server_worker_fini(&spare->worker);
    spares_pause(spare->spares);
}

static const struct server_worker_events spare_events = {
    .failed = spare_failed,
    .gone = spare_gone,
};

static void spares_arm_next(struct server_spares *spares);

static void shaders_filled(void *user)
{
    struct server_spares *spares = user;
    if (spares->idle.armed)
        spares_arm_next(spares);
}

void server_spares_init(struct server_spares *spares, const struct server_worker_setup *setup,
                        const struct apir_config *config, const struct server_trial *trial)
{
    *spares = (struct server_spares){
        .setup = *setup,
        .trial = trial,
        .n = config->spare_workers,
        .idle_ms = (int64_t)config->spare_seconds * 1000,
    };
    spares->setup.spare = true;
    spares->setup.who = "spare worker";
    spares->setup.events = &spare_events;
    for (uint32_t i = 0; i < spares->n; i++)
        spares->all[i].spares = spares;
    server_shaders_init(&spares->shaders, setup, config, shaders_filled, spares);
}

static void spares_end(struct server_spares *spares)
{
    for (uint32_t i = 0; i < spares->n; i++)
        server_worker_fini(&spares->all[i].worker);
}

void server_spares_fini(struct server_spares *spares)
{
    server_timer_disarm(spares->setup.children->loop, &spares->next);
    server_timer_disarm(spares->setup.children->loop, &spares->idle);
    server_shaders_fini(&spares->shaders);
    spares_end(spares);
}

static void spares_idle(void *user)
{
    struct server_spares *spares = user;
    server_timer_disarm(spares->setup.children->loop, &spares->next);
    spares_end(spares);
}

static void spares_next(void *user);

static void spares_arm_next(struct server_spares *spares)
{
    if (!spares->next.armed)
        server_timer_arm(spares->setup.children->loop, &spares->next,
                         server_now_ms() + SERVER_SPARES_AFTER_MS, spares_next, spares);
}

/* One at a time: their drivers' start is work for the machine. */
static void spares_next(void *user)
{
    struct server_spares *spares = user;
    struct server_spare *free = NULL;
    unsigned n_free = 0;
    for (uint32_t i = 0; i < spares->n; i++) {
        struct server_spare *spare = &spares->all[i];
        if (!spare->worker.status) {
            free = spare;
            n_free++;
        }
    }
    if (!server_trial_holds(spares->trial))
        return; /* the context that ends it expects others, too */
    if (server_memory_is_scarce() || server_shaders_fill(&spares->shaders))
        return;
    if (!free || server_now_ms() < spares->not_before_ms)
        return;
    struct apir_error err = {0};
    struct server_worker_setup setup = spares->setup;
    setup.user = free;
    free->config = server_config_file_now(setup.config_path);
    if (server_worker_start(&free->worker, &setup, &err) < 0) {
        apir_log(APIR_LOG_WARN, "spare worker: %s", err.msg);
        spares_pause(spares);
    } else if (n_free > 1) {
        spares_arm_next(spares);
    }
}

void server_spares_renew(struct server_spares *spares)
{
    spares_end(spares);
    if (spares->idle.armed)
        spares_arm_next(spares);
}

bool server_spares_take(struct server_spares *spares, struct server_worker *worker,
                        const struct server_worker_setup *setup)
{
    const struct server_config_file now = server_config_file_now(spares->setup.config_path);
    for (uint32_t i = 0; i < spares->n; i++) {
        struct server_spare *spare = &spares->all[i];
        if (spare->worker.status && !server_config_file_same(&spare->config, &now))
            server_worker_fini(&spare->worker);
        else if (server_worker_waits(&spare->worker) &&
                 server_worker_take(worker, &spare->worker, setup) == 0)
            return true;
    }
    return false;
}

void server_spares_expect(struct server_spares *spares)
{
    if (spares->n == 0 && spares->shaders.begun)
        return;
    spares_arm_next(spares);
    server_timer_arm(spares->setup.children->loop, &spares->idle, server_now_ms() + spares->idle_ms,
                     spares_idle, spares);
}
