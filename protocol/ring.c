/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/ring.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "protocol/atomic.h"
#include "protocol/futex.h"
#include "protocol/messages.h"

#define LINE 64u
/* Bytes of messages whose lines are asked for in advance. */
#define AHEAD 4096u

static void ring_copy_in(uint8_t *cmd, uint64_t cmd_size, uint64_t at, const void *src, size_t n)
{
    uint64_t pos = at & (cmd_size - 1);
    size_t first = cmd_size - pos < n ? (size_t)(cmd_size - pos) : n;
    memcpy(cmd + pos, src, first);
    memcpy(cmd, (const uint8_t *)src + first, n - first);
}

static void ring_copy_out(void *dst, const uint8_t *cmd, uint64_t cmd_size, uint64_t at, size_t n)
{
    uint64_t pos = at & (cmd_size - 1);
    size_t first = cmd_size - pos < n ? (size_t)(cmd_size - pos) : n;
    memcpy(dst, cmd + pos, first);
    memcpy((uint8_t *)dst + first, cmd, n - first);
}

/* ---- guest ---------------------------------------------------------------- */

int apir_ring_guest_init(struct apir_ring_guest *rg, void *blob, uint64_t blob_size)
{
    struct apir_ring_header *h = blob;
    if (apir_load_acquire64(&h->magic) != APIR_RING_MAGIC)
        return -ENODEV;
    if (!apir_ring_size_ok(blob_size) || h->blob_size != blob_size ||
        h->cmd_offset != apir_ring_cmd_offset(blob_size) || h->cmd_size != blob_size / 2 ||
        h->reply_offset != APIR_RING_HEADER_SIZE ||
        h->reply_size != apir_ring_reply_size(blob_size))
        return -EPROTO;
    *rg = (struct apir_ring_guest){
        .header = h,
        .cmd = (uint8_t *)blob + apir_ring_cmd_offset(blob_size),
        .cmd_size = blob_size / 2,
    };
    return 0;
}

uint64_t apir_ring_guest_head(const struct apir_ring_guest *rg)
{
    uint64_t head = apir_load_acquire64(&rg->header->head);
    /* A broken host must not make us overrun the ring: free-running compare. */
    return rg->tail - head <= rg->cmd_size ? head : rg->tail - rg->cmd_size;
}

bool apir_ring_guest_has_room(const struct apir_ring_guest *rg, size_t size)
{
    return rg->tail - apir_ring_guest_head(rg) + size <= rg->cmd_size;
}

uint64_t apir_ring_guest_put(struct apir_ring_guest *rg, const void *msg, size_t size)
{
    ring_copy_in(rg->cmd, rg->cmd_size, rg->tail, msg, size);
    rg->tail += size;
    return rg->tail;
}

bool apir_ring_guest_publish(struct apir_ring_guest *rg)
{
    if (rg->tail == rg->published)
        return false;
    apir_store_release64(&rg->header->tail, rg->tail);
    rg->published = rg->tail;
    apir_full_fence();
    return apir_take_flag(&rg->header->idle);
}

/* ---- host ----------------------------------------------------------------- */

void apir_ring_host_init(struct apir_ring_host *rh, void *blob, uint64_t blob_size)
{
    *rh = (struct apir_ring_host){
        .header = blob,
        .cmd = (const uint8_t *)blob + apir_ring_cmd_offset(blob_size),
        .cmd_size = blob_size / 2,
    };
}

int apir_ring_host_take(struct apir_ring_host *rh, void *buf, size_t cap, size_t *ret_size)
{
    if (rh->limit == rh->head) {
        uint64_t tail = apir_load_acquire64(&rh->header->tail);
        if (tail == rh->head)
            return -EAGAIN;
        if (tail - rh->head > rh->cmd_size)
            return -EBADMSG;
        rh->limit = tail;
        /* All at once: one by one each would be a trip to the core that has written it. */
        for (uint64_t at = 0; at < tail - rh->head && at < AHEAD; at += LINE)
            __builtin_prefetch(rh->cmd + ((rh->head + at) & (rh->cmd_size - 1)));
    }
    uint64_t used = rh->limit - rh->head;
    struct apir_msg_header h;
    if (used < sizeof(h) || cap < sizeof(h))
        return -EBADMSG;
    ring_copy_out(&h, rh->cmd, rh->cmd_size, rh->head, sizeof(h));
    if (h.size < sizeof(h) || h.size % 8 != 0 || h.size > used || h.size > cap)
        return -EBADMSG;
    /* The header is not read a second time: the guest may have changed it. */
    memcpy(buf, &h, sizeof(h));
    ring_copy_out((uint8_t *)buf + sizeof(h), rh->cmd, rh->cmd_size, rh->head + sizeof(h),
                  h.size - sizeof(h));
    *ret_size = rh->taken = h.size;
    return 0;
}

static void ring_wake(struct apir_ring_header *h)
{
    apir_add32(&h->wake, 1);
    apir_futex_wake(&h->wake, APIR_RING_WAKES);
}

static void head_show(struct apir_ring_host *rh, uint64_t head)
{
    rh->shown = head;
    apir_store_release64(&rh->header->head, head);
    apir_full_fence();
    if (apir_load_acquire32(&rh->header->waiting))
        ring_wake(rh->header);
}

void apir_ring_host_done(struct apir_ring_host *rh)
{
    rh->head += rh->taken;
    rh->taken = 0;
}

bool apir_ring_host_show(struct apir_ring_host *rh)
{
    if (rh->shown == rh->head)
        return false;
    head_show(rh, rh->head);
    return true;
}

bool apir_ring_host_show_due(const struct apir_ring_host *rh)
{
    return !apir_ring_host_has_more(rh) || rh->head - rh->shown >= rh->cmd_size / 4;
}

void apir_ring_host_progress(struct apir_ring_host *rh, uint64_t left)
{
    head_show(rh, rh->head + rh->taken - left);
}

bool apir_ring_host_has_more(const struct apir_ring_host *rh)
{
    return apir_load_acquire64(&rh->header->tail) != rh->head + rh->taken;
}

bool apir_ring_host_prepare_sleep(struct apir_ring_host *rh)
{
    apir_store_release32(&rh->header->idle, 1);
    apir_full_fence();
    return apir_load_acquire64(&rh->header->tail) == rh->head;
}

bool apir_ring_host_sleep(struct apir_ring_host *rh, uint64_t timeout_ns)
{
    struct timespec ts = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    apir_futex_wait(&rh->header->idle, 1, &ts);
    return !apir_ring_host_sleeps(rh->header);
}

bool apir_ring_host_sleeps(const struct apir_ring_header *h)
{
    return apir_load_acquire32(&h->idle) != 0;
}

void apir_ring_wake_host(struct apir_ring_header *h)
{
    apir_take_flag(&h->idle);
    apir_futex_wake(&h->idle, 1); /* the worker's main thread: nobody else has a reason to wait */
}

void apir_ring_host_awake(struct apir_ring_host *rh)
{
    apir_store_release32(&rh->header->idle, 0);
}

void apir_ring_set_state(struct apir_ring_header *h, enum apir_state state, const char *reason)
{
    if (reason) {
        size_t n = strlen(reason);
        if (n >= sizeof(h->reason))
            n = sizeof(h->reason) - 1;
        memcpy(h->reason, reason, n);
        h->reason[n] = '\0';
    }
    apir_store_release32(&h->state, (uint32_t)state);
    ring_wake(h);
}
