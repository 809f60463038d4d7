/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/link/shared.h"

#include <errno.h>
#include <sys/mman.h>

#include "frontend/link/ask.h"

#define FIRST_ID 2u /* 0: ring, 1: arena */

/* Bytes that all of this process's shared memory may take: the host's limit for a
 * context, and what there is of the window. */
static uint64_t room(const struct client *c)
{
    uint64_t own = APIR_RING_SIZE + c->arena_size;
    uint64_t limit = c->hello.shm_limit;
    if (c->transport.window && (!limit || c->transport.window < limit))
        limit = c->transport.window;
    return limit > own ? limit - own : 0;
}

/* A free id with a claim on the room, or NULL. */
static struct client_shared *claim(struct client *c, uint64_t size, uint32_t share)
{
    uint64_t limit = room(c) / share;
    struct client_shared *found = NULL;
    client_lock(c);
    if (size <= limit && c->shared_size <= limit - size) {
        for (uint32_t i = FIRST_ID; !found && i < APIR_BLOBS_MAX; i++) {
            if (c->shared[i].id == 0)
                found = &c->shared[i];
        }
    }
    if (found) {
        found->id = (uint32_t)(found - c->shared);
        c->shared_size += size;
    }
    client_unlock(c);
    return found;
}

static void unclaim(struct client *c, struct client_shared *s, uint64_t size)
{
    client_lock(c);
    c->shared_size -= size;
    *s = (struct client_shared){0};
    client_unlock(c);
}

struct client_shared *client_shared_new(struct client *c, uint64_t size, uint32_t share)
{
    if (size == 0 || size > APIR_BLOB_SIZE_MAX || !client_usable(c))
        return NULL;
    size = (size + APIR_SHM_ALIGN - 1) & ~(uint64_t)(APIR_SHM_ALIGN - 1);
    struct client_shared *s = claim(c, size, share);
    if (!s)
        return NULL;
    struct transport_blob blob = {0};
    os_lock_acquire(&c->bell_lock);
    int rc =
        c->transport.fd < 0 ? -ENODEV : c->transport.blob_create(&c->transport, s->id, size, &blob);
    os_lock_release(&c->bell_lock);
    if (rc) {
        /* Not a refusal but half an answer: nothing that follows would be understood. */
        if (rc == -EAGAIN || rc == -EPIPE || rc == -EPROTO)
            client_lose(c, "it does not answer a request for memory");
        unclaim(c, s, size);
        return NULL;
    }
    madvise(blob.map, size, MADV_DONTFORK);
    client_lock(c);
    s->blob = blob;
    client_unlock(c);
    return s;
}

void client_shared_free(struct client *c, struct client_shared *s)
{
    uint64_t size = s->blob.size;
    struct apir_msg msg = {.code = APIR_MSG_BLOB_FORGET, .u.blob_forget = {s->id}};
    bool usable = client_usable(c);
    if (usable) {
        client_lock(c);
        uint64_t pos = client_put_locked(c, &msg);
        client_flush_locked(c);
        client_unlock(c);
        /* Only then may the id name another blob: the host looks them up by it. */
        usable = pos && client_wait(c, pos, 0) == 0;
    }
    client_lock(c);
    struct transport_blob blob = s->blob;
    s->blob.map = NULL;
    client_unlock(c);
    os_lock_acquire(&c->bell_lock);
    if (c->transport.fd >= 0)
        c->transport.blob_destroy(&c->transport, &blob);
    else
        munmap(blob.map, blob.size);
    os_lock_release(&c->bell_lock);
    if (usable)
        unclaim(c, s, size);
}

void client_shared_register(struct client *c, struct client_shared *s, uint32_t device)
{
    struct apir_msg msg = {
        .code = APIR_MSG_BLOB_REGISTER,
        .u.blob_register = {.blob = s->id, .device = device},
    };
    struct apir_reply_blob answer = {0};
    if (client_call(c, &msg, &msg.u.blob_register.reply, &answer, sizeof(answer)) == 0)
        s->direct = (answer.flags & APIR_BLOB_DIRECT) != 0;
}

struct client_shared *client_shared_find_locked(struct client *c, const void *data, uint64_t size)
{
    for (uint32_t i = FIRST_ID; c->shared_size && i < APIR_BLOBS_MAX; i++) {
        struct client_shared *s = &c->shared[i];
        uint64_t at = client_shared_offset(s, data);
        if (s->blob.map && at < s->blob.size && size <= s->blob.size - at)
            return s;
    }
    return NULL;
}
