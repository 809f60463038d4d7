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

/* ggml asks several times about a tensor while it makes room for it, and ends the program where the
 * answer has changed. So what is still asked about is kept; what no one asks about while so many
 * other questions come is forgotten. */
struct query_cache {
    struct query_entry *entries; /* QUERY_ENTRIES, made on first use */
    struct query_entry *older;   /* the same, of before */
    uint32_t used;               /* of entries */
};

static struct query_cache caches[APIR_DEVICES_MAX]; /* as plugin.devices */
static struct os_lock query_lock;                   /* guards the caches and the scratch */
static struct graph_scratch query_scratch;

/* The entry of this key, or the free one for it. */
static struct query_entry *entry_find(struct query_entry *entries, uint64_t hash, const void *key,
                                      uint32_t size)
{
    uint32_t i = (uint32_t)hash & (QUERY_ENTRIES - 1);
    while (entries[i].key) {
        struct query_entry *q = &entries[i];
        if (q->hash == hash && q->key_size == size && memcmp(q->key, key, size) == 0)
            return q;
        i = (i + 1) & (QUERY_ENTRIES - 1);
    }
    return &entries[i];
}

static int cache_make(struct query_cache *cache)
{
    if (cache->entries)
        return 0;
    cache->entries = calloc(2 * QUERY_ENTRIES, sizeof(*cache->entries));
    cache->older = cache->entries ? cache->entries + QUERY_ENTRIES : NULL;
    return cache->entries ? 0 : -ENOMEM;
}

/* Forgets the older half of what is known, and the newer one becomes the older: so all of it is
 * bounded. */
static void cache_turn(struct query_cache *cache)
{
    struct query_entry *oldest = cache->older;
    for (uint32_t i = 0; i < QUERY_ENTRIES; i++)
        free(oldest[i].key);
    memset(oldest, 0, QUERY_ENTRIES * sizeof(*oldest));
    cache->older = cache->entries;
    cache->entries = oldest;
    cache->used = 0;
}

/* Keeps it, if there is memory. */
static void cache_keep(struct query_cache *cache, uint64_t hash, const void *key, uint32_t size,
                       const struct apir_reply_op_query *answer)
{
    uint8_t *own = malloc(size);
    if (!own)
        return;
    memcpy(own, key, size);
    if (cache->used == QUERY_ENTRIES / 4 * 3)
        cache_turn(cache);
    cache->used++;
    *entry_find(cache->entries, hash, key, size) =
        (struct query_entry){.hash = hash, .key_size = size, .key = own, .answer = *answer};
}

static int ask(struct plugin_device *d, struct apir_reply_op_query *ret_answer)
{
    struct apir_msg msg = {.code = APIR_MSG_OP_QUERY};
    struct apir_msg_op_query *m = &msg.u.op_query;
    *m = (struct apir_msg_op_query){
        .device = d->index, .blob = APIR_ARENA_BLOB_ID, .size = query_scratch.out_size};
    return client_ask(&plugin.client, &(struct client_question){
                                          .msg = &msg,
                                          .reply = &m->reply,
                                          .answer = ret_answer,
                                          .answer_size = sizeof(*ret_answer),
                                          .payload = query_scratch.out,
                                          .size = m->size,
                                          .offset = &m->blob_offset,
                                      });
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
    int rc = cache_make(cache);
    if (!rc) {
        uint8_t key[KEY_MAX];
        const uint32_t size = key_make(key, op);
        const uint64_t hash = apir_hash(key, size);
        const struct query_entry *q = entry_find(cache->entries, hash, key, size);
        const bool is_new = !q->key;
        if (is_new)
            q = entry_find(cache->older, hash, key, size);
        *ret_answer = q->answer; /* zeros, if it is not there either */
        if (!q->key) {
            rc = graph_encode_op(&query_scratch, op);
            if (!rc)
                rc = ask(d, ret_answer);
        }
        if (!rc && is_new)
            cache_keep(cache, hash, key, size, ret_answer);
    }
    os_lock_release(&query_lock);
    return rc;
}
