/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/server/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/server/memory.h"
#include "common/cleanup.h"

struct shm_left {
    struct shm_left *next;
    uint64_t size;
    int own;
};

struct server_shm_book {
    struct server_shm_book *next;
    struct server_shm_books *books;
    struct shm_left *first;
    uint32_t uid;
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

/* Nobody holds it. Who has kept a path to it (O_PATH) finds it empty, and what such a one writes
 * into it is accounted to that process by the kernel, as any memory of its own. */
static void shm_release(uint64_t size, int own)
{
    (void)fallocate(own, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size);
    close(own);
}

/* ---- books ----------------------------------------------------------------- */

static void book_sweep(struct server_shm_book *book)
{
    struct shm_left **at = &book->first;
    while (*at) {
        struct shm_left *left = *at;
        if (shm_is_held(left->own)) {
            at = &left->next;
            continue;
        }
        *at = left->next;
        shm_release(left->size, left->own);
        free(left);
    }
}

static void books_sweep(void *user);

static void books_sweep_later(struct server_shm_books *books, int64_t ms)
{
    books->sweep_ms = ms < SERVER_SHM_SWEEP_MAX_MS ? ms : SERVER_SHM_SWEEP_MAX_MS;
    server_timer_arm(books->loop, &books->sweep, server_now_ms() + books->sweep_ms, books_sweep,
                     books);
}

static void books_sweep(void *user)
{
    struct server_shm_books *books = user;
    bool held = false;
    struct server_shm_book **at = &books->first;
    while (*at) {
        struct server_shm_book *book = *at;
        book_sweep(book);
        if (!book->first && book->ended) {
            *at = book->next;
            free(book);
            continue;
        }
        held = held || book->first;
        at = &book->next;
    }
    if (held)
        books_sweep_later(books, 2 * books->sweep_ms);
}

void server_shm_leave(struct server_shm_book *book, uint64_t size, int own)
{
    struct shm_left *left = shm_is_held(own) ? malloc(sizeof(*left)) : NULL;
    if (!left) { /* without memory for the books, too */
        shm_release(size, own);
        return;
    }
    *left = (struct shm_left){.next = book->first, .size = size, .own = own};
    book->first = left;
    books_sweep_later(book->books, SERVER_SHM_SWEEP_MIN_MS);
}

uint64_t server_shm_left(struct server_shm_book *book)
{
    uint64_t bytes = 0;
    unsigned n = 0;
    book_sweep(book);
    for (const struct shm_left *left = book->first; left; left = left->next, n++)
        bytes += left->size;
    return n < SERVER_SHM_LEFT_MAX ? bytes : UINT64_MAX;
}

unsigned server_shm_ended(struct server_shm_books *books, uint32_t uid)
{
    unsigned n = 0;
    books_sweep(books);
    for (const struct server_shm_book *book = books->first; book; book = book->next)
        n += book->ended && book->uid == uid;
    return n;
}

/* ---- life ------------------------------------------------------------------ */

struct server_shm_book *server_shm_book_open(struct server_shm_books *books, uint32_t uid)
{
    struct server_shm_book *book = malloc(sizeof(*book));
    if (!book)
        return NULL;
    *book = (struct server_shm_book){.next = books->first, .books = books, .uid = uid};
    books->first = book;
    return book;
}

void server_shm_book_close(struct server_shm_book *book)
{
    if (!book)
        return;
    book->ended = true;
    books_sweep(book->books); /* perhaps frees it */
}

void server_shm_books_init(struct server_shm_books *books, struct server_loop *loop)
{
    *books = (struct server_shm_books){.loop = loop};
}

void server_shm_books_fini(struct server_shm_books *books)
{
    server_timer_disarm(books->loop, &books->sweep);
    while (books->first) {
        struct server_shm_book *book = books->first;
        books->first = book->next;
        while (book->first) {
            struct shm_left *left = book->first;
            book->first = left->next;
            close(left->own);
            free(left);
        }
        free(book);
    }
}
