/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/limits/account.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/fdsock.h"

#define ACCOUNT_BATCH 4 /* requests per turn, so that others get theirs */

/* ---- books ------------------------------------------------------------------- */

static struct server_account_device *device_find(struct server_account *account, const char *id)
{
    for (unsigned i = 0; i < account->n_devices; i++) {
        if (strcmp(account->devices[i].id, id) == 0)
            return &account->devices[i];
    }
    return NULL;
}

/* 0: no limit. */
static uint64_t bytes_of(uint32_t mib)
{
    return (uint64_t)mib << 20;
}

static bool fits(uint64_t has, uint64_t size, uint64_t most)
{
    return most == 0 || (has <= most && size <= most - has);
}

/*
 * What no waiting for others makes possible: the limits of the context itself, and what it has and
 * asks for together above the device's limit. Returns 0 or -EDQUOT with `why`.
 */
static int context_check(const struct server_account *account, uint64_t has,
                         const struct apir_ask *ask, char *why)
{
    const struct apir_config *config = account->accounts->limits.config;
    const uint64_t mib = (ask->size + (1u << 20) - 1) >> 20;
    if (!fits(has, ask->size, APIR_SIZE_MAX)) {
        snprintf(why, APIR_WHY_SIZE, "this program has as much of the device as can be counted");
        return -EDQUOT;
    }
    const struct {
        const char *name;
        uint32_t mib;
    } limits[] = {
        {"limit for all (device_memory_mib", config->device_memory_mib},
        {"limit (context_device_memory_mib", config->context_device_memory_mib},
    };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (fits(has, ask->size, bytes_of(limits[i].mib)))
            continue;
        snprintf(why, APIR_WHY_SIZE,
                 "this program has %llu MiB of the device, %llu MiB more would be over the host's "
                 "%s: %u)",
                 (unsigned long long)(has >> 20), (unsigned long long)mib, limits[i].name,
                 limits[i].mib);
        return -EDQUOT;
    }
    if ((ask->flags & APIR_ASK_HOST) && !server_account_shm_fits(account, ask->size)) {
        snprintf(why, APIR_WHY_SIZE,
                 "this program has %llu MiB of the host's main memory, %llu MiB more would be over "
                 "its limit (context_host_memory_mib: %u)",
                 (unsigned long long)((account->host_bytes + account->shm_bytes) >> 20),
                 (unsigned long long)mib, config->context_host_memory_mib);
        return -EDQUOT;
    }
    return 0;
}

/* Returns 0, or -errno with `why`; -EAGAIN: it may be otherwise soon. */
static int reserve(struct server_account *account, const struct apir_ask *ask, char *why)
{
    struct server_account_device *device = device_find(account, ask->device);
    if (!device && account->n_devices == APIR_DEVICES_MAX) {
        snprintf(why, APIR_WHY_SIZE, "a program can use %u devices", APIR_DEVICES_MAX);
        return -ENOSPC;
    }
    int rc = context_check(account, device ? device->bytes : 0, ask, why);
    if (rc < 0)
        return rc;
    rc =
        server_limits_take(&account->accounts->limits, ask->device, ask->size, device ? 0 : 1, why);
    if (rc < 0)
        return rc == -EDQUOT ? -EAGAIN : rc;
    if (!device) {
        device = &account->devices[account->n_devices++];
        *device = (struct server_account_device){0};
        memcpy(device->id, ask->device, sizeof(device->id));
    }
    device->bytes += ask->size;
    if (ask->flags & APIR_ASK_HOST)
        account->host_bytes += ask->size;
    return 0;
}

static int release(struct server_account *account, const struct apir_ask *ask)
{
    struct server_account_device *device = device_find(account, ask->device);
    const uint64_t host = ask->flags & APIR_ASK_HOST ? ask->size : 0;
    if (!device || device->bytes < ask->size || account->host_bytes < host)
        return -EPROTO;
    device->bytes -= ask->size;
    account->host_bytes -= host;
    server_limits_give(&account->accounts->limits, ask->device, ask->size, 0);
    return 0;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A worker asks only if one of these limits is set (room_is_limited). */
static void room(struct server_account *account, const struct apir_ask *ask,
                 struct apir_control_answer *answer)
{
    const struct apir_config *config = account->accounts->limits.config;
    const struct server_account_device *device = device_find(account, ask->device);
    const uint64_t has = device ? device->bytes : 0;
    const uint64_t own = bytes_of(config->context_device_memory_mib);
    const uint64_t host =
        ask->flags & APIR_ASK_HOST ? bytes_of(config->context_host_memory_mib) : 0;
    const uint64_t host_has = account->host_bytes + account->shm_bytes;
    server_limits_room(&account->accounts->limits, ask->device, &answer->free, &answer->total);
    if (own) {
        answer->free = lower(answer->free, has < own ? own - has : 0);
        answer->total = lower(answer->total, own);
    }
    if (host) {
        answer->free = lower(answer->free, host_has < host ? host - host_has : 0);
        answer->total = lower(answer->total, host);
    }
}

bool server_account_shm_fits(const struct server_account *account, uint64_t size)
{
    return fits(account->host_bytes + account->shm_bytes, size,
                bytes_of(account->accounts->limits.config->context_host_memory_mib));
}

/* ---- requests ------------------------------------------------------------------ */

/* Nothing that this worker asks is read any more; what it has stays counted. */
static void account_stop(struct server_account *account)
{
    server_loop_remove(account->children->loop, &account->source);
    server_timer_disarm(account->children->loop, &account->retry);
    account->waiting.op = 0;
}

/* The last call about this worker. */
static void account_failed(struct server_account *account, const char *reason)
{
    account_stop(account);
    account->failed(account->user, reason);
}

/* Returns false where nobody takes it: the account is perhaps gone. */
static bool account_answer(struct server_account *account, struct apir_control_answer *answer)
{
    answer->op = APIR_CONTROL_ANSWER;
    int rc = apir_fdsock_send(account->fd, answer, sizeof(*answer), NULL, 0);
    if (rc == 0)
        return true;
    if (rc == -EPIPE || rc == -ECONNRESET)
        account_stop(account); /* it is ending: SIGCHLD tells the rest */
    else
        account_failed(account, "worker does not read its control socket");
    return false;
}

static void account_retry(void *user);

/* One try at the request that waits. Returns as account_answer. */
static bool account_try(struct server_account *account)
{
    struct apir_control_answer answer = {0};
    const int64_t now = server_now_ms();
    int rc = reserve(account, &account->waiting, answer.why);
    if (rc == -EAGAIN && now < account->wait_until_ms) {
        server_loop_modify(account->children->loop, &account->source, 0);
        server_timer_arm(account->children->loop, &account->retry, now + SERVER_ACCOUNT_RETRY_MS,
                         account_retry, account);
        return true;
    }
    account->waiting.op = 0;
    server_loop_modify(account->children->loop, &account->source, SERVER_LOOP_IN);
    answer.refused = rc < 0;
    if (answer.refused && account->refused)
        account->refused(account->user, answer.why);
    return account_answer(account, &answer);
}

static void account_retry(void *user)
{
    (void)account_try(user);
}

/* Checked here and nowhere else. Returns as account_answer. */
static bool account_dispatch(struct server_account *account, const struct apir_ask *ask,
                             size_t size)
{
    struct apir_control_answer answer = {0};
    bool ok = size == sizeof(*ask) && (ask->flags & ~(uint32_t)APIR_ASK_HOST) == 0 &&
              ask->size <= APIR_SIZE_MAX && server_claims_id_ok(ask->device);
    if (ok && ask->op == APIR_ASK_RESERVE) {
        account->waiting = *ask;
        account->wait_until_ms = server_now_ms() + SERVER_ACCOUNT_WAIT_MS;
        return account_try(account);
    }
    if (ok && ask->op == APIR_ASK_ROOM) {
        room(account, ask, &answer);
        return account_answer(account, &answer);
    }
    if (ok && ask->op == APIR_ASK_RELEASE && release(account, ask) == 0)
        return true;
    if (ok && ask->op == APIR_ASK_TURN) {
        answer.total =
            server_turns_ask(&account->turn, ask->device, (ask->flags & APIR_ASK_HOST) != 0);
        return account_answer(account, &answer);
    }
    if (ok && ask->op == APIR_ASK_MOVED) {
        server_turns_moved(&account->turn);
        return true;
    }
    account_failed(account, "worker breaks the rules of its control socket");
    return false;
}

static void account_ready(void *user, uint32_t events)
{
    struct server_account *account = user;
    if (!(events & SERVER_LOOP_IN) || (events & (SERVER_LOOP_HUP | SERVER_LOOP_ERR))) {
        account_stop(account); /* nobody is there to take an answer */
        return;
    }
    for (int i = 0; i < ACCOUNT_BATCH && !account->waiting.op; i++) {
        struct apir_ask ask;
        size_t size = 0;
        int rc =
            apir_fdsock_recv(account->fd, &ask, sizeof(ask), &size, NULL, 0, NULL, MSG_DONTWAIT);
        if (rc == -EAGAIN)
            return;
        if (rc == -EBADMSG)
            size = SIZE_MAX; /* too long, or with descriptors: as wrong as any other size */
        else if (rc < 0 || size == 0) {
            account_stop(account);
            return;
        }
        if (!account_dispatch(account, &ask, size))
            return; /* perhaps freed */
    }
}

int server_account_serve(struct server_account *account, int fd,
                         void (*failed)(void *user, const char *reason),
                         void (*refused)(void *user, const char *why), void *user)
{
    account->fd = fd;
    account->failed = failed;
    account->refused = refused;
    account->user = user;
    return server_loop_add(account->children->loop, &account->source, fd, SERVER_LOOP_IN,
                           account_ready, account);
}

/* ---- life ----------------------------------------------------------------------- */

void server_accounts_init(struct server_accounts *accounts, const struct apir_config *config)
{
    accounts->leaving = NULL;
    server_limits_init(&accounts->limits, config);
}

void server_accounts_fini(struct server_accounts *accounts)
{
    while (accounts->leaving)
        server_account_destroy(accounts->leaving);
    server_limits_fini(&accounts->limits);
}

struct server_account *server_account_create(struct server_accounts *accounts,
                                             struct server_children *children,
                                             struct server_user *owner)
{
    struct server_account *account = calloc(1, sizeof(*account));
    if (!account)
        return NULL;
    account->accounts = accounts;
    account->children = children;
    account->owner = owner;
    account->fd = -1;
    return account;
}

void server_account_destroy(struct server_account *account)
{
    if (!account)
        return;
    account_stop(account);
    server_child_forget(account->children, &account->child);
    for (struct server_account **a = &account->accounts->leaving; *a; a = &(*a)->next) {
        if (*a == account) {
            *a = account->next;
            account->owner->leaving--;
            break;
        }
    }
    for (unsigned i = 0; i < account->n_devices; i++)
        server_limits_give(&account->accounts->limits, account->devices[i].id,
                           account->devices[i].bytes, 1);
    free(account);
}

static void account_child_changed(void *user, enum server_child_change change, int status)
{
    (void)status;
    if (change == SERVER_CHILD_EXITED || change == SERVER_CHILD_KILLED)
        server_account_destroy(user);
}

void server_account_leave(struct server_account *account, struct server_child *child)
{
    account_stop(account);
    if (child->pid <= 0) {
        server_account_destroy(account);
        return;
    }
    server_child_move(account->children, child, &account->child, account_child_changed, account);
    account->next = account->accounts->leaving;
    account->accounts->leaving = account;
    account->owner->leaving++;
}
