/* SPDX-License-Identifier: Apache-2.0 */
/* The books of shared memory: what all contexts have together. */
#include "backend/server/shm.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/lib/clock.h"
#include "tests/lib/unit.h"

#define PIECE UINT64_C(65536)

static struct server_loop loop;
static struct server_user user = {.uid = 1}, another = {.uid = 2};
static struct server_shm_books books;
static struct server_shm_book *a, *b;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(server_loop_init(&loop), 0);
    server_shm_books_init(&books, &loop);
    a = server_shm_book_open(&books, &user);
    b = server_shm_book_open(&books, &another);
    return a && b ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    server_shm_books_fini(&books);
    server_loop_fini(&loop);
    return 0;
}

#define SHM_TEST(name) TEST_WITHIN(name, setup, teardown)

/* A piece of this book's, and of a worker that is gone. */
static struct server_shm_fds take(struct server_shm_book *book)
{
    struct server_shm_fds fds;
    assert_int_equal(server_shm_create("apir-test", PIECE, &fds), 0);
    close(fds.worker);
    server_shm_take(book, PIECE);
    return fds;
}

/* So much fits, and not a byte more. */
static void expect_room(uint64_t most, uint64_t room)
{
    assert_true(server_shm_fits(&books, room, most));
    assert_false(server_shm_fits(&books, room + 1, most));
}

SHM_TEST(the_sum_is_that_of_all_books)
{
    expect_room(3 * PIECE, 3 * PIECE);
    struct server_shm_fds one = take(a), other = take(b);
    expect_room(3 * PIECE, PIECE);
    expect_room(2 * PIECE, 0);
    /* Less than there is already, and more than can be. */
    assert_false(server_shm_fits(&books, 0, 2 * PIECE - 1));
    assert_false(server_shm_fits(&books, UINT64_MAX, 3 * PIECE));
    assert_false(server_shm_fits(&books, UINT64_MAX - PIECE, UINT64_MAX));
    expect_room(UINT64_MAX - 1, UINT64_MAX - 1 - 2 * PIECE);
    close(one.guest);
    server_shm_leave(a, PIECE, one.own);
    expect_room(3 * PIECE, 2 * PIECE);
    close(other.guest);
    server_shm_leave(b, PIECE, other.own);
    expect_room(3 * PIECE, 3 * PIECE);
}

/* One that gives back without end does not keep the server from seeing what others let go of. */
SHM_TEST(nobody_puts_off_the_sweep)
{
    struct server_shm_fds held = take(a);
    server_shm_leave(a, PIECE, held.own);
    close(held.guest);
    const int64_t end = now_ms() + patient_ms(5000);
    while (!server_shm_fits(&books, 2 * PIECE, 2 * PIECE) && now_ms() < end) {
        struct server_shm_fds fds = take(b);
        close(fds.guest);
        server_shm_leave(b, PIECE, fds.own);
        assert_true(server_loop_turn(&loop, 1) >= 0);
    }
    expect_room(2 * PIECE, 2 * PIECE);
}
