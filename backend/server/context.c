/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/context.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/server/list.h"
#include "backend/server/page.h"
#include "backend/server/ring.h"
#include "protocol/atomic.h"
#include "common/cleanup.h"
#include "protocol/ring.h"

#define CONTEXT_LOG_LIMIT     10u /* lines per period that a guest can cause */
#define CONTEXT_LOG_PERIOD_MS 60000
/* Children that are no worker of a context, nor a spare one: virglrenderer's server, the trial, who
 * fills the shader cache, MPS' daemon, and one of these that is just ending. */
#define SERVER_OTHERS 5u

/* ---- telling and losing ---------------------------------------------------- */

static void server_context_event(struct server_context *context, enum server_event_kind kind,
                                 const char *reason)
{
    server_events_add(&context->contexts->events, kind, context->id, context->user->uid,
                      context->pid ? context->pid : context->contexts->vmm, reason);
}

void server_context_complain(struct server_context *context, const char *fmt, ...)
{
    if (!server_quota_take(&context->log_quota, CONTEXT_LOG_LIMIT, CONTEXT_LOG_PERIOD_MS,
                           server_now_ms()))
        return;
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    apir_log(APIR_LOG_WARN, "context %u: %s%s", context->id, text,
             context->log_quota.used == CONTEXT_LOG_LIMIT ? " (no more of these for a minute)"
                                                          : "");
    server_context_event(context, SERVER_EVENT_REFUSED, text);
}

void server_context_lose(struct server_context *context, enum apir_log_level level,
                         const char *reason)
{
    if (!context->lost) {
        context->lost = true;
        snprintf(context->reason, sizeof(context->reason), "%s", reason);
        context->waits = false;
        apir_log(level, "context %u is lost: %s", context->id, reason);
        /* Others are an end in order, or have been told. */
        if (level <= APIR_LOG_WARN)
            server_context_event(context, SERVER_EVENT_LOST, reason);
        server_timer_disarm(context->contexts->env.loop, &context->watch);
        server_worker_kill(&context->worker);
    }
    if (context->ring)
        server_ring_lose(context->ring, context->reason);
}

/* ---- the worker ------------------------------------------------------------ */

static void server_context_worker_failed(void *user, const char *reason)
{
    server_context_lose(user, APIR_LOG_WARN, reason);
}

static void server_context_worker_gone(void *user, const char *reason)
{
    struct server_context *context = user;
    apir_log(APIR_LOG_INFO, "context %u: %s", context->id, reason);
    server_context_lose(context, APIR_LOG_WARN, reason);
}

/* A guest can run into one as often as it likes. */
static void server_context_limit(struct server_context *context, const char *why)
{
    if (server_quota_take(&context->limit_quota, CONTEXT_LOG_LIMIT, CONTEXT_LOG_PERIOD_MS,
                          server_now_ms()))
        server_context_event(context, SERVER_EVENT_LIMIT, why);
}

static void server_context_worker_refused(void *user, const char *why)
{
    server_context_limit(user, why);
}

static const struct server_worker_events server_context_worker_events = {
    .failed = server_context_worker_failed,
    .gone = server_context_worker_gone,
    .refused = server_context_worker_refused,
};

/* ---- seconds per graph ------------------------------------------------------ */

/*
 * Looks four times in the time that one message may take. The clock of a message starts when it
 * is first seen, so none ends early, and a quarter late at most.
 */
static void server_context_watch(void *user)
{
    struct server_context *context = user;
    const uint32_t seconds = context->contexts->env.config->seconds_per_graph;
    if (context->lost || seconds == 0)
        return;
    const int64_t now = server_now_ms();
    uint64_t head = 0;
    const bool busy = server_worker_busy(&context->worker, &head);
    if (!busy || !context->watch_busy || head != context->watch_head) {
        context->watch_busy = busy;
        context->watch_head = head;
        context->watch_since_ms = now;
    } else if (now - context->watch_since_ms >= (int64_t)seconds * 1000) {
        char reason[APIR_REASON_MAX];
        snprintf(reason, sizeof(reason),
                 "a graph took longer than the host allows (seconds_per_graph: %u)", seconds);
        server_context_lose(context, APIR_LOG_WARN, reason);
        return;
    }
    server_timer_arm(context->contexts->env.loop, &context->watch, now + (int64_t)seconds * 250,
                     server_context_watch, context);
}

/* What all workers of the set are started with. */
static struct server_worker_setup server_contexts_setup(struct server_contexts *contexts)
{
    return (struct server_worker_setup){
        .children = contexts->env.children,
        .spin = &contexts->spin,
        .accounts = &contexts->accounts,
        .turns = &contexts->turns,
        .path = contexts->env.worker_path,
        .config_path = contexts->env.config_path,
        .outputs = &contexts->outputs,
        .left_out = &contexts->trial.left_out,
    };
}

static void server_context_told_worker(struct server_context *context, int rc);

/* The worker gets all that was made while it was to come; the ring last, in which there are
 * messages about the others. */
static void server_context_hand_blobs(struct server_context *context)
{
    for (uint32_t id = APIR_BLOBS_MAX; id-- > 0 && !context->lost;) {
        struct server_context_blob *blob = &context->blobs[id];
        if (!blob->late)
            continue;
        server_context_told_worker(
            context, server_worker_add_blob(&context->worker, id, blob->size, blob->late));
        apir_close_fd(&blob->late);
        blob->late = 0;
    }
    server_worker_note_shm(&context->worker, context->shm_size);
}

static void server_context_get_worker(struct server_context *context)
{
    struct server_contexts *contexts = context->contexts;
    struct apir_error err = {0};
    struct server_worker_setup setup = server_contexts_setup(contexts);
    char who[32], note[APIR_REASON_MAX];
    snprintf(who, sizeof(who), "worker of context %u", context->id);
    setup.who = who;
    setup.owner = context->user;
    setup.events = &server_context_worker_events;
    setup.user = context;
    server_left_out_tell(&contexts->trial.left_out, note, sizeof(note));
    server_ring_note(context->ring, note);
    if (server_spares_take(&contexts->spares, &context->worker, &setup)) {
        apir_log(APIR_LOG_INFO, "context %u: has a spare worker", context->id);
    } else if (server_trial_take(&contexts->trial, &context->worker, &setup)) {
        apir_log(APIR_LOG_INFO, "context %u: has the worker that tried the devices", context->id);
    } else if (server_worker_start(&context->worker, &setup, &err) < 0) {
        apir_log(APIR_LOG_ERROR, "context %u: %s", context->id, err.msg);
        server_context_lose(context, APIR_LOG_WARN,
                            "the host cannot start a worker; its log says why");
    }
    server_spares_expect(&contexts->spares);
    server_context_watch(context);
}

/* Who has waited longest comes first: the list begins with the newest. */
static struct server_context *server_contexts_waiting(struct server_contexts *contexts)
{
    struct server_context *first = NULL;
    for (struct server_context *c = contexts->first; c; c = c->next)
        first = c->waits ? c : first;
    return first;
}

static void server_contexts_tried(void *user, const char *reason)
{
    struct server_contexts *contexts = user;
    char note[APIR_REASON_MAX];
    server_left_out_tell(&contexts->trial.left_out, note, sizeof(note));
    if (*note)
        server_events_add(&contexts->events, SERVER_EVENT_DEVICE, 0, geteuid(), 0, note);
    for (struct server_context *c; (c = server_contexts_waiting(contexts));) {
        c->waits = false;
        if (reason) {
            server_context_lose(c, APIR_LOG_WARN, reason);
            continue;
        }
        server_context_get_worker(c);
        server_context_hand_blobs(c);
    }
}

static void server_context_start_worker(struct server_context *context)
{
    struct server_contexts *contexts = context->contexts;
    if (!server_user_may_start(context->user)) {
        char reason[APIR_REASON_MAX];
        snprintf(reason, sizeof(reason),
                 "programs start faster than the host allows (%d per second)",
                 1000 / SERVER_STARTS_EVERY_MS);
        server_context_event(context, SERVER_EVENT_REFUSED, reason);
        server_context_lose(context, APIR_LOG_INFO, reason);
        return;
    }
    /* Killed ones count until they are reaped: one may hang in a GPU driver. */
    if (contexts->env.children->alive >= 2 * contexts->env.config->max_contexts +
                                             contexts->env.config->spare_workers + SERVER_OTHERS) {
        server_context_lose(context, APIR_LOG_WARN, "too many worker processes are still ending");
        return;
    }
    switch (server_trial_ask(&contexts->trial)) {
    case SERVER_TRIAL_RUNS:
        context->waits = true;
        break;
    case SERVER_TRIAL_NONE:
        server_context_lose(context, APIR_LOG_WARN, contexts->trial.reason);
        break;
    default:
        server_context_get_worker(context);
    }
}

/* ---- blobs ----------------------------------------------------------------- */

/* rc: of a message on the worker's control socket. */
static void server_context_told_worker(struct server_context *context, int rc)
{
    if (rc == -EPIPE || rc == -ECONNRESET)
        server_worker_kill(&context->worker); /* ending already, mostly; gone() has the reason */
    else if (rc < 0)
        server_context_lose(context, APIR_LOG_WARN, "worker does not read its control socket");
    else
        apir_ring_wake_host(
            context->ring); /* it may sleep; an idle context gives memory back too */
}

/*
 * A context can have ended, but not wholly: its worker hangs in a GPU driver, its guest still holds
 * its memory. As many of a user's may end as may live.
 */
static bool server_context_too_many_end(const struct server_context *context)
{
    struct server_contexts *contexts = context->contexts;
    return context->user->leaving > contexts->max_per_user ||
           server_shm_ended(&contexts->books, context->user) > contexts->max_per_user;
}

/* A worker that is to come has no account yet; before there is one there is a ring at most. */
static bool server_context_shm_fits(const struct server_context *context, uint64_t size)
{
    const uint64_t most = (uint64_t)context->contexts->env.config->context_host_memory_mib << 20;
    const struct server_account *account = context->worker.account;
    return context->waits ? most == 0 || context->shm_size + size <= most
                          : !account || server_account_shm_fits(account, size);
}

/* NULL: may be made; else why not. */
static const char *server_context_check_blob(const struct server_context *context, uint64_t blob_id,
                                             uint64_t size, uint64_t left)
{
    if (blob_id >= APIR_BLOBS_MAX)
        return "blob id out of range";
    if (context->blobs[blob_id].used)
        return "blob id in use";
    if (blob_id == APIR_RING_BLOB_ID) {
        if (!apir_ring_size_ok(size))
            return "bad size of the ring blob";
        if (context->ring)
            return "the context has had its ring";
        if (server_context_too_many_end(context))
            return "too many programs of this user are still ending, or their memory is held";
    } else {
        if (!context->ring)
            return "the ring must be the first blob";
        if (context->lost)
            return "the context is lost";
        if (size == 0 || size % APIR_SHM_ALIGN || size > APIR_BLOB_SIZE_MAX)
            return "bad size of a blob";
    }
    const uint64_t limit = (uint64_t)context->contexts->env.config->context_shm_mib << 20;
    const uint64_t room = limit - context->shm_size;
    if (size > room)
        return "the context's shared memory is used up (context_shm_mib)";
    /* What is given back is let go of a little later. As much again may be held, but not more. */
    if (left > limit + room - size)
        return "the context still holds shared memory that it has given back (context_shm_mib)";
    if (!server_context_shm_fits(context, size))
        return "the context's main memory is used up (context_host_memory_mib)";
    return NULL;
}

/*
 * "class_shm_mib", of all contexts. The room for one ring more is for rings alone: who comes last
 * has one, and reads in it why there is no more.
 */
static bool server_context_class_fits(struct server_context *context, uint64_t blob_id,
                                      uint64_t size)
{
    struct server_contexts *contexts = context->contexts;
    const uint32_t most_mib = contexts->env.config->class_shm_mib;
    const uint64_t wanted = blob_id == APIR_RING_BLOB_ID ? size : size + APIR_RING_SIZE;
    if (most_mib == 0 || server_shm_fits(&contexts->books, wanted, (uint64_t)most_mib << 20))
        return true;
    snprintf(contexts->refusal, sizeof(contexts->refusal),
             "programs of this class have %llu KiB of shared memory, %llu KiB more would be over "
             "the host's limit (class_shm_mib: %u)",
             (unsigned long long)(contexts->books.bytes >> 10), (unsigned long long)(wanted >> 10),
             most_mib);
    return false;
}

int server_context_blob_create(struct server_context *context, uint64_t blob_id, uint64_t size,
                               const char **ret_why)
{
    if (!context->book)
        context->book = server_shm_book_open(&context->contexts->books, context->user);
    const uint64_t left = context->book ? server_shm_left(context->book) : 0;
    const char *why = server_context_check_blob(context, blob_id, size, left);
    if (why) {
        *ret_why = why;
        return -EINVAL;
    }
    const bool is_ring = blob_id == APIR_RING_BLOB_ID;
    if (!server_context_class_fits(context, blob_id, size)) {
        *ret_why = context->contexts->refusal;
        server_context_limit(context, *ret_why);
        if (!is_ring && !context->begun)
            server_context_lose(context, APIR_LOG_INFO, *ret_why);
        return -EDQUOT;
    }
    struct server_shm_fds fds __attribute__((cleanup(server_shm_close))) = {-1, -1, -1};
    int rc = context->book ? server_shm_create(is_ring ? "apir-ring" : "apir-arena", size, &fds)
                           : -ENOMEM;
    if (rc == 0 && is_ring)
        rc = server_ring_map(fds.own, size, &context->ring);
    if (rc < 0) {
        *ret_why = strerror(-rc);
        return rc;
    }
    if (is_ring && context->lost)
        server_ring_lose(context->ring, context->reason);
    else if (is_ring)
        server_context_start_worker(context);
    if (!context->lost && !context->waits)
        server_context_told_worker(
            context, server_worker_add_blob(&context->worker, (uint32_t)blob_id, size, fds.worker));

    context->blobs[blob_id] = (struct server_context_blob){
        .used = true,
        .size = size,
        .fd = steal_fd(&fds.own),
        .late = context->waits ? steal_fd(&fds.worker) : 0,
    };
    context->shm_size += size;
    context->begun = context->begun || !is_ring;
    server_shm_take(context->book, size);
    server_worker_note_shm(&context->worker, context->shm_size);
    return steal_fd(&fds.guest);
}

/* What the guest still holds of it stays in the books. */
static void server_context_blob_release(struct server_context *context, uint32_t blob_id)
{
    struct server_context_blob *blob = &context->blobs[blob_id];
    context->shm_size -= blob->size;
    if (blob->late)
        apir_close_fd(&blob->late);
    server_shm_leave(context->book, blob->size, blob->fd);
    *blob = (struct server_context_blob){0};
    server_worker_note_shm(&context->worker, context->shm_size);
}

void server_context_blob_destroy(struct server_context *context, uint32_t blob_id)
{
    if (blob_id >= APIR_BLOBS_MAX || !context->blobs[blob_id].used)
        return;
    server_context_blob_release(context, blob_id);
    if (context->lost)
        return;
    if (blob_id == APIR_RING_BLOB_ID)
        /* The normal end of a guest process: its resources go before its context. */
        server_context_lose(context, APIR_LOG_INFO, "the guest destroyed its ring");
    else if (!context->waits)
        server_context_told_worker(context, server_worker_del_blob(&context->worker, blob_id));
}

/* ---- doorbells ------------------------------------------------------------- */

void server_context_kick(struct server_context *context)
{
    if (context->ring && !context->lost)
        apir_ring_wake_host(context->ring);
}

void server_context_ping(struct server_context *context, uint32_t value)
{
    if (context->ring && !context->lost &&
        (context->waits || server_worker_alive(&context->worker)))
        apir_store_release32(&context->ring->pong, value);
}

/* ---- life ------------------------------------------------------------------ */

struct server_context *server_contexts_find(struct server_contexts *contexts, uint32_t id)
{
    for (struct server_context *c = contexts->first; c; c = c->next) {
        if (c->id == id)
            return c;
    }
    return NULL;
}

/* All have had something on the GPU, or their workers are about to. */
static void server_contexts_lost(void *user, const char *reason)
{
    struct server_contexts *contexts = user;
    unsigned n = 0;
    for (struct server_context *c = contexts->first; c; c = c->next) {
        if (c->lost || !server_worker_alive(&c->worker))
            continue;
        server_context_lose(c, APIR_LOG_INFO, reason);
        n++;
    }
    server_events_add(&contexts->events, SERVER_EVENT_FAULT, 0, geteuid(), 0, reason);
    server_spares_renew(&contexts->spares);
    server_worker_kill(&contexts->trial.worker); /* which then has not tried anything */
    if (n)
        apir_log(APIR_LOG_WARN, "%u contexts are lost: %s", n, reason);
}

int server_contexts_init(struct server_contexts *contexts)
{
    if (contexts->env.mps)
        server_mps_watch(contexts->env.mps, server_contexts_lost, contexts);
    server_accounts_init(&contexts->accounts, contexts->env.config);
    server_shm_books_init(&contexts->books, contexts->env.loop);
    const struct server_worker_setup setup = server_contexts_setup(contexts);
    server_trial_init(&contexts->trial, &setup, contexts->env.config, server_contexts_tried,
                      contexts);
    server_spares_init(&contexts->spares, &setup, contexts->env.config, &contexts->trial);
    int rc = server_turns_init(&contexts->turns, contexts->env.loop, &contexts->accounts.limits,
                               contexts->env.mps && server_mps_environment(contexts->env.mps));
    return rc < 0 ? rc : server_spin_init(&contexts->spin);
}

void server_contexts_clear(struct server_contexts *contexts)
{
    while (contexts->first)
        server_context_destroy(contexts->first);
}

void server_contexts_fini(struct server_contexts *contexts)
{
    if (contexts->env.mps)
        server_mps_watch(contexts->env.mps, NULL, NULL);
    server_contexts_clear(contexts);
    server_spares_fini(&contexts->spares);
    server_trial_fini(&contexts->trial);
    server_shm_books_fini(&contexts->books);
    server_turns_fini(&contexts->turns);
    server_accounts_fini(&contexts->accounts);
    server_users_fini(&contexts->users);
    server_spin_fini(&contexts->spin);
}

void server_context_init(struct server_context *context, struct server_contexts *contexts,
                         uint32_t id, struct server_user *user, pid_t pid, const char *refusal,
                         const struct server_context_ops *ops)
{
    *context = (struct server_context){
        .next = contexts->first,
        .contexts = contexts,
        .ops = ops,
        .id = id,
        .user = user,
        .pid = pid,
        .began_ms = server_now_ms(),
        .served = !refusal,
        .lost = refusal,
    };
    contexts->first = context;
    user->contexts++;
    if (refusal) {
        snprintf(context->reason, sizeof(context->reason), "%s", refusal);
        contexts->n_refused++;
        server_context_event(context, SERVER_EVENT_REFUSED, refusal);
    } else {
        contexts->n_served++;
    }
}

void server_context_fini(struct server_context *context)
{
    struct server_contexts *contexts = context->contexts;
    SERVER_LIST_REMOVE(&contexts->first, context);
    if (context->served)
        contexts->n_served--;
    else
        contexts->n_refused--;
    server_timer_disarm(contexts->env.loop, &context->watch);
    server_worker_fini(&context->worker);
    server_page_unmap(context->ring);
    for (uint32_t id = 0; id < APIR_BLOBS_MAX; id++) {
        if (context->blobs[id].used)
            server_context_blob_release(context, id);
    }
    server_shm_book_close(context->book);
    context->user->contexts--;
    apir_log(APIR_LOG_INFO, "context %u destroyed", context->id);
}

void server_context_destroy(struct server_context *context)
{
    context->ops->destroy(context);
}
