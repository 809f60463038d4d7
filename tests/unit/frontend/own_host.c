/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/frontend/own_host.h"

#include "frontend/plugin/buffer.h"
#include "tests/lib/unit.h"

uint8_t own_host_arena[OWN_HOST_ARENA], own_host_replies[APIR_REPLY_SIZE];

void own_host_begin(void)
{
    plugin.client.arena = own_host_arena;
    plugin.client.replies = own_host_replies;
}

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

int client_ask(struct client *c, const struct client_question *q)
{
    const uint64_t out_at = (q->size + 63) & ~UINT64_C(63);
    assert_true(out_at + q->out_size <= OWN_HOST_ARENA);
    memcpy(own_host_arena, q->payload, q->size);
    *q->offset = 0;
    *q->reply = 0;
    if (q->out)
        *q->out_offset = out_at;
    client_put_locked(c, q->msg);
    memcpy(q->answer, own_host_replies, q->answer_size);
    if (q->out)
        memcpy(q->out, own_host_arena + out_at, q->out_size);
    return 0;
}
