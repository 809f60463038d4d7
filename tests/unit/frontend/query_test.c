/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plug-in knows of the host's answers. ggml asks more than once while it makes room for a
 * graph, and ends the program where an answer has changed in between; the host is the test's own,
 * and never answers twice the same.
 */
#include "tests/lib/unit.h"

#include "frontend/graph/query.h"
#include "frontend/plugin/buffer.h"

#define ROOM (1u << 16)

static uint8_t arena[ROOM], replies[APIR_REPLY_SIZE];
static struct client_block block = {.size = ROOM};
static uint32_t asked;
static struct plugin_device *const device = &plugin.devices[0];

struct plugin_buffer *plugin_buffer_of(const struct gg_tensor *t)
{
    (void)t;
    return NULL;
}
bool client_forked(struct client *c)
{
    (void)c;
    return false;
}
bool client_usable(struct client *c)
{
    (void)c;
    return true;
}
void client_lock(struct client *c)
{
    (void)c;
}
void client_unlock(struct client *c)
{
    (void)c;
}
int client_reply_get_locked(struct client *c)
{
    (void)c;
    return 0;
}
void client_reply_put_locked(struct client *c, int index)
{
    (void)c;
    (void)index;
}
struct client_block *client_block_locked(struct client *c, uint64_t size)
{
    (void)c;
    assert_true(size <= ROOM);
    return &block;
}
void client_flush_locked(struct client *c)
{
    (void)c;
}
int client_wait(struct client *c, uint64_t pos, uint64_t expect_ns)
{
    (void)c;
    (void)pos;
    (void)expect_ns;
    return 0;
}
uint64_t client_put_locked(struct client *c, const struct apir_msg *msg)
{
    (void)c;
    const struct apir_reply_op_query r = {.alloc_size = ++asked};
    memcpy(replies + msg->u.op_query.reply, &r, sizeof(r));
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
    plugin.client.arena = arena;
    plugin.client.replies = replies;
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
