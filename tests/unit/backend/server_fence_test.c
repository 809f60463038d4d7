/* SPDX-License-Identifier: Apache-2.0 */
/* Fences alone. */
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "backend/server/vmm/fence.h"
#include "tests/lib/unit.h"

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

TEST_WITHIN(attach_refuses_what_is_too_small_or_no_file, set_up, tear_down)
{
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
    assert_int_equal(server_fences_complete(&other, 31, 1), 0);
    assert_int_equal(server_fences_complete(&other, 32, 1), -ERANGE);
    server_fences_fini(&other);
    close(shmem);
}

TEST_WITHIN(each_completes_and_wakes, set_up, tear_down)
{
    uint64_t count = 0;
    assert_int_equal(server_fences_complete(&fences, 1, 7), 0);
    assert_int_equal(server_fences_complete(&fences, 63, UINT32_MAX), 0);
    assert_int_equal(fences.timeline[1], 7);
    assert_int_equal(fences.timeline[63], UINT32_MAX);
    assert_int_equal(fences.timeline[0], 0);
    assert_int_equal(read(event, &count, sizeof(count)), sizeof(count));
    assert_int_equal(count, 2);
    assert_int_equal(server_fences_complete(&fences, 64, 1), -ERANGE);
    assert_int_equal(read(event, &count, sizeof(count)), -1);
}
