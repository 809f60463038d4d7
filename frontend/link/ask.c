/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/link/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/text.h"
#include "frontend/link/arena.h"
#include "protocol/atomic.h"

#define CALL_NS 200000u /* to be expected of a call, as of a driver's: we look for 500 us */
#define NAP_NS  20000u  /* while all reply places are taken */

/*
 * A reply place for one call, cleared to zero: its index, or -1: lost. Waits for one where all are
 * taken, and lets the lock go meanwhile.
 */
static int place_get_locked(struct client *c)
{
    while (~c->calls == 0) {
        if (!client_usable(c))
            return -1;
        /* 64 threads wait for their answers: each takes microseconds. */
        client_unlock(c);
        os_sleep_ns(NAP_NS);
        client_lock(c);
    }
    int i = __builtin_ctzll(~c->calls);
    c->calls |= UINT64_C(1) << i;
    memset(c->replies + (size_t)i * APIR_REPLY_SIZE, 0, APIR_REPLY_SIZE);
    return i;
}

static void place_put(struct client *c, int place)
{
    client_lock(c);
    c->calls &= ~(UINT64_C(1) << place);
    client_unlock(c);
}

/* Puts it on the ring, with its payload in a block, held where bytes come back into it. Returns the
 * position, or 0: lost, or no block. */
static uint64_t question_put_locked(struct client *c, const struct client_question *q, int place,
                                    struct client_block **ret_block)
{
    const uint64_t out_at = (q->size + 63) & ~UINT64_C(63);
    struct client_block *b = NULL;
    *q->reply = (uint32_t)place * APIR_REPLY_SIZE;
    if (q->payload) {
        b = client_block_locked(c, out_at + q->out_size);
        if (!b)
            return 0;
        memcpy(client_block_data(c, b), q->payload, q->size);
        *q->offset = b->offset;
        if (q->out)
            *q->out_offset = b->offset + out_at;
        b->held = q->out ? 1 : 0;
    }
    const uint64_t pos = client_put_locked(c, q->msg);
    if (b)
        b->until = pos;
    client_flush_locked(c);
    *ret_block = b;
    return pos;
}

int client_ask(struct client *c, const struct client_question *q)
{
    struct client_block *b = NULL;
    if (!client_usable(c))
        return -ENODEV;
    client_lock(c);
    /* The place first: whoever has a block says when it is free before the lock goes. */
    const int place = place_get_locked(c);
    const uint64_t pos = place < 0 ? 0 : question_put_locked(c, q, place, &b);
    client_unlock(c);
    int rc = pos                ? client_wait(c, pos, q->payload ? 0 : CALL_NS)
             : client_usable(c) ? -ENOMEM
                                : -ENODEV;
    if (!rc) {
        memcpy(q->answer, c->replies + (size_t)place * APIR_REPLY_SIZE, q->answer_size);
        if (q->out)
            memcpy(q->out, c->arena + *q->out_offset, q->out_size);
    }
    if (b)
        client_block_release(b);
    /* After a loss the place is not given out again: the host might still write. */
    if (rc != -ENODEV)
        place_put(c, place);
    return rc;
}

int client_call(struct client *c, struct apir_msg *msg, uint32_t *reply_field, void *answer,
                size_t size)
{
    return client_ask(c,
                      &(struct client_question){
                          .msg = msg, .reply = reply_field, .answer = answer, .answer_size = size});
}

uint64_t client_send(struct client *c, const struct apir_msg *msg)
{
    client_lock(c);
    const uint64_t pos = client_put_locked(c, msg);
    client_unlock(c);
    return pos;
}

/* ---- connecting --------------------------------------------------------------- */

static int map_private(struct client *c)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    /* Without WIPEONFORK (Linux before 4.14) a child would touch unmapped memory. */
    if (madvise(page, 4096, MADV_WIPEONFORK) < 0) {
        int rc = -errno;
        munmap(page, 4096);
        return rc;
    }
    c->alive = page;
    apir_store_release32(c->alive, 1);
    return 0;
}

/* Of ENOSPC it is the guest's kernel that speaks, which hands out the window. */
static bool window_full(const struct client *c, int rc, uint32_t mib, struct apir_error *err)
{
    if (rc != -ENOSPC || c->transport.hint)
        return false;
    apir_error_set(err, ENOSPC,
                   "%s: no room for %u MiB in the host-visible window: the VM needs a larger one "
                   "(QEMU: hostmem=), or fewer programs at once",
                   c->transport.where, mib);
    return true;
}

static int map_shared(struct client *c, struct apir_error *err)
{
    struct transport_blob blob = {0};
    int rc = c->transport.blob_create(&c->transport, APIR_RING_BLOB_ID, APIR_RING_SIZE, &blob);
    if (rc == -EDQUOT)
        return apir_error_set(err, EDQUOT,
                              "%s: programs of this class have all the shared memory that the host "
                              "allows (class_shm_mib)",
                              c->transport.where);
    if (window_full(c, rc, APIR_RING_SIZE >> 20, err))
        return rc;
    if (rc)
        return apir_error_set(err, -rc, "%s: the host gives no shared memory (%s); %s",
                              c->transport.where, strerror(-rc),
                              c->transport.hint ? c->transport.hint
                                                : "is its RENDER_SERVER_EXEC_PATH "
                                                  "apir-render-server, and does that still run?");
    void *ring = blob.map;
    madvise(ring, APIR_RING_SIZE, MADV_DONTFORK);
    rc = apir_ring_guest_init(&c->ring, ring, APIR_RING_SIZE);
    if (rc == -ENODEV)
        return apir_error_set(err, ENOTSUP,
                              "%s: the host has no apir support; set RENDER_SERVER_EXEC_PATH of "
                              "the VMM to apir-render-server",
                              c->transport.where);
    if (rc)
        return apir_error_set(err, EPROTO, "%s: the host's ring has another layout",
                              c->transport.where);
    c->replies = (uint8_t *)ring + APIR_RING_HEADER_SIZE;
    c->arena_size = CLIENT_ARENA_SIZE;
    rc = c->transport.blob_create(&c->transport, 1, c->arena_size, &blob);
    /* A context that has ended is given nothing; the ring has the reason, which is told at once. */
    if (rc && !client_state_ok(c))
        return apir_error_set(err, ENODEV, "%s: the host has ended this context",
                              c->transport.where);
    if (window_full(c, rc, CLIENT_ARENA_SIZE >> 20, err))
        return rc;
    if (rc)
        return apir_error_set(err, -rc, "%s: no room for %u MiB in the host-visible window: %s",
                              c->transport.where, CLIENT_ARENA_SIZE >> 20, strerror(-rc));
    madvise(blob.map, c->arena_size, MADV_DONTFORK);
    c->arena = blob.map;
    return 0;
}

static int say_hello(struct client *c, struct apir_error *err)
{
    struct apir_msg msg = {
        .code = APIR_MSG_HELLO,
        .u.hello = {.magic = APIR_HELLO_MAGIC,
                    .major = APIR_PROTOCOL_MAJOR,
                    .minor = APIR_PROTOCOL_MINOR,
                    .features = c->transport.same_kernel ? APIR_HELLO_ONE_KERNEL : 0},
    };
    int rc = client_call(c, &msg, &msg.u.hello.reply, &c->hello, sizeof(c->hello));
    if (rc)
        return apir_error_set(err, -rc, "%s: the host does not answer", c->transport.where);
    if (c->hello.status != APIR_OK)
        return apir_error_set(err, EPROTONOSUPPORT,
                              "%s: the host speaks protocol %u.%u, this plug-in %u.%u",
                              c->transport.where, c->hello.major, c->hello.minor,
                              APIR_PROTOCOL_MAJOR, APIR_PROTOCOL_MINOR);
    apir_text_accept(c->hello.host_ggml, sizeof(c->hello.host_ggml));
    if (c->hello.n_devices > APIR_DEVICES_MAX)
        return apir_error_set(err, EPROTO, "%s: the host has %u devices", c->transport.where,
                              c->hello.n_devices);
    return 0;
}

int client_open(struct client *c, const char *transport_choice, struct apir_error *err)
{
    memset(c, 0, sizeof(*c));
    const char *on_loss = getenv("APIR_ON_LOSS");
    c->exit_on_loss = on_loss && strcmp(on_loss, "exit") == 0;
    int rc = transport_open(&c->transport, transport_choice, err);
    if (rc)
        return rc;
    rc = map_private(c);
    if (rc)
        rc = apir_error_sys(err, -rc, "MADV_WIPEONFORK");
    if (!rc)
        rc = map_shared(c, err);
    if (!rc)
        rc = say_hello(c, err);
    if (rc)
        transport_close(&c->transport);
    return rc;
}
