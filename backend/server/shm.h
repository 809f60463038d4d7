/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory that a guest asks for, and the books of it. A memfd lives until the last descriptor
 * and the last map of it are gone, and the guest's are not ours to close: what it has given back
 * but holds all the same still counts as its own.
 *
 * How that is known: of each memfd the server, the worker and the guest have an open file of their
 * own, with all that is copied, mapped and sent on of it. A lease for writing is given to the
 * server only where no other file of the memfd is open.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/server/loop.h"
#include "backend/server/limits/user.h"

/* Of one context: pieces that were given back and are held all the same; and with those that are
 * not freed yet. More is not given before there are fewer. */
#define SERVER_SHM_HELD_MAX     64u
#define SERVER_SHM_LEFT_MAX     128u
#define SERVER_SHM_LITTLE       65536u /* bytes: freed at once */
#define SERVER_SHM_SWEEP_MIN_MS 20     /* a worker ends, a VMM closes: mostly held no longer */
#define SERVER_SHM_SWEEP_MAX_MS 1000

/* Of one context, or of one that has ended. */
struct server_shm_book;

/* All of them; swept when somebody looks, and once in a while: it is our own descriptor that keeps
 * the memory of those who have let go. */
struct server_shm_books {
    struct server_loop *loop;
    struct server_shm_book *first;
    struct server_timer sweep;
    int64_t sweep_ms;           /* until the next one; twice as long each time */
    struct server_shm_book *at; /* the next of the sweep that goes on; NULL: none does */
    bool any;                   /* what it has seen so far is not all gone */
    uint64_t bytes;             /* all that was taken, and was not gone when last looked at */
};

struct server_shm_fds {
    int own, worker, guest;
};

/*
 * Memory (memory.h), opened three times. Returns 0 or -errno; the descriptors are the caller's, who
 * gives two of them away and keeps no copy. Without /proc they are one file: then nobody can tell
 * who holds it, and what is given back counts as gone.
 */
int server_shm_create(const char *name, uint64_t size, struct server_shm_fds *ret_fds);
/* Closes those that are not -1. */
void server_shm_close(struct server_shm_fds *fds);

void server_shm_books_init(struct server_shm_books *books, struct server_loop *loop);
void server_shm_books_fini(struct server_shm_books *books);

/* NULL: no memory. */
struct server_shm_book *server_shm_book_open(struct server_shm_books *books,
                                             struct server_user *user);
/* Its context has ended. The book stays until what is in it is held by nobody, and freed. NULL is
 * nothing to do. */
void server_shm_book_close(struct server_shm_book *book);

/*
 * Whether `size` bytes more are at most `most` with all that contexts of the books have, living and
 * ended ones, what is held after it was given back included. If not, what is gone by now is soon
 * known.
 */
bool server_shm_fits(struct server_shm_books *books, uint64_t size, uint64_t most);

/* The context has got so much, which it leaves one day. */
void server_shm_take(struct server_shm_book *book, uint64_t size);
/* The context has given this memory back; own (which is taken over) is its descriptor. */
void server_shm_leave(struct server_shm_book *book, uint64_t size, int own);

/* Bytes that were given back, and are held all the same or not freed yet; UINT64_MAX: in too many
 * pieces. */
uint64_t server_shm_left(struct server_shm_book *book);

/* How many contexts of this user have ended whose memory is held all the same, or not freed yet. */
unsigned server_shm_ended(struct server_shm_books *books, const struct server_user *user);
