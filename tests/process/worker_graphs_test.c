/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker makes of graphs of honest guests: nodes that are not to be computed, failures and
 * what it says of them, copies between streams. The guest is the test (worker_guest.h).
 */
#include "tests/lib/graph_write.h"
#include "tests/lib/worker_guest.h"

enum { TABLE, IDS, ROWS, N_TENSORS };
enum { WIDTH = 4, TABLE_ROWS = 8, IDS_AT = 4096, RESULT_AT = 8192 };

/* GET_ROWS 'picked' of one row in slot 0; the node has these flags, as the graph has. */
static void put_pick(struct guest *g, uint32_t graph_flags, uint8_t node_flags)
{
    static struct apir_name names[] = {{APIR_NAME_OP, "GET_ROWS"}};
    struct apir_graph_buffer buffers[] = {{1, 2}};
    struct apir_tensor t[N_TENSORS];
    t[TABLE] = tensor_at(0, APIR_NO_NAME, 0, 0, WIDTH, TABLE_ROWS, 4);
    t[IDS] = tensor_at(0, APIR_NO_NAME, 26, IDS_AT, 1, 1, 4);
    t[ROWS] = node_at(0, "picked", RESULT_AT, WIDTH, 1, TABLE, IDS);
    t[ROWS].flags = node_flags;
    struct apir_graph graph = GRAPH(names, buffers, t, 1);
    graph.flags = graph_flags;
    put_graph(g, 0, &graph);
}

static void put_id(struct guest *g, int32_t id)
{
    memcpy(guest_bytes(g, 1), &id, sizeof(id));
    put_transfer(g, APIR_MSG_SET, 0, 1, IDS_AT, sizeof(id), 1, 0);
    assert_true(guest_run(g));
}

/* Opens a stream; returns its status place. */
static const struct apir_stream_status *stream_with_status(struct guest *g, uint32_t stream)
{
    const uint32_t status = guest_reply(g), reply = guest_reply(g);
    memset((void *)(uintptr_t)guest_reply_at(g, status), 0, sizeof(struct apir_stream_status));
    guest_put(g, &(struct apir_msg){
                     .code = APIR_MSG_STREAM_OPEN,
                     .u.stream_open = {.stream = stream, .status = status, .reply = reply}});
    assert_true(guest_run(g));
    return guest_reply_at(g, status);
}

/* The stream of graphs, and buffer 1. */
static const struct apir_stream_status *open_with_status(struct guest *g)
{
    const struct apir_stream_status *status = stream_with_status(g, STREAM);
    guest_alloc(g, 1, SMALL);
    return status;
}

/* Executes the graph in slot 0: the stream has failed of that, and says why (a part of it). */
static void exec_fails(struct guest *g, const struct apir_stream_status *status, uint32_t failed,
                       const char *why)
{
    put_exec(g, 0);
    assert_true(guest_run(g));
    assert_int_equal(status->failed, failed);
    if (!strstr(status->why, why))
        fail_msg("not %s: %s", why, status->why);
}

/* llama.cpp has SET_ROWS in its graphs whose row numbers nobody has written. */
GUEST_TEST(a_node_that_is_not_computed_may_have_any_row_number)
{
    const struct apir_stream_status *status = open_with_status(g);
    put_id(g, 123456);
    put_pick(g, APIR_GRAPH_COMPUTE_FLAG, 0);
    put_exec(g, 0);
    assert_true(guest_run(g));
    assert_int_equal(status->failed, APIR_OK);
    /* Computed, it is checked; the bit of the graph says whose word counts. */
    put_id(g, 0);
    put_pick(g, APIR_GRAPH_COMPUTE_FLAG, APIR_TENSOR_FLAG_COMPUTE);
    put_exec(g, 0);
    put_pick(g, 0, 0);
    put_exec(g, 0);
    assert_true(guest_run(g));
    assert_int_equal(status->failed, APIR_OK);
    expect_alive(g);
}

GUEST_TEST(a_graph_that_fails_says_which_node_and_why)
{
    if (!guest_is_cpu())
        return; /* rows are checked where a bad one would hurt: in memory of the CPU */
    static const struct {
        uint32_t graph, node;
    } flags[] = {{APIR_GRAPH_COMPUTE_FLAG, APIR_TENSOR_FLAG_COMPUTE}, {0, 0}};
    static const char why[] = "GET_ROWS 'picked': row 8 is asked for, of 8";
    const struct apir_stream_status *status = open_with_status(g);
    for (size_t i = 0; i < 2; i++) {
        put_id(g, TABLE_ROWS);
        put_pick(g, flags[i].graph, (uint8_t)flags[i].node);
        exec_fails(g, status, APIR_E_FAILED, why);
        assert_string_equal(status->why, why);
        put_id(g, TABLE_ROWS - 1);
        put_exec(g, 0);
        expect_alive(g);
        put_stream(g, APIR_MSG_STREAM_CLOSE, STREAM);
        status = stream_with_status(g, STREAM);
    }
}

/* One that this host cannot compute is refused by name, each time that it is to be executed. */
GUEST_TEST(a_graph_that_is_unknown_says_which_node_and_why)
{
    static struct apir_name names[] = {{APIR_NAME_OP, "UNARY"},
                                       {APIR_NAME_UNARY, "NEVER_HEARD_OF"}};
    struct apir_graph_buffer buffers[] = {{1, 2}};
    struct apir_tensor t[2];
    const struct apir_stream_status *status = open_with_status(g);
    t[0] = tensor_at(0, APIR_NO_NAME, 0, 0, WIDTH, 1, 4);
    t[1] = node_at(0, "gate", RESULT_AT, WIDTH, 1, 0, APIR_NO_TENSOR);
    t[1].sub = 1;
    put_graph(g, 0, &GRAPH(names, buffers, t, 1));
    for (int i = 0; i < 2; i++)
        exec_fails(g, status, APIR_E_UNSUPPORTED, "NEVER_HEARD_OF 'gate': ");
    expect_alive(g);
}

/* llama.cpp asks for ROPE that turns nothing, to know where its factors may lie. A CPU that
 * computed it would never end. */
GUEST_TEST(an_op_that_is_only_asked_about_is_not_computed)
{
    static struct apir_name names[] = {{APIR_NAME_OP, "ROPE"}};
    struct apir_graph_buffer buffers[] = {{1, 2}};
    struct apir_tensor t[3];
    if (!guest_is_cpu())
        return;
    const struct apir_stream_status *status = open_with_status(g);
    t[0] = tensor_at(0, APIR_NO_NAME, 0, 0, WIDTH, 1, 4);
    t[1] = tensor_at(0, APIR_NO_NAME, 26, IDS_AT, 1, 1, 4);
    t[2] = node_at(0, "turned", RESULT_AT, WIDTH, 1, 0, 1);
    struct apir_graph graph = GRAPH(names, buffers, t, 1);
    put_graph(g, 0, &graph);
    exec_fails(g, status, APIR_E_UNSUPPORTED, "ROPE 'turned': ");
    /* The question has no buffers. */
    graph.n_buffers = 0;
    for (int i = 0; i < 3; i++)
        t[i].bits &= (uint8_t)~APIR_TENSOR_BUFFER;
    const size_t size = guest_graph(g, &graph);
    const uint32_t reply = guest_reply(g);
    guest_put(
        g, &(struct apir_msg){
               .code = APIR_MSG_OP_QUERY,
               .u.op_query = {.blob = 1, .blob_offset = ARENA / 2, .size = size, .reply = reply}});
    expect_alive(g);
    const struct apir_reply_op_query *answer = guest_reply_at(g, reply);
    assert_int_equal(answer->status, APIR_OK);
    assert_true(answer->flags & APIR_OP_SUPPORTED);
}

/* ---- copies between streams ----------------------------------------------------------- */

enum { LARGE = 32 << 20 };

static void put_fill(struct guest *g, uint32_t buffer, uint8_t value)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_MEMSET,
                                    .u.memset = {.buffer = buffer, .size = LARGE, .value = value}});
}

/* What the source's stream does after a copy to another stream's buffer comes after it: also where
 * that stream has much to do before. */
GUEST_TEST(a_copy_reads_before_the_source_goes_on)
{
    enum { SOURCE = 1, RESULT, MORE, AND_MORE, OTHER = STREAM + 1 };
    stream_new(g, STREAM, 0);
    stream_new(g, OTHER, 0);
    for (uint32_t id = SOURCE; id <= AND_MORE; id++)
        guest_alloc(g, id, LARGE);
    for (uint8_t round = 1; round <= 4; round++) {
        put_fill(g, SOURCE, round);
        for (int i = 0; i < 8; i++)
            put_copy(g, OTHER, OTHER, i % 2 ? MORE : AND_MORE, i % 2 ? AND_MORE : MORE, LARGE);
        put_copy(g, STREAM, OTHER, SOURCE, RESULT, LARGE);
        /* Each in its own way: from main memory, and by the device. */
        guest_bytes(g, 1)[0] = 0x7f;
        put_transfer(g, APIR_MSG_SET, STREAM, SOURCE, LARGE - 1, 1, 1, 0);
        put_copy(g, STREAM, STREAM, MORE, SOURCE, LARGE);
        put_stream(g, APIR_MSG_STREAM_SYNC, OTHER);
        put_stream(g, APIR_MSG_STREAM_SYNC, STREAM);
        expect_bytes(g, RESULT, LARGE - SMALL, SMALL, round);
    }
    expect_alive(g);
}

/* What a failed graph was to compute is not taken for a result by way of another stream. */
GUEST_TEST(a_failure_goes_where_results_go)
{
    enum { COPIED, WAITED, UNTOUCHED, OTHERS, OTHER = STREAM + 1 };
    if (!guest_is_cpu())
        return;
    const struct apir_stream_status *status = open_with_status(g), *others[OTHERS];
    for (uint32_t i = 0; i < OTHERS; i++)
        others[i] = stream_with_status(g, OTHER + i);
    guest_alloc(g, 2, SMALL);
    put_id(g, TABLE_ROWS);
    put_pick(g, 0, 0);
    put_exec(g, 0);
    put_event(g, APIR_MSG_EVENT_RECORD, 3, STREAM);
    put_event(g, APIR_MSG_EVENT_WAIT, 3, OTHER + WAITED);
    put_copy(g, STREAM, OTHER + COPIED, 1, 2, 64);
    expect_alive(g);
    assert_int_equal(status->failed, APIR_E_FAILED);
    assert_int_equal(others[COPIED]->failed, APIR_E_FAILED);
    assert_string_equal(others[COPIED]->why, status->why);
    assert_int_equal(others[WAITED]->failed, APIR_E_FAILED);
    assert_int_equal(others[UNTOUCHED]->failed, APIR_OK);
}

/* A backend takes what is in another one's buffer for its own: it would read it as what it is not.
 */
GUEST_TEST(memory_of_another_device_is_refused)
{
    if (!guest_has_two_devices())
        return;
    const struct apir_stream_status *status = open_with_status(g);
    guest_alloc_on(g, 1, 2, SMALL);
    put_lookup(g, 0, 2, 1, IDS_AT, 1, RESULT_AT);
    put_exec(g, 0);
    expect_alive(g);
    assert_int_equal(status->failed, APIR_E_FAILED);
    assert_non_null(strstr(status->why, "another device"));
}

int main(int argc, char **argv)
{
    return guest_main(argc, argv, "worker_graphs");
}
