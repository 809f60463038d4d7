/* SPDX-License-Identifier: Apache-2.0 */
/* Where classes take turns: a graph that takes long is computed in parts. ggml is the test's own,
 * and says which nodes it is given. */
#include "backend/worker/stream.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/worker/ggml/fns.h"
#include "tests/lib/clock.h"
#include "common/fdsock.h"
#include "tests/lib/unit.h"

enum { NONE, MUL_MAT, FLASH, ADD };
enum { N = 12, UID_AT = 88, MS = 1000 * 1000 };

static struct worker w;
static struct apir_worker_status status;
static struct apir_turn_page page;
static int server;

static struct gg_tensor tensors[N + 1]; /* the last is a weight */
static struct gg_tensor *nodes[N];
static union {
    struct gg_cgraph_head head;
    uint64_t bytes[12];
} cgraph;
static struct host_graph graph;

static struct {
    int first, n;
    uint64_t uid;
} parts[N];
static int n_parts, result;
static unsigned takes_ms;

static int compute(void *stream, void *g)
{
    const struct gg_cgraph_head *head = g;
    (void)stream;
    assert_true(status.turns_held);
    parts[n_parts].first = (int)(head->nodes - nodes);
    parts[n_parts].n = head->n_nodes;
    parts[n_parts++].uid = GG_AT(g, UID_AT, uint64_t);
    if (takes_ms)
        nap_us(takes_ms * 1000);
    return result;
}

static void synchronize(void *stream)
{
    (void)stream;
}

static struct host_ggml_fns fns = {.ggml_backend_graph_compute_async = compute,
                                   .ggml_backend_synchronize = synchronize};

/* Nodes 4 and 8 are attentions: a flash attention, and a product of what was computed. */
static int setup(void **state)
{
    static const uint8_t ops[N] = {ADD, MUL_MAT, ADD,     ADD, FLASH,   MUL_MAT,
                                   ADD, ADD,     MUL_MAT, ADD, MUL_MAT, ADD};
    int ends[2];
    if (unit_setup(state))
        return -1;
    memset(&w, 0, sizeof(w));
    memset(&status, 0, sizeof(status));
    memset(&page, 0, sizeof(page));
    memset(&cgraph, 0, sizeof(cgraph));
    memset(tensors, 0, sizeof(tensors));
    for (int i = 0; i < N; i++) {
        tensors[i].op = ops[i];
        tensors[i].src[0] = i == 8 ? &tensors[7] : &tensors[N];
        nodes[i] = &tensors[i];
    }
    cgraph.head = (struct gg_cgraph_head){.size = N, .n_nodes = N, .n_leafs = 1, .nodes = nodes};
    GG_AT(&cgraph, UID_AT, uint64_t) = 77;
    graph = (struct host_graph){.cgraph = &cgraph, .n_nodes = N, .elements = 1000};
    if (apir_fdsock_pair(false, &ends[0], &ends[1]) < 0)
        return -1;
    server = ends[0];
    w.control_fd = ends[1];
    w.status = &status;
    w.turns = &page;
    w.turn_bits[0] = 1;
    w.ggml.fns = &fns;
    w.ggml.layout.cgraph_uid = UID_AT;
    w.ggml.n_devices = 1;
    static const char *const names[] = {"NONE", "MUL_MAT", "FLASH_ATTN_EXT", "ADD"};
    memcpy(w.ggml.ops.name, names, sizeof(names));
    w.streams[1].host = &w;
    page.state[0] = APIR_TURN_OPEN | APIR_TURN_TELL;
    n_parts = result = 0;
    takes_ms = 0;
    return 0;
}

static int teardown(void **state)
{
    close(server);
    close(w.control_fd);
    return unit_teardown(state);
}

#define PARTS_TEST(name) TEST_WITHIN(name, setup, teardown)

/* How often the server was told that something has changed. */
static int told(void)
{
    struct apir_ask ask;
    int n = 0;
    size_t size = 0;
    while (apir_fdsock_recv(server, &ask, sizeof(ask), &size, NULL, 0, NULL, 0) == 0) {
        assert_int_equal(size, sizeof(ask));
        assert_int_equal(ask.op, APIR_ASK_MOVED);
        n++;
    }
    return n;
}

static void is_known_to_take(uint64_t node_ns)
{
    w.streams[1].long_elements = 1000;
    w.streams[1].node_ns = node_ns;
}

static void compute_it(void)
{
    n_parts = 0;
    assert_int_equal(worker_stream_compute(&w, &w.streams[1], &graph), result);
}

PARTS_TEST(one_that_is_not_known_to_take_long_is_whole)
{
    compute_it();
    assert_int_equal(n_parts, 1);
    assert_int_equal(parts[0].n, N);
    assert_int_equal(parts[0].uid, 77);
    assert_int_equal(told(), 1);
    is_known_to_take(100 * MS);
    graph.elements = 999; /* a smaller one */
    compute_it();
    assert_int_equal(n_parts, 1);
}

PARTS_TEST(one_that_takes_long_is_left_before_each_attention)
{
    is_known_to_take(2 * MS);
    compute_it();
    assert_int_equal(n_parts, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(parts[i].first, 4 * i);
        assert_int_equal(parts[i].n, 4);
        assert_int_equal(parts[i].uid, 0);
    }
    /* It is as it was, and others had the turn after each part. */
    assert_ptr_equal(cgraph.head.nodes, nodes);
    assert_int_equal(cgraph.head.n_nodes, N);
    assert_int_equal(cgraph.head.n_leafs, 1);
    assert_int_equal(GG_AT(&cgraph, UID_AT, uint64_t), 77);
    assert_int_equal(told(), 3);
    assert_int_equal(status.turns_held, 0);
    assert_int_equal(status.turns_wanted, 0);
}

PARTS_TEST(a_part_is_as_long_as_a_turn)
{
    is_known_to_take(MS); /* more than four nodes, and then before the next attention */
    compute_it();
    assert_int_equal(n_parts, 2);
    assert_int_equal(parts[0].n, 8);
    assert_int_equal(parts[1].n, 4);
}

PARTS_TEST(where_nobody_waits_the_server_is_told_nothing)
{
    page.state[0] = APIR_TURN_OPEN;
    is_known_to_take(100 * MS);
    compute_it();
    assert_int_equal(n_parts, 3);
    assert_int_equal(told(), 0);
}

PARTS_TEST(where_no_class_takes_turns_it_is_whole)
{
    w.turn_bits[0] = 0;
    is_known_to_take(100 * MS);
    status.turns_held = 1; /* for compute() */
    compute_it();
    assert_int_equal(n_parts, 1);
}

PARTS_TEST(a_part_that_fails_is_the_last)
{
    is_known_to_take(100 * MS);
    result = GG_STATUS_FAILED;
    compute_it();
    assert_int_equal(n_parts, 1);
    assert_int_equal(parts[0].n, 4);
    assert_int_equal(status.turns_held, 0);
    assert_int_equal(status.turns_wanted, 0);
    assert_ptr_equal(cgraph.head.nodes, nodes);
}

PARTS_TEST(what_takes_long_is_seen_once)
{
    takes_ms = 12;
    compute_it();
    assert_int_equal(n_parts, 1);
    assert_int_equal(w.streams[1].long_elements, 1000);
    compute_it();
    assert_int_equal(n_parts, 3);
    /* The time of all parts is one graph's. */
    assert_true(status.counts.longest_ns >= 36 * MS);
}

PARTS_TEST(what_took_long_once_is_not_cut_small_for_ever)
{
    is_known_to_take(100 * MS); /* a driver compiled its shaders */
    takes_ms = 2;               /* three parts: 6 ms, which is neither long nor short */
    int tries = 0;
    do
        compute_it();
    while (n_parts == 3 && ++tries < 50);
    assert_int_equal(n_parts, 2);
}

PARTS_TEST(a_server_that_is_gone_ends_it)
{
    is_known_to_take(100 * MS);
    page.state[0] = 0;
    shutdown(server, SHUT_RDWR);
    assert_int_equal(worker_stream_compute(&w, &w.streams[1], &graph), GG_STATUS_FAILED);
    assert_int_equal(n_parts, 0);
    assert_true(w.control_err < 0);
}

int main(void)
{
    return unit_run("worker_parts_test");
}
