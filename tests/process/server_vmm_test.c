/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMM's socket: which contexts are ours, refusals, the server's own end; and a context's:
 * blobs, doorbells, fences. What breaks the rules of either: tests/hostile/attacks (rows socket-*,
 * ref-shm-sizes, ref-vmm-asserts, ref-window).
 */
#include <sys/mman.h>

#include "backend/server/vmm/render_protocol.h"
#include "common/fdsock.h"
#include "protocol/atomic.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/unit.h"

static struct fixture f; /* a server without a stock one */

static int set_up(void **state)
{
    fixture_start(&f, NO_STOCK, NULL);
    return unit_setup(state);
}

static int tear_down(void **state)
{
    const int leaks = unit_teardown(state);
    fixture_stop(&f);
    return leaks;
}

#define SERVER_TEST(name) TEST_WITHIN(name, set_up, tear_down)

SERVER_TEST(ring_has_its_header_with_the_reply)
{
    struct fixture_context c;
    fixture_open(&f, &c, 1);
    fixture_open_ring(&c, false);
    assert_int_equal(c.ring->magic, APIR_RING_MAGIC);
    assert_int_equal(c.ring->major, APIR_PROTOCOL_MAJOR);
    assert_int_equal(c.ring->blob_size, APIR_RING_SIZE);
    assert_int_equal(c.ring->cmd_offset, APIR_RING_SIZE / 2);
    assert_int_equal(c.ring->cmd_size, APIR_RING_SIZE / 2);
    assert_int_equal(c.ring->reply_offset, APIR_RING_HEADER_SIZE);
    assert_int_equal(c.ring->reply_size, APIR_RING_SIZE / 2 - APIR_RING_HEADER_SIZE);
    fixture_wait_state(&c, APIR_STATE_READY);
    fixture_close(&c);
}

/* A refused context is made, but its ring says why and its fences complete. */
static void expect_refused(uint32_t id, const char *name, const char *reason)
{
    struct fixture_context c;
    fixture_init_context(&c, fixture_create_context(&f, id, name));
    fixture_open_ring(&c, false);
    assert_int_equal(c.ring->magic, APIR_RING_MAGIC);
    assert_int_equal(c.ring->state, APIR_STATE_LOST);
    assert_non_null(strstr(c.ring->reason, reason));
    assert_int_equal(fixture_create_blob(&c, 2, 1, APIR_SHM_ALIGN), -1);
    fixture_fence(&c, 1, 1);
    fixture_wait_timeline(&c, 1, 1);
    fixture_close(&c);
}

SERVER_TEST(other_version_is_refused_with_both_named)
{
    expect_refused(1, "apir:2", "host speaks apir:1, the guest asked for apir:2");
    expect_refused(2, "apir:01", "asked for apir:01");
    assert_int_equal(fixture_child(&f, "fake_worker", NULL), -1);
}

SERVER_TEST(names_like_ours_are_not_ours)
{
    static const char *const names[] = {
        "",        "apir",    "apir:",        "apir:1x",  "apir:x", "Apir:1",
        "xapir:1", " apir:1", "llama-server", "apir:one", "%s%n%s", "\x1b[31m",
    };
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(fixture_create_context(&f, i + 1, names[i]), -1);
}

TEST(broken_configuration_refuses_with_the_reason)
{
    setenv("APIR_LOG", "error", 1);
    fixture_start(&f, NULL, NULL);
    expect_refused(1, APIR_CONTEXT_NAME, "configuration is broken");
    fixture_stop(&f);
}

SERVER_TEST(context_id_in_use_is_refused)
{
    struct fixture_context c;
    fixture_open(&f, &c, 7);
    assert_int_equal(fixture_create_context(&f, 7, APIR_CONTEXT_NAME), -1);
    fixture_open_ring(&c, true);
    fixture_close(&c);
}

static void expect_foreign_refused(void)
{
    struct render_client_create_context_reply reply = {.ok = 1};
    size_t got = 0;
    assert_int_equal(apir_fdsock_recv(f.client, &reply, sizeof(reply), &got, NULL, 0, NULL, 0), 0);
    assert_int_equal(reply.ok, 0);
}

/* A whole CREATE_CONTEXT of zeros is a foreign one: refused, and all before it has been looked at.
 */
static void foreign_is_refused(void)
{
    uint8_t message[128] = {0};
    const uint32_t op = RENDER_CLIENT_CREATE_CONTEXT;
    memcpy(message, &op, sizeof(op));
    fixture_send(f.client, message, sizeof(message), NULL, 0);
    expect_foreign_refused();
}

SERVER_TEST(malformed_requests_are_ignored_or_refused)
{
    struct fixture_context c;
    uint8_t message[128] = {0};
    for (uint32_t op = 0; op < 12; op++) {
        for (size_t size = 1; size <= sizeof(message); size += op == 3 ? 1 : 7) {
            /* All bytes but op's are zero. */
            memcpy(message, &op, sizeof(op));
            fixture_send(f.client, message, size, NULL, 0);
            if (op == RENDER_CLIENT_CREATE_CONTEXT && size >= sizeof(op))
                expect_foreign_refused();
        }
    }
    /* fds where none belong: they do not stay */
    foreign_is_refused();
    const size_t before = fixture_count_fds(&f);
    memset(message, 0, sizeof(message));
    fixture_send(f.client, message, 4, (const int[]){0, 0, 0}, 3);
    foreign_is_refused();
    fixture_expect_fds(&f, before);
    fixture_open_ready(&f, &c, 1);
    fixture_close(&c);
}

SERVER_TEST(reset_ends_all_contexts)
{
    struct fixture_context c[3];
    for (uint32_t i = 0; i < 3; i++) {
        fixture_open_ready(&f, &c[i], i + 1);
    }
    const uint32_t op = RENDER_CLIENT_RESET;
    fixture_send(f.client, &op, sizeof(op), NULL, 0);
    for (uint32_t i = 0; i < 3; i++) {
        fixture_wait_hangup(c[i].fd);
        fixture_close(&c[i]);
    }
    fixture_open_ready(&f, &c[0], 1);
    fixture_close(&c[0]);
}

TEST(inherited_descriptors_are_closed)
{
    int leak[2];
    assert_int_equal(pipe(leak), 0); /* not close-on-exec: the VMM's mistake */
    fixture_start(&f, NO_STOCK, NULL);
    close(leak[1]);
    fixture_wait_hangup(leak[0]); /* although the server lives */
    close(leak[0]);
    fixture_stop(&f);
}

/* A VMM whose socket is a stream has its contexts' as streams, and all else as any other. */
static int set_up_stream(void **state)
{
    fixture_stream = true;
    return set_up(state);
}

static int tear_down_stream(void **state)
{
    fixture_stream = false;
    return tear_down(state);
}

/* A command too long to come in one message. */
static void rest_of_a_command(void)
{
    /* Some are as long as a request. */
    static const uint32_t sizes[] = {1, 8, 16, 264, 1000, 3840, 70000};
    static uint8_t rest[70000];
    struct fixture_context c;
    fixture_open_ready(&f, &c, 1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const struct render_context_submit_cmd cmd = {.op = RENDER_CONTEXT_SUBMIT_CMD,
                                                      .size = RENDER_INLINE_CMD_SIZE + sizes[i]};
        fixture_send(c.fd, &cmd, sizeof(cmd), NULL, 0);
        fixture_send(c.fd, rest, sizes[i], NULL, 0);
        fixture_expect_alive(&c);
        if (sizes[i] < 1000)
            continue;
        /* One that never comes is not waited for. */
        fixture_send(c.fd, &cmd, sizeof(cmd), NULL, 0);
        fixture_expect_alive(&c);
    }
    fixture_close(&c);
}

SERVER_TEST(packets_with_the_rest_of_a_command)
{
    rest_of_a_command();
}

TEST_WITHIN(stream_with_the_rest_of_a_command, set_up_stream, tear_down_stream)
{
    rest_of_a_command();
}

/* ---- a context --------------------------------------------------------------------- */

static struct fixture_context own; /* 1, READY */

static int set_up_context(void **state)
{
    const int rc = set_up(state);
    fixture_open_ready(&f, &own, 1);
    return rc;
}

static int tear_down_context(void **state)
{
    fixture_close(&own);
    return tear_down(state);
}

#define OWN_TEST(name) TEST_WITHIN(name, set_up_context, tear_down_context)

static void expect_lost(const char *reason)
{
    fixture_expect_lost(&own, reason);
    /* And fences complete. */
    fixture_fence(&own, 5, 77);
    fixture_wait_timeline(&own, 5, 77);
}

OWN_TEST(ring_comes_first_and_once)
{
    static const uint64_t early[] = {1, 16, 1ull << 32, UINT64_MAX};
    struct fixture_context bare;
    fixture_open(&f, &bare, 2);
    for (size_t i = 0; i < sizeof(early) / sizeof(early[0]); i++)
        assert_int_equal(fixture_create_blob(&bare, 1, early[i], APIR_RING_SIZE), -1);
    fixture_close(&bare);
    assert_int_equal(fixture_create_blob(&own, 2, APIR_RING_BLOB_ID, APIR_RING_SIZE), -1);
    assert_int_equal(fixture_create_blob(&own, 1, 1, 65536), -1); /* the ring's resource id */
    fixture_expect_alive(&own);
}

OWN_TEST(imported_descriptors_are_closed)
{
    size_t before = fixture_count_fds(&f);
    for (uint32_t i = 0; i < 100; i++) {
        const struct render_context_import_resource req = {
            .op = RENDER_CONTEXT_IMPORT_RESOURCE,
            .res_id = 1000 + i,
            .size = 4096,
        };
        fixture_send(own.fd, &req, sizeof(req), (const int[]){0}, 1);
        fixture_destroy_resource(&own, 1000 + i);
    }
    fixture_expect_alive(&own);
    fixture_expect_fds(&f, before);
}

OWN_TEST(destroyed_ring_loses_the_context)
{
    fixture_destroy_resource(&own, 1);
    expect_lost("destroyed its ring");
    assert_int_equal(fixture_create_blob(&own, 3, 0, APIR_RING_SIZE), -1);
}

OWN_TEST(fence_without_timeline_loses_the_context)
{
    struct fixture_context bare = {.fd = fixture_create_context(&f, 2, APIR_CONTEXT_NAME)};
    fixture_fence(&bare, 0, 1);
    fixture_open_ring(&bare, false);
    assert_int_equal(bare.ring->state, APIR_STATE_LOST);
    munmap(bare.ring, APIR_RING_HEADER_SIZE);
    close(bare.fd);
    fixture_fence(&own, 64, 1);
    expect_lost("protocol violation");
}
