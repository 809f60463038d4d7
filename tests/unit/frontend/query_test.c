/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plug-in knows of the host's answers. ggml asks more than once while it makes room for a
 * graph, and ends the program where an answer has changed in between; the host is the test's own,
 * and never answers twice the same.
 */
#include "tests/lib/unit.h"

#include "frontend/graph/query.h"
#include "tests/unit/frontend/own_host.h"

static uint32_t asked;
static struct plugin_device *const device = &plugin.devices[0];

uint64_t client_put_locked(struct client *c, const struct apir_msg *msg)
{
    (void)c;
    const struct apir_reply_op_query r = {.alloc_size = ++asked};
    memcpy(own_host_replies + msg->u.op_query.reply, &r, sizeof(r));
    return 1;
}

static const char *op_name(int op)
{
    (void)op;
    return "NONE";
}

static int blck_size(int type)
{
    (void)type;
    return 1;
}

static uint64_t answer_for(int64_t n)
{
    const struct gg_tensor t = {.ne = {n, 1, 1, 1}, .nb = {4, 4, 4, 4}};
    struct apir_reply_op_query answer;
    assert_int_equal(query_op(device, &t, &answer), 0);
    return answer.alloc_size;
}

static int setup(void **state)
{
    plugin.op_name = op_name;
    plugin.blck_size = blck_size;
    own_host_begin();
    return unit_setup(state);
}

/* However many others there are: what is asked for again and again is what it was. */
TEST_WITHIN(an_answer_in_use_does_not_change, setup, unit_teardown)
{
    enum { OTHERS = 40000, OFTEN = 1000 };
    const uint64_t first = answer_for(1);
    for (int64_t i = 0; i < OTHERS; i++) {
        const uint64_t other = answer_for(2 + i);
        assert_true(answer_for(2 + i) == other);
        if (i % OFTEN == 0)
            assert_true(answer_for(1) == first);
    }
    /* And no more of them are kept than there is room for. */
    assert_true(answer_for(2) > OTHERS);
}
