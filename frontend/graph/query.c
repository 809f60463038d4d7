/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/graph/query.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/graph/encode.h"
#include "frontend/plugin/plugin.h"
#include "protocol/hash.h"

#define QUERY_ENTRIES 8192u

struct query_entry {
    uint64_t hash;
    uint32_t key_size;
    uint8_t *key; /* owned; NULL: free */
    struct apir_reply_op_query answer;
};

struct query_cache {
    struct query_entry *entries; /* QUERY_ENTRIES, made on first use */
    uint32_t used;
};

static struct query_cache caches[APIR_DEVICES_MAX]; /* as plugin.devices */
static struct os_lock query_lock;                   /* guards the caches and the scratch */
static struct graph_scratch query_scratch;

static struct query_entry *cache_find(struct query_cache *cache, uint64_t hash, const void *key,
                                      uint32_t size)
{
    uint32_t i = (uint32_t)hash & (QUERY_ENTRIES - 1);
    while (cache->entries[i].key) {
        struct query_entry *q = &cache->entries[i];
        if (q->hash == hash && q->key_size == size && memcmp(q->key, key, size) == 0)
            return q;
        i = (i + 1) & (QUERY_ENTRIES - 1);
    }
    return &cache->entries[i];
}

static void cache_clear(struct query_cache *cache)
{
    for (uint32_t i = 0; i < QUERY_ENTRIES; i++)
        free(cache->entries[i].key);
    memset(cache->entries, 0, QUERY_ENTRIES * sizeof(*cache->entries));
    cache->used = 0;
}

static int ask(struct plugin_device *d, struct apir_reply_op_query *ret_answer)
{
    struct client *c = &plugin.client;
    struct apir_msg msg = {.code = APIR_MSG_OP_QUERY};
    client_lock(c);
    /* The place first: whoever has a block says when it is free before the lock goes. */
    int place = client_reply_get_locked(c);
    struct client_block *b = place >= 0 ? client_block_locked(c, query_scratch.out_size) : NULL;
    uint64_t pos = 0;
    if (b) {
        memcpy(client_block_data(c, b), query_scratch.out, query_scratch.out_size);
        msg.u.op_query = (struct apir_msg_op_query){
            .device = d->index,
            .blob = APIR_ARENA_BLOB_ID,
            .blob_offset = b->offset,
            .size = query_scratch.out_size,
            .reply = client_reply_offset(place),
        };
        b->until = pos = client_put_locked(c, &msg);
        client_flush_locked(c);
    } else if (place >= 0) {
        client_reply_put_locked(c, place);
    }
    client_unlock(c);
    if (!b && client_usable(c))
        return -ENOMEM;
    if (!pos || client_wait(c, pos, 0) < 0)
        return -ENODEV;
    memcpy(ret_answer, c->replies + client_reply_offset(place), sizeof(*ret_answer));
    client_lock(c);
    client_reply_put_locked(c, place);
    client_unlock(c);
    return 0;
}

/*
 * All that an answer depends on, as it lies in the tensors: to make and compare this
 * takes a tenth of what encoding takes, and ggml asks several times per node whenever
 * a graph changes.
 */
#define KEY_OWN (sizeof(((struct gg_tensor *)0)->ne) + sizeof(((struct gg_tensor *)0)->nb))
#define KEY_OP  (offsetof(struct gg_tensor, flags) - offsetof(struct gg_tensor, ne))
#define KEY_MAX (8 + KEY_OP + 10 * (8 + KEY_OWN))

static uint32_t key_make(uint8_t *key, const struct gg_tensor *op)
{
    uint8_t *p = key;
    memcpy(p, &op->type, sizeof(op->type));
    p += sizeof(op->type);
    memcpy(p, op->ne, KEY_OP); /* ne, nb, op, op_params: they follow each other */
    p += KEY_OP;
    for (int32_t i = 0; i < 10; i++) {
        const struct gg_tensor *src = op->src[i];
        if (!src)
            continue;
        memcpy(p, &i, sizeof(i));
        memcpy(p + 4, &src->type, sizeof(src->type));
        memcpy(p + 8, src->ne, KEY_OWN);
        p += 8 + KEY_OWN;
    }
    return (uint32_t)(p - key);
}

int query_op(struct plugin_device *d, const struct gg_tensor *op,
             struct apir_reply_op_query *ret_answer)
{
    /* After a loss the answers of before still hold; a forked child has no lock
     * that it could trust. */
    if (client_forked(&plugin.client))
        return -ENODEV;
    os_lock_acquire(&query_lock);
    struct query_cache *cache = &caches[d - plugin.devices];
    int rc = 0;
    if (!cache->entries) {
        cache->entries = calloc(QUERY_ENTRIES, sizeof(*cache->entries));
        rc = cache->entries ? 0 : -ENOMEM;
    }
    if (!rc) {
        uint8_t made[KEY_MAX];
        uint32_t size = key_make(made, op);
        uint64_t hash = apir_hash(made, size);
        struct query_entry *q = cache_find(cache, hash, made, size);
        if (!q->key) {
            rc = graph_encode_op(&query_scratch, op);
            if (!rc)
                rc = ask(d, &q->answer);
            uint8_t *key = rc ? NULL : malloc(size);
            *ret_answer = q->answer;
            if (key) {
                memcpy(key, made, size);
                q->key = key;
                q->key_size = size;
                q->hash = hash;
                /* At three quarters start afresh: a bound without a second structure. */
                if (++cache->used > QUERY_ENTRIES / 4 * 3)
                    cache_clear(cache);
            }
        } else {
            *ret_answer = q->answer;
        }
    }
    os_lock_release(&query_lock);
    return rc;
}
