/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/frontend/own_host.h"

#include "frontend/plugin/buffer.h"
#include "tests/lib/unit.h"

uint8_t own_host_arena[OWN_HOST_ARENA], own_host_replies[APIR_REPLY_SIZE];
static struct client_block block = {.size = OWN_HOST_ARENA};

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
    assert_true(size <= OWN_HOST_ARENA);
    return &block;
}

void client_block_release(struct client_block *b)
{
    (void)b;
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
