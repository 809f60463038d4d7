/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/server/closer.h"
#include "backend/server/list.h"
#include "backend/server/memory.h"
#include "common/cleanup.h"
#include "protocol/atomic.h"

struct shm_left {
    struct shm_left *next;
    uint64_t size;
    int own;       /* -1: whoever frees it has it */
    uint32_t done; /* set by that one, from its thread */
};

struct server_shm_book {
    struct server_shm_book *next;
    struct server_shm_books *books;
    struct shm_left *first;
    struct server_user *user;
    bool ended;
};

/* ---- memory ---------------------------------------------------------------- */

void server_shm_close(struct server_shm_fds *fds)
{
    apir_close_fd(&fds->own);
    apir_close_fd(&fds->worker);
    apir_close_fd(&fds->guest);
}

int server_shm_create(const char *name, uint64_t size, struct server_shm_fds *ret_fds)
{
    cleanup_fd int made = server_memory_create(name, size);
    if (made < 0)
        return made;
    /* The kernel counts a file that is opened for writing by its path, and not the one that
     * its maker has. */
    struct server_shm_fds fds = {.own = -1, .worker = -1, .guest = -1};
    int *const each[] = {&fds.own, &fds.worker, &fds.guest};
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", made);
    for (int i = 0; i < 3; i++) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
            fd = fcntl(made, F_DUPFD_CLOEXEC, 0);
        if (fd < 0) {
            const int rc = -errno;
            server_shm_close(&fds);
            return rc;
        }
        *each[i] = fd;
    }
    *ret_fds = fds;
    return 0;
}

/* Whether a file other than ours is open. Whoever opens one in the moment of the lease waits for
 * its end, and we get a SIGIO, which the server ignores. Where a kernel gives no leases on memfds
 * nobody can tell, as without /proc. */
static bool shm_is_held(int own)
{
    if (fcntl(own, F_SETLEASE, F_WRLCK) < 0)
        return errno == EAGAIN;
    (void)fcntl(own, F_SETLEASE, F_UNLCK);
    return false;
}

/* ---- books ----------------------------------------------------------------- */

/*
 * Whether it is gone. Where nobody holds it any more it is on its way: a little is freed at once,
 * which takes less than to have it done; more takes as long as there was much in it, and is not
 * this thread's.
 */
static bool left_is_gone(struct shm_left *left)
{
    if (left->own >= 0 && !shm_is_held(left->own)) {
        if (left->size <= SERVER_SHM_LITTLE) {
            server_memory_free(left->own, left->size);
            apir_close_fd(&left->own);
            left->done = 1;
        } else if (server_free_later(left->own, left->size, &left->done)) {
            left->own = -1;
        }
    }
    return left->own < 0 && apir_load_acquire32(&left->done);
}

static void left_free(struct server_shm_book *book, struct shm_left *left)
{
    book->books->bytes -= left->size;
    free(left);
}

/* Takes out what is gone: of SERVER_SHM_LEFT_MAX pieces at most, and of what a context had at its
 * end. */
static void book_sweep(struct server_shm_book *book)
{
    struct shm_left **at = &book->first;
    while (*at) {
        struct shm_left *left = *at;
        if (left_is_gone(left)) {
            *at = left->next;
            left_free(book, left);
        } else {
            at = &left->next;
        }
    }
}

/* The same up to the first that is not: all that is to be known is whether there is one. */
static bool book_has_any(struct server_shm_book *book)
{
    for (struct shm_left *left; (left = book->first) && left_is_gone(left); left_free(book, left))
        book->first = left->next;
    return book->first;
}

/* Nothing is in it, and nothing will be. */
static void book_free(struct server_shm_book *book)
{
    struct server_shm_books *books = book->books;
    book->user->books--;
    if (books->at == book)
        books->at = book->next;
    SERVER_LIST_REMOVE(&books->first, book);
    free(book);
}

static void books_sweep(void *user);

static void books_sweep_in(struct server_shm_books *books, int64_t ms)
{
    server_timer_arm(books->loop, &books->sweep, server_now_ms() + ms, books_sweep, books);
}

/* One that is due earlier stays: who gives back without end does not put it off. */
static void books_sweep_soon(struct server_shm_books *books)
{
    const int64_t soon = server_now_ms() + SERVER_SHM_SWEEP_MIN_MS;
    books->any = true; /* a sweep may have passed what is gone now */
    books->sweep_ms = SERVER_SHM_SWEEP_MIN_MS;
    if (!books->at && (!books->sweep.armed || books->sweep.at_ms > soon))
        books_sweep_in(books, SERVER_SHM_SWEEP_MIN_MS);
}

/* One book each time, so that others get their turn; all of them, and again twice as long after
 * that as before, as long as there is anything. */
static void books_sweep(void *user)
{
    struct server_shm_books *books = user;
    struct server_shm_book *book = books->at ? books->at : books->first;
    if (!book)
        return;
    books->at = book->next;
    book_sweep(book);
    books->any = books->any || book->first;
    if (!book->first && book->ended)
        book_free(book);
    if (books->at) {
        books_sweep_in(books, 0);
    } else if (books->any) {
        books->any = false;
        books_sweep_in(books, books->sweep_ms);
        books->sweep_ms = books->sweep_ms < SERVER_SHM_SWEEP_MAX_MS / 2 ? 2 * books->sweep_ms
                                                                        : SERVER_SHM_SWEEP_MAX_MS;
    }
}

bool server_shm_fits(struct server_shm_books *books, uint64_t size, uint64_t most)
{
    const bool fits = books->bytes <= most && size <= most - books->bytes;
    if (!fits)
        books_sweep_soon(books);
    return fits;
}

void server_shm_take(struct server_shm_book *book, uint64_t size)
{
    book->books->bytes += size;
}

void server_shm_leave(struct server_shm_book *book, uint64_t size, int own)
{
    struct server_shm_books *books = book->books;
    struct shm_left *left = malloc(sizeof(*left));
    if (!left) { /* without memory for the books; it is freed here where there is none for that
                    either */
        books->bytes -= size;
        if (!server_free_later(own, size, NULL))
            close(own);
        return;
    }
    *left = (struct shm_left){.next = book->first, .size = size, .own = own};
    book->first = left;
    if (left_is_gone(left)) { /* else it begins, if nobody holds it */
        book->first = left->next;
        left_free(book, left);
    } else {
        books_sweep_soon(books);
    }
}

uint64_t server_shm_left(struct server_shm_book *book)
{
    uint64_t bytes = 0;
    unsigned n = 0, n_held = 0;
    book_sweep(book);
    for (const struct shm_left *left = book->first; left; left = left->next, n++) {
        bytes += left->size;
        n_held += left->own >= 0;
    }
    return n < SERVER_SHM_LEFT_MAX && n_held < SERVER_SHM_HELD_MAX ? bytes : UINT64_MAX;
}

unsigned server_shm_ended(struct server_shm_books *books, const struct server_user *user)
{
    unsigned n = 0;
    for (struct server_shm_book *book = books->first, *next; book; book = next) {
        next = book->next;
        if (!book->ended || book->user != user)
            continue;
        if (book_has_any(book))
            n++;
        else
            book_free(book);
    }
    return n;
}

/* ---- life ------------------------------------------------------------------ */

struct server_shm_book *server_shm_book_open(struct server_shm_books *books,
                                             struct server_user *user)
{
    struct server_shm_book *book = malloc(sizeof(*book));
    if (!book)
        return NULL;
    *book = (struct server_shm_book){.next = books->first, .books = books, .user = user};
    books->first = book;
    user->books++;
    return book;
}

void server_shm_book_close(struct server_shm_book *book)
{
    if (!book)
        return;
    book->ended = true;
    if (!book_has_any(book))
        book_free(book);
}

void server_shm_books_init(struct server_shm_books *books, struct server_loop *loop)
{
    *books = (struct server_shm_books){.loop = loop};
}

/* The process ends: what is still being freed is the kernel's, and whoever frees it has its note.
 */
static struct shm_left *unfinished;

void server_shm_books_fini(struct server_shm_books *books)
{
    server_timer_disarm(books->loop, &books->sweep);
    while (books->first) {
        struct server_shm_book *book = books->first;
        books->first = book->next;
        while (book->first) {
            struct shm_left *left = book->first;
            book->first = left->next;
            if (left->own < 0 && !apir_load_acquire32(&left->done)) {
                left->next = unfinished;
                unfinished = left;
                continue;
            }
            apir_close_fd(&left->own);
            free(left);
        }
        free(book);
    }
}
