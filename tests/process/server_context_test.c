/* SPDX-License-Identifier: Apache-2.0 */
/* A context's socket: blobs, doorbells, fences, and peers that break the rules. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "backend/server/vmm/render_protocol.h"
#include "protocol/atomic.h"
#include "common/fdsock.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/unit.h"

static struct fixture f;
static struct fixture_context c;

static int set_up(void **state)
{
    (void)state;
    fixture_start(&f, NO_STOCK, NULL);
    fixture_open(&f, &c, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_close(&c);
    fixture_stop(&f);
    return 0;
}

static void expect_lost(const char *reason)
{
    fixture_wait_state(&c, APIR_STATE_LOST);
    assert_non_null(strstr(c.ring->reason, reason));
    /* The socket answers, and fences complete. */
    fixture_fence(&c, 5, 77);
    fixture_wait_timeline(&c, 5, 77);
    fixture_sync(&c);
}

TEST_WITHIN(bad_blobs_are_refused, set_up, tear_down)
{
    static const struct {
        uint64_t id;
        uint64_t size;
    } rings[] =
        {
            {0, 0},          {0, 65536},      {0, (1 << 20) + 4096}, {0, 32 << 20},
            {0, 3 << 18},    {1, 1 << 20},    {16, 1 << 20},         {UINT64_MAX, 1 << 20},
            {0, 1ull << 63}, {0, UINT64_MAX}, {1ull << 32, 1 << 20},
        },
      arenas[] = {
          {0, 1 << 20},
          {1, 0},
          {1, 65535},
          {1, 65537},
          {1, (1 << 30) + 65536},
          {1, UINT64_MAX},
          {1, 1ull << 63},
          {APIR_BLOBS_MAX, 65536},
          {1ull << 32 | 1, 65536},
      };
    for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++)
        assert_int_equal(fixture_create_blob(&c, 1, rings[i].id, rings[i].size), -1);
    fixture_open_ring(&c, true);
    for (size_t i = 0; i < sizeof(arenas) / sizeof(arenas[0]); i++)
        assert_int_equal(fixture_create_blob(&c, 2, arenas[i].id, arenas[i].size), -1);
    assert_int_equal(fixture_create_blob(&c, 1, 1, 65536), -1); /* the ring's resource id */
    fixture_expect_alive(&c);
}

TEST_WITHIN(shared_memory_is_limited, set_up, tear_down)
{
    fixture_open_ring(&c, true);
    for (uint32_t i = 1; i <= 15; i++) {
        /* 1 MiB of ring; 15 times 128 MiB would be more than the 1024 allowed. */
        int fd = fixture_create_blob(&c, 1 + i, i, 128 << 20);
        assert_int_equal(fd >= 0, i < 8);
        if (fd >= 0)
            close(fd);
    }
    fixture_destroy_resource(&c, 2);
    fixture_take_blob(&c, 50, 15, 128 << 20);
    fixture_expect_alive(&c);
}

TEST_WITHIN(blobs_cannot_change_their_size, set_up, tear_down)
{
    fixture_open_ring(&c, true);
    int fd = fixture_create_blob(&c, 2, 1, 65536);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 1 << 20), -1);
    close(fd);
}

TEST_WITHIN(punched_ring_is_survived, set_up, tear_down)
{
    int fd = fixture_create_blob(&c, 1, 0, APIR_RING_SIZE);
    assert_true(fd >= 0);
    c.ring = mmap(NULL, APIR_RING_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(c.ring != MAP_FAILED);
    fixture_wait_state(&c, APIR_STATE_READY);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, APIR_RING_SIZE),
                     0);
    close(fd);
    fixture_doorbell(&c, APIR_DOORBELL_PING, 9);
    fixture_sync(&c);
    assert_int_equal(c.ring->pong, 9);
}

TEST_WITHIN(ten_thousand_resources_are_survived, set_up, tear_down)
{
    fixture_open_ring(&c, true);
    size_t before = fixture_count_fds(&f);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(fixture_create_blob(&c, 10 + i, APIR_BLOBS_MAX + i, 65536), -1);
    for (uint32_t i = 0; i < 10000; i++) {
        fixture_take_blob(&c, 10 + i, 1 + i % (APIR_BLOBS_MAX - 1), 65536);
        fixture_destroy_resource(&c, 10 + i);
        if (i % 50 == 0) { /* the worker reads its control socket before it takes a kick */
            fixture_work(&c, 1 + i);
            fixture_wait_head(&c, 1 + i);
        }
    }
    fixture_expect_alive(&c);
    fixture_expect_fds(&f, before);
}

TEST_WITHIN(imported_descriptors_are_closed, set_up, tear_down)
{
    fixture_open_ring(&c, true);
    size_t before = fixture_count_fds(&f);
    for (uint32_t i = 0; i < 100; i++) {
        const struct server_context_import_resource req = {
            .op = SERVER_CONTEXT_IMPORT_RESOURCE,
            .res_id = 1000 + i,
            .size = 4096,
        };
        fixture_send(c.fd, &req, sizeof(req), (const int[]){0}, 1);
        fixture_destroy_resource(&c, 1000 + i);
    }
    fixture_expect_alive(&c);
    fixture_expect_fds(&f, before);
}

TEST_WITHIN(destroyed_ring_loses_the_context, set_up, tear_down)
{
    fixture_open_ring(&c, true);
    fixture_destroy_resource(&c, 1);
    expect_lost("destroyed its ring");
    assert_int_equal(fixture_create_blob(&c, 3, 0, APIR_RING_SIZE), -1);
}

TEST_WITHIN(commands_that_are_no_doorbell_are_ignored, set_up, tear_down)
{
    fixture_open_ring(&c, true);
    for (uint32_t size = 0; size <= SERVER_INLINE_CMD_SIZE; size++) {
        struct server_context_submit_cmd cmd = {.op = SERVER_CONTEXT_SUBMIT_CMD, .size = size};
        memset(cmd.cmd, (int)size, sizeof(cmd.cmd));
        fixture_send(c.fd, &cmd, sizeof(cmd), NULL, 0);
    }
    for (uint32_t op = 0; op < 70; op++)
        fixture_doorbell(&c, op == APIR_DOORBELL_PING ? 0 : op, UINT64_MAX);
    fixture_expect_alive(&c);
}

TEST_WITHIN(oversized_command_is_skipped_with_its_rest, set_up, tear_down)
{
    static uint8_t rest[100000];
    static const uint32_t sizes[] = {257, 264, 256 + 264, 4096, 100000};
    fixture_open_ring(&c, true);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct server_context_submit_cmd cmd = {.op = SERVER_CONTEXT_SUBMIT_CMD, .size = sizes[i]};
        fixture_send(c.fd, &cmd, sizeof(cmd), NULL, 0);
        fixture_send(c.fd, rest, sizes[i] - 256, NULL, 0);
        fixture_expect_alive(&c);
    }
}

/* virglrenderer sends the first part, fails with the rest, and goes on. */
TEST_WITHIN(oversized_command_without_its_rest_hides_no_request, set_up, tear_down)
{
    fixture_open_ring(&c, true);
    struct server_context_submit_cmd cmd = {.op = SERVER_CONTEXT_SUBMIT_CMD, .size = 1 << 20};
    fixture_send(c.fd, &cmd, sizeof(cmd), NULL, 0);
    fixture_sync(&c);
    cmd.size = UINT32_MAX;
    fixture_send(c.fd, &cmd, sizeof(cmd), NULL, 0);
    fixture_sync(&c);
    fixture_expect_alive(&c);
}

TEST_WITHIN(violation_loses_the_context_and_keeps_the_socket, set_up, tear_down)
{
    static const struct {
        uint32_t op;
        size_t size;
        size_t n_fds;
    } bad[] = {
        {7, 16, 0},  {UINT32_MAX, 4, 0}, {0, 1, 0},  {0, 3, 0},  {0, 8, 0}, {1, 16, 0}, {1, 16, 2},
        {1, 16, 3},  {1, 12, 1},         {3, 24, 2}, {4, 8, 1},  {4, 4, 0}, {5, 8, 0},  {5, 264, 1},
        {5, 400, 0}, {6, 12, 0},         {6, 20, 0}, {6, 16, 1}, {0, 4, 8},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint8_t message[512] = {0};
        struct fixture_context first = c;
        fixture_open_ready(&f, &c, 100 + (uint32_t)i);
        pid_t worker = fixture_child(&f, "fake_worker", NULL);
        size_t before = fixture_count_fds(&f);
        memcpy(message, &bad[i].op, sizeof(bad[i].op));
        fixture_send(c.fd, message, bad[i].size, (const int[]){0, 0, 0, 0, 0, 0, 0, 0},
                     bad[i].n_fds);
        expect_lost("protocol violation");
        fixture_wait_gone(worker);
        fixture_expect_fds(&f, before);
        fixture_close(&c);
        c = first;
    }
    /* A request for a blob is answered even so. */
    fixture_open_ring(&c, true);
    const uint32_t half[3] = {SERVER_CONTEXT_CREATE_RESOURCE};
    struct server_context_create_resource_reply reply = {0};
    size_t got = 0;
    fixture_send(c.fd, half, sizeof(half), NULL, 0);
    assert_int_equal(apir_fdsock_recv(c.fd, &reply, sizeof(reply), &got, NULL, 0, NULL, 0), 0);
    assert_int_equal(reply.fd_type, SERVER_FD_INVALID);
    expect_lost("protocol violation");
}

TEST_WITHIN(fence_without_timeline_loses_the_context, set_up, tear_down)
{
    struct fixture_context bare = {.fd = fixture_create_context(&f, 2, APIR_CONTEXT_NAME)};
    fixture_fence(&bare, 0, 1);
    fixture_open_ring(&bare, false);
    assert_int_equal(bare.ring->state, APIR_STATE_LOST);
    munmap(bare.ring, APIR_RING_HEADER_SIZE);
    close(bare.fd);
    fixture_open_ring(&c, true);
    fixture_fence(&c, 64, 1);
    expect_lost("protocol violation");
}

TEST_WITHIN(replies_that_nobody_reads_block_nobody, set_up, tear_down)
{
    struct fixture_context other;
    const struct server_context_create_resource req = {
        .op = SERVER_CONTEXT_CREATE_RESOURCE,
        .blob_id = 99,
        .blob_size = 65536,
    };
    size_t sent = 0;
    while (send(c.fd, &req, sizeof(req), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(req)) {
        sent++;
        if (sent % 50 == 0) { /* lets the server get on, and shows that it serves others */
            fixture_open(&f, &other, 2);
            fixture_close(&other);
            fixture_destroy_context(&f, 2);
        }
    }
    assert_true(errno == EAGAIN && sent > 100);
    fixture_open_ready(&f, &other, 2);
    fixture_close(&other);
    while (sent--) {
        struct server_context_create_resource_reply reply;
        size_t got = 0;
        assert_int_equal(apir_fdsock_recv(c.fd, &reply, sizeof(reply), &got, NULL, 0, NULL, 0), 0);
        assert_int_equal(reply.fd_type, SERVER_FD_INVALID);
    }
    fixture_open_ring(&c, true);
    fixture_expect_alive(&c);
}

/* Whatever the worker has got to; on each timeline in their order. */
TEST_WITHIN(fences_complete_at_once, set_up, tear_down)
{
    fixture_fence(&c, 0, 1); /* before there is a ring */
    fixture_wait_timeline(&c, 0, 1);
    fixture_open_ring(&c, true);
    apir_store_release64(&c.ring->tail, 8); /* which nobody kicks the worker for */
    for (uint32_t i = 1; i <= 100; i++) {
        fixture_fence(&c, 2, i);
        fixture_fence(&c, 63, i);
        if (i % 8 == 0)
            fixture_wait_timeline(&c, 2, i);
    }
    fixture_wait_timeline(&c, 2, 100);
    fixture_wait_timeline(&c, 63, 100);
}
