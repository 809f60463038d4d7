/* SPDX-License-Identifier: Apache-2.0 */
/* The fence queue alone, with a clock of the test's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/server/vmm/fence.h"

static struct server_fences fences;
static int event;

static int set_up(void **state)
{
    (void)state;
    int shmem = memfd_create("timeline", MFD_CLOEXEC);
    assert_int_equal(ftruncate(shmem, 256), 0);
    event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int given = dup(event);
    server_fences_init(&fences);
    assert_int_equal(server_fences_attach(&fences, shmem, 256, &given), 0);
    assert_int_equal(given, -1);
    close(shmem);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    server_fences_fini(&fences);
    close(event);
    return 0;
}

static void attach_refuses_what_is_too_small_or_no_file(void **state)
{
    (void)state;
    int none = -1;
    struct server_fences other;
    int shmem = memfd_create("timeline", MFD_CLOEXEC);
    assert_int_equal(ftruncate(shmem, 128), 0);
    server_fences_init(&other);
    assert_int_equal(server_fences_attach(&other, shmem, 256, &none), -EINVAL);
    assert_int_equal(server_fences_attach(&other, shmem, 3, &none), -EINVAL);
    assert_int_equal(server_fences_attach(&other, shmem, UINT64_MAX, &none), -EINVAL);
    assert_int_equal(server_fences_attach(&other, event, 256, &none), -EINVAL);
    /* What a write to might wait for is no eventfd of virglrenderer's. */
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(server_fences_attach(&other, shmem, 128, &pipes[1]), -EINVAL);
    close(pipes[0]);
    close(pipes[1]);
    assert_int_equal(server_fences_attach(&other, shmem, 128, &none), 0);
    assert_int_equal(server_fences_attach(&other, shmem, 128, &none), -EEXIST);
    assert_int_equal(server_fences_submit(&other, 31, 1, 0), 0);
    assert_int_equal(server_fences_submit(&other, 32, 1, 0), -ERANGE);
    assert_int_equal(server_fences_expect(&other, 64, 1), -ERANGE);
    server_fences_fini(&other);
    close(shmem);
}

static void lowest_is_that_of_the_first_on_each_timeline(void **state)
{
    (void)state;
    server_fences_expect(&fences, 1, 100);
    server_fences_submit(&fences, 1, 1, 0);
    server_fences_expect(&fences, 1, 10); /* behind the first: not asked for */
    server_fences_submit(&fences, 1, 2, 0);
    server_fences_expect(&fences, 2, 50);
    server_fences_submit(&fences, 2, 1, 0);
    assert_int_equal(server_fences_complete(&fences, 20, 0), 50);
    assert_int_equal(fences.timeline[1], 0);
    assert_int_equal(server_fences_complete(&fences, 50, 0), 100);
    assert_int_equal(fences.timeline[2], 1);
    assert_true(server_fences_complete(&fences, 100, 0) == SERVER_FENCE_NEVER);
    assert_int_equal(fences.timeline[1], 2);
    assert_int_equal(server_fences_deadline(&fences), -1);
}

static void eventfd_is_written_only_for_progress(void **state)
{
    (void)state;
    uint64_t count;
    server_fences_expect(&fences, 0, 5);
    server_fences_submit(&fences, 0, 1, 0);
    server_fences_complete(&fences, 4, 0);
    assert_int_equal(read(event, &count, sizeof(count)), -1);
    server_fences_complete(&fences, 5, 0);
    assert_int_equal(read(event, &count, sizeof(count)), 8);
    assert_int_equal(fences.timeline[0], 1);
}

static void old_fences_complete_without_their_head(void **state)
{
    (void)state;
    server_fences_expect(&fences, 0, UINT64_MAX);
    server_fences_submit(&fences, 0, 1, 1000);
    server_fences_expect(&fences, 0, UINT64_MAX);
    server_fences_submit(&fences, 0, 2, 2000);
    assert_int_equal(server_fences_deadline(&fences), 1000 + SERVER_FENCE_AGE_MS);
    server_fences_complete(&fences, 0, 999 + SERVER_FENCE_AGE_MS);
    assert_int_equal(fences.timeline[0], 0);
    server_fences_complete(&fences, 0, 1000 + SERVER_FENCE_AGE_MS);
    assert_int_equal(fences.timeline[0], 1);
    server_fences_complete(&fences, 0, 2000 + SERVER_FENCE_AGE_MS);
    assert_int_equal(fences.timeline[0], 2);
}

static void too_many_fences_complete_the_oldest(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= SERVER_FENCES_MAX + 3; i++) {
        server_fences_expect(&fences, 7, 1000 + i);
        assert_int_equal(server_fences_submit(&fences, 7, i, 0), 0);
        server_fences_complete(&fences, 0, 0);
    }
    assert_int_equal(fences.n, SERVER_FENCES_MAX);
    assert_int_equal(fences.timeline[7], 3);
}

static void everything_completes_at_never(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SERVER_FENCES_MAX; i++) {
        server_fences_expect(&fences, i, UINT64_MAX);
        server_fences_submit(&fences, i, UINT32_MAX, 0);
    }
    assert_true(server_fences_complete(&fences, SERVER_FENCE_NEVER, 0) == SERVER_FENCE_NEVER);
    for (uint32_t i = 0; i < SERVER_FENCES_MAX; i++)
        assert_int_equal(fences.timeline[i], UINT32_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(attach_refuses_what_is_too_small_or_no_file),
        TEST(lowest_is_that_of_the_first_on_each_timeline),
        TEST(eventfd_is_written_only_for_progress),
        TEST(old_fences_complete_without_their_head),
        TEST(too_many_fences_complete_the_oldest),
        TEST(everything_completes_at_never),
    };
    return cmocka_run_group_tests_name("server_fence", tests, NULL, NULL);
}
