/* SPDX-License-Identifier: Apache-2.0 */
/* The server's maps of memory that others hold: what they take away costs it nothing. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "backend/server/page.h"
#include "backend/server/ring.h"
#include "tests/lib/unit.h"

/* Can be cut off, which stands for a hole that the machine has no memory to fill. */
static int unsealed(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, SERVER_PAGE_SIZE), 0);
    return fd;
}

/* cmocka catches SIGBUS itself, so what is to be seen happens in a process of its own. */
static int in_child(bool (*body)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(body() ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* The next two come first: the handler is set with the first map of all. */

static bool lose_the_second(void)
{
    int fds[3];
    void *maps[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = unsealed();
        if (server_page_map(fds[i], &maps[i]) < 0)
            return false;
        memset(maps[i], i + 1, SERVER_PAGE_SIZE);
    }
    if (ftruncate(fds[1], 0) < 0)
        return false;
    /* Load, store, and the calls that are made of them. */
    if (*(volatile uint8_t *)maps[1] != 0)
        return false;
    memset(maps[1], 9, SERVER_PAGE_SIZE);
    server_ring_lose(maps[1], "gone");
    /* The others are as they were, and the place can be used again. */
    server_page_unmap(maps[1]);
    return *(volatile uint8_t *)maps[0] == 1 && *(volatile uint8_t *)maps[2] == 3 &&
           server_page_map(fds[0], &maps[1]) == 0 && *(volatile uint8_t *)maps[1] == 1;
}

TEST(memory_that_is_gone_is_survived)
{
    assert_int_equal(in_child(lose_the_second), 0);
}

static bool lose_a_strangers_map(void)
{
    int fd = unsealed();
    void *page = NULL;
    const volatile uint8_t *stranger = mmap(NULL, SERVER_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    if (server_page_map(fd, &page) < 0 || stranger == MAP_FAILED || ftruncate(fd, 0) < 0)
        return false;
    return *stranger == 0;
}

TEST(other_faults_still_end_the_process)
{
    int status = in_child(lose_a_strangers_map);
    /* ASan turns it into an exit. */
    assert_true((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) || WEXITSTATUS(status) > 1);
}

TEST(pages_are_shared)
{
    int fd = unsealed();
    void *page = NULL;
    uint32_t seen = 0;
    assert_int_equal(server_page_map(fd, &page), 0);
    memset(page, 7, sizeof(seen));
    assert_int_equal(pread(fd, &seen, sizeof(seen), 0), sizeof(seen));
    assert_int_equal(seen, 0x07070707);
    server_page_unmap(page);
    server_page_unmap(NULL);
    close(fd);
}

TEST(places_are_limited_and_used_again)
{
    static void *maps[SERVER_PAGES_MAX];
    int fd = unsealed();
    void *more = NULL;
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < SERVER_PAGES_MAX; i++)
            assert_int_equal(server_page_map(fd, &maps[i]), 0);
        assert_int_equal(server_page_map(fd, &more), -ENOSPC);
        assert_null(more);
        for (unsigned i = 0; i < SERVER_PAGES_MAX; i++)
            server_page_unmap(maps[i]);
    }
    close(fd);
}
