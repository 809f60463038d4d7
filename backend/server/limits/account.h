/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one worker has been granted, and the requests for it on its control socket. The server
 * keeps the books, so a worker under foreign control cannot change those of others; what such
 * a one takes from a driver without asking is in nobody's books.
 *
 * An account ends with its worker's process and not with the context: before that the
 * device's memory is not free.
 *
 * A worker that reserves waits for the answer; before it takes anything, if there are limits. Where
 * what others have of the device is in the way, the answer waits for up to SERVER_ACCOUNT_WAIT_MS:
 * their workers may be ending just now.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/server/child.h"
#include "backend/server/limits/limits.h"
#include "backend/server/loop.h"
#include "backend/server/turns/turns.h"
#include "backend/server/limits/user.h"
#include "protocol/messages.h"

#define SERVER_ACCOUNT_WAIT_MS  1000
#define SERVER_ACCOUNT_RETRY_MS 50

struct server_account_device {
    char id[APIR_ID_SIZE];
    uint64_t bytes;
};

/* Of one server. */
struct server_accounts {
    struct server_limits limits;
    struct server_account *leaving; /* of workers whose contexts are gone */
};

struct server_account {
    struct server_accounts *accounts;
    struct server_children *children;
    struct server_user *owner;                              /* whose the context is */
    struct server_account_device devices[APIR_DEVICES_MAX]; /* each counts as a context there */
    unsigned n_devices;
    uint64_t host_bytes; /* of the devices' that are the host's main memory */
    uint64_t shm_bytes;  /* the context's shared memory, set by its owner */

    /* The worker's requests; fd is the owner's. */
    int fd;
    struct server_source source;
    struct apir_ask waiting; /* op 0: no request waits */
    int64_t wait_until_ms;
    struct server_timer retry;
    void (*failed)(void *user, const char *reason); /* the worker breaks the rules */
    void (*refused)(void *user, const char *why);   /* what it has asked for; may be NULL */
    void *user;

    struct server_turn_member turn; /* its owner's to join and leave */

    /* After the context's end. */
    struct server_child child;
    struct server_account *next;
};

void server_accounts_init(struct server_accounts *accounts, const struct apir_config *config);
/* What is leaving is forgotten. */
void server_accounts_fini(struct server_accounts *accounts);

/* NULL: no memory. */
struct server_account *server_account_create(struct server_accounts *accounts,
                                             struct server_children *children,
                                             struct server_user *owner);
/* Gives everything back. NULL is nothing to do. */
void server_account_destroy(struct server_account *account);

/* Answers what comes from `fd`; refused may be NULL. After failed() the account is not looked at
 * again, nor is fd. Returns 0 or -errno. */
int server_account_serve(struct server_account *account, int fd,
                         void (*failed)(void *user, const char *reason),
                         void (*refused)(void *user, const char *why), void *user);

/* The context has ended: the account lives on as long as the process, if there is one, and then
 * destroys itself. */
void server_account_leave(struct server_account *account, struct server_child *child);

/* Whether the context's main memory allows `size` bytes of shared memory more. */
bool server_account_shm_fits(const struct server_account *account, uint64_t size);
