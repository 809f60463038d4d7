/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel user holds of a server: contexts that live, processes and shared memory of ended
 * ones, and starts that are paid for later. A VMM's guest is one user.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Workers that one user can start: so many at once, and then one in so many milliseconds. */
#define SERVER_STARTS_AT_ONCE  500
#define SERVER_STARTS_EVERY_MS 20

struct server_user {
    struct server_user *next;
    uint32_t uid;
    unsigned contexts; /* that live */
    unsigned leaving;  /* processes of ended ones, which are there still (account.h) */
    unsigned books;    /* of living and ended ones (shm.h) */
    /* Each start moves it on by SERVER_STARTS_EVERY_MS, from now at the earliest. */
    int64_t paid_until_ms;
};

/* All that hold anything; those that do not are forgotten in time. */
struct server_users {
    struct server_user *first;
};

/* NULL: no memory. Whoever keeps it counts itself in one of its numbers before another call. */
struct server_user *server_users_get(struct server_users *users, uint32_t uid);
/* Nobody keeps one any more. */
void server_users_fini(struct server_users *users);

/* Each start costs a process: a user who makes and ends contexts in a loop is not to have the
 * machine. */
bool server_user_may_start(struct server_user *user);
