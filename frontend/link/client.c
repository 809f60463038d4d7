/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "frontend/link/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "protocol/atomic.h"
#include "common/log.h"
#include "common/text.h"

#define SPIN_NS 200000u /* look this long before sleeping: waking up can cost more */
#define CALL_NS 200000u /* to be expected of a call, as of a driver's: we look for 500 us */
/* What takes longer is slept through, but for as much at its end. */
#define KNOWN_LONG_NS    1000000u
#define NAP_MIN_NS       20000u /* between looks where nothing can wake us: */
#define NAP_SHARE        512u   /* this part of the wait so far, so that it adds next to nothing */
#define SLEEP_MAX_NS     SILENCE_STEP_NS /* no sleep is longer: is the host alive? */
#define REASON_WITHIN_NS 1000000000u     /* so long the server has to tell why a worker has ended */
/* ---- loss ------------------------------------------------------------------- */

bool client_forked(struct client *c)
{
    return !c->alive || apir_load_acquire32(c->alive) != 1;
}

bool client_usable(struct client *c)
{
    return apir_load_acquire32(&c->lost) == 0 && !client_forked(c);
}

void client_lose(struct client *c, const char *why)
{
    if (__atomic_exchange_n(&c->lost, 1u, __ATOMIC_ACQ_REL))
        return;
    apir_log(APIR_LOG_ERROR, "the host side of %s is lost: %s", c->transport.where, why);
    /* Not under a doorbell of another thread: its number could be somebody else's. */
    os_lock_acquire(&c->bell_lock);
    transport_close(&c->transport);
    os_lock_release(&c->bell_lock);
    if (c->exit_on_loss)
        _exit(1);
}

/* Notices a state that ends the session. */
static bool client_state_ok(struct client *c)
{
    struct apir_ring_header *h = c->ring.header;
    uint32_t state = apir_load_acquire32(&h->state);
    if (state == APIR_STATE_STARTING || state == APIR_STATE_READY)
        return true;
    char reason[APIR_REASON_MAX];
    memcpy(reason, h->reason, sizeof(reason));
    apir_text_accept(reason, sizeof(reason));
    client_lose(c, *reason ? reason : "no reason given");
    return false;
}

static void doorbell(struct client *c, uint32_t op, uint64_t value)
{
    struct apir_doorbell bell = {.magic = APIR_DOORBELL_MAGIC, .op = op, .value = value};
    /* Waiting threads ping without the client lock; a socket takes one at a time. */
    os_lock_acquire(&c->bell_lock);
    int rc = c->transport.fd < 0 ? -ENODEV : c->transport.doorbell(&c->transport, &bell);
    os_lock_release(&c->bell_lock);
    if (rc < 0)
        client_lose(c, "its doorbell fails");
}

/* ---- submission --------------------------------------------------------------- */

void client_lock(struct client *c)
{
    os_lock_acquire(&c->lock);
}

void client_unlock(struct client *c)
{
    os_lock_release(&c->lock);
}

static void wake_host(struct client *c)
{
    if (c->transport.same_kernel)
        apir_ring_wake_host(c->ring.header);
    else
        doorbell(c, APIR_DOORBELL_KICK, 0);
}

void client_flush_locked(struct client *c)
{
    if (client_usable(c) && apir_ring_guest_publish(&c->ring))
        wake_host(c);
}

uint64_t client_put_locked(struct client *c, const struct apir_msg *msg)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    int64_t size = apir_msg_encode(msg, buf, sizeof(buf));
    if (size < 0) {
        /* The caller's tensor has numbers that no host accepts. */
        client_lose(c, "a request is outside the protocol's limits");
        return 0;
    }
    while (!apir_ring_guest_has_room(&c->ring, (size_t)size)) {
        client_flush_locked(c);
        if (client_wait_locked(c, c->ring.tail - c->ring.cmd_size / 2) < 0)
            return 0;
        /* Half the ring is done: more than any message. A head that has run ahead of us is none. */
        if (!apir_ring_guest_has_room(&c->ring, (size_t)size))
            client_lose(c, "its ring makes no sense");
    }
    if (!client_usable(c))
        return 0;
    uint64_t pos = apir_ring_guest_put(&c->ring, buf, (size_t)size);
    /* It wakes up while we go on: by the time somebody waits it has its work. */
    if (apir_ring_host_sleeps(c->ring.header))
        client_flush_locked(c);
    return pos;
}

/* ---- waiting ------------------------------------------------------------------ */

static bool reached(struct client *c, uint64_t pos)
{
    /* The shared head, read without the lock: only compared, never used as a size. */
    return (int64_t)(apir_load_acquire64(&c->ring.header->head) - pos) >= 0;
}

bool client_host_idle(struct client *c)
{
    return reached(c, apir_load_acquire64(&c->ring.header->tail));
}

struct wait_state {
    uint64_t began;
    struct silence silence;
    uint64_t head;  /* where we last saw it: a host that gets on is there */
    uint32_t ping;  /* what we asked with first since we heard of the host */
    uint64_t ended; /* when we saw that the worker has; 0: it has not */
};

/* Whether the host has given a sign of life since the last look. */
static bool heard(struct client *c, struct wait_state *ws)
{
    const struct apir_ring_header *h = c->ring.header;
    const uint64_t head = apir_load_acquire64(&h->head);
    const bool moved = head != ws->head;
    ws->head = head;
    /* Another thread's newer ping may have been answered instead of ours. */
    return moved || (ws->silence.asked && (int32_t)(apir_load_acquire32(&h->pong) - ws->ping) >= 0);
}

/* Checks that the other side still lives; 0 or -ENODEV. */
static int wait_check(struct client *c, struct wait_state *ws, uint64_t now)
{
    if (!client_usable(c) || !client_state_ok(c))
        return -ENODEV;
    if (apir_load_acquire32(&c->ring.header->worker) & FUTEX_OWNER_DIED) {
        ws->ended = ws->ended ? ws->ended : now;
        if (now - ws->ended > REASON_WITHIN_NS)
            client_lose(c, "its worker has ended, and its server does not say why");
    }
    const bool first = ws->silence.asked == 0;
    switch (silence_look(&ws->silence, now, heard(c, ws), c->transport.silence_ns)) {
    case SILENCE_GOES_ON:
        break;
    case SILENCE_ASK: {
        const uint32_t ping = apir_add32(&c->ping, 1);
        if (first)
            ws->ping = ping;
        doorbell(c, APIR_DOORBELL_PING, ping);
        break;
    }
    case SILENCE_OVER:
        client_lose(c, "it does not answer");
        break;
    }
    return client_usable(c) ? 0 : -ENODEV;
}

static void wait_sleep(struct client *c, struct wait_state *ws, uint64_t pos, uint64_t left_ns)
{
    struct apir_ring_header *h = c->ring.header;
    const uint64_t most = left_ns && left_ns < SLEEP_MAX_NS ? left_ns : SLEEP_MAX_NS;
    if (c->transport.same_kernel) {
        uint32_t seen = apir_load_acquire32(&h->wake);
        /* A count, not a flag: one thread that wakes must not hide another. */
        apir_add32(&h->waiting, 1);
        apir_full_fence();
        /* Up in time to see the end ourselves: a wake-up costs more than a look. */
        if (!reached(c, pos))
            os_futex_wait(&h->wake, seen, most);
        apir_add32(&h->waiting, UINT32_MAX);
        return;
    }
    uint64_t waited = os_now_ns() - ws->began, nap = waited / NAP_SHARE;
    if (left_ns)
        os_sleep_ns(most);
    else
        os_sleep_ns(nap < NAP_MIN_NS ? NAP_MIN_NS : nap < most ? nap : most);
}

static void wait_look(struct client *c, uint64_t pos, uint64_t now)
{
    for (int i = 0; i < 32; i++) {
        if (reached(c, pos))
            return;
        apir_cpu_relax();
    }
    /* Where cores are scarce the one we wait for may need this one. */
    os_yield();
    if (c->transport.same_kernel)
        (void)apir_crowd_note(&c->crowd, now, os_now_ns());
}

/* asleep: sleeps at once instead of looking, if the host can wake us. */
static int wait_until(struct client *c, uint64_t pos, uint64_t expect_ns, bool asleep)
{
    if (!client_usable(c))
        return -ENODEV;
    if (reached(c, pos))
        return 0;
    struct wait_state ws = {.began = os_now_ns()};
    silence_begin(&ws.silence, ws.began);
    ws.head = apir_load_acquire64(&c->ring.header->head);
    /* Sleep through most of what is known to take long, then look closely; a short
     * sleep costs more than it saves. Looking takes a core that may be computing. */
    uint64_t wake_at = ws.began, asleep_until = ws.began;
    uint64_t spin_until = ws.began + SPIN_NS + expect_ns + expect_ns / 2;
    if (asleep && c->transport.same_kernel) {
        wake_at = UINT64_MAX;
    } else if (expect_ns > KNOWN_LONG_NS) {
        uint64_t margin = expect_ns / 4 < KNOWN_LONG_NS ? expect_ns / 4 : KNOWN_LONG_NS;
        wake_at += expect_ns - margin;
        /* Where nothing wakes us, never for all of it: what was slow once would stay slow. */
        asleep_until = c->transport.same_kernel ? wake_at : ws.began + expect_ns - expect_ns / 4;
        spin_until = ws.began + expect_ns + margin + KNOWN_LONG_NS / 2;
    }
    int old_slack = -1;
    /* Once it has been there it is: a broken host's head may go back. */
    for (bool there = false; !there;) {
        uint64_t now = os_now_ns();
        if (wait_check(c, &ws, now) < 0)
            break;
        if (now < wake_at || now >= spin_until || apir_crowd_there(&c->crowd, now)) {
            if (old_slack < 0) {
                old_slack = prctl(PR_GET_TIMERSLACK);
                prctl(PR_SET_TIMERSLACK, 1ul);
            }
            wait_sleep(c, &ws, pos, now < asleep_until ? asleep_until - now : 0);
        } else {
            wait_look(c, pos, now);
        }
        there = reached(c, pos);
    }
    if (old_slack > 0)
        prctl(PR_SET_TIMERSLACK, (unsigned long)old_slack);
    return client_usable(c) ? 0 : -ENODEV;
}

int client_wait(struct client *c, uint64_t pos, uint64_t expect_ns)
{
    return wait_until(c, pos, expect_ns, false);
}

int client_wait_asleep(struct client *c, uint64_t pos, uint64_t expect_ns)
{
    return wait_until(c, pos, expect_ns, true);
}

int client_wait_locked(struct client *c, uint64_t pos)
{
    return client_wait(c, pos, 0);
}

/* ---- arena -------------------------------------------------------------------- */

static struct client_block *block_at(struct client *c, uint32_t i)
{
    return &c->blocks[(c->block_first + i) % CLIENT_BLOCKS_MAX];
}

static void blocks_reclaim(struct client *c)
{
    while (c->block_count && !apir_load_acquire32(&block_at(c, 0)->held) &&
           reached(c, block_at(c, 0)->until)) {
        c->block_first = (c->block_first + 1) % CLIENT_BLOCKS_MAX;
        c->block_count--;
    }
    /* Two places in turn, not the same again (bench-overhead: 15 us a token, and 10 with two). What
     * lies in one is still in our cache, and the host would have to take each line back before it
     * can write there. docs/decisions.md, Results lie at two places in turn. */
    if (c->block_count == 0 && c->arena_next != c->arena_turn)
        c->arena_next = c->arena_turn = c->arena_turn ? 0 : c->arena_next;
}

/* Where `size` bytes fit behind the newest block, or UINT64_MAX. */
static uint64_t arena_place(const struct client *c, uint64_t oldest, uint64_t size)
{
    if (c->block_count == 0) {
        if (size <= c->arena_size - c->arena_next)
            return c->arena_next;
        return size <= c->arena_size ? 0 : UINT64_MAX;
    }
    if (c->block_count == CLIENT_BLOCKS_MAX)
        return UINT64_MAX;
    if (c->arena_next > oldest) {
        const bool behind = size <= c->arena_size - c->arena_next;
        /* Never up to the oldest: equal would look like empty. As near to the beginning as may
         * be: fewer pages, which stay known to both sides. But what is left behind counts as full
         * then, so only where there is room for more than this one. */
        if (size < oldest && (!behind || oldest >= c->arena_size / 4))
            return 0;
        return behind ? c->arena_next : UINT64_MAX;
    }
    return size < oldest - c->arena_next ? c->arena_next : UINT64_MAX;
}

struct client_block *client_block_try_locked(struct client *c, uint64_t size)
{
    size = (size + 63) & ~UINT64_C(63);
    if (!client_usable(c))
        return NULL;
    blocks_reclaim(c);
    uint64_t oldest = c->block_count ? block_at(c, 0)->offset : 0;
    uint64_t at = arena_place(c, oldest, size);
    if (at == UINT64_MAX)
        return NULL;
    c->block_count++;
    struct client_block *b = block_at(c, c->block_count - 1);
    *b = (struct client_block){
        .offset = at,
        .size = size,
    };
    b->until = c->ring.tail + (UINT64_C(1) << 40); /* not before the caller says */
    c->arena_next = at + size;
    return b;
}

struct client_block *client_block_locked(struct client *c, uint64_t size)
{
    for (;;) {
        struct client_block *b = client_block_try_locked(c, size);
        if (b || !client_usable(c) || size > c->arena_size || c->block_count == 0)
            return b;
        b = block_at(c, 0);
        client_flush_locked(c);
        if (client_wait_locked(c, b->until) < 0)
            return NULL;
        if (b->held)
            client_reads_finish_locked(c, 0, UINT64_MAX);
        if (b->held) {
            /* Another thread is copying out of it and needs no lock for that. */
            client_unlock(c);
            os_sleep_ns(NAP_MIN_NS);
            client_lock(c);
        }
    }
}

void client_block_release(struct client_block *b)
{
    apir_store_release32(&b->held, 0);
}

void client_read_defer_locked(struct client *c, const struct client_read *r)
{
    if (c->read_count == CLIENT_BLOCKS_MAX)
        client_reads_finish_locked(c, 0, UINT64_MAX);
    c->reads[c->read_count++] = *r;
}

void client_fill_lost(void *dst, size_t size, uint32_t type)
{
    uint8_t *p = dst;
    static const uint8_t nan32[4] = {0, 0, 0xc0, 0x7f}, nan16[2] = {0, 0x7e},
                         nanb16[2] = {0xc0, 0x7f};
    const uint8_t *pattern = type == 0 ? nan32 : type == 1 ? nan16 : type == 30 ? nanb16 : NULL;
    size_t n = type == 0 ? 4 : 2;
    if (!pattern) {
        memset(dst, 0, size);
        return;
    }
    for (size_t i = 0; i < size; i++)
        p[i] = pattern[i % n];
}

/* Where head is once the first `done` of `size` bytes are there; `until`: all. */
static uint64_t step_position(uint64_t until, uint64_t size, uint64_t done)
{
    const uint64_t step = apir_get_step(size);
    return until - ((size + step - 1) / step - (done + step - 1) / step);
}

/* The opposite: how many of `size` bytes are there. Never more, whatever head is. */
static uint64_t bytes_there(const struct client *c, uint64_t until, uint64_t size)
{
    const uint64_t left = until - apir_load_acquire64(&c->ring.header->head);
    const uint64_t step = apir_get_step(size), steps = (size + step - 1) / step;
    return (int64_t)left <= 0 ? size : left < steps ? (steps - left) * step : 0;
}

void client_block_read(struct client *c, struct client_block *b, void *dst, uint64_t size,
                       uint32_t type, uint64_t expect_ns)
{
    const uint8_t *from = client_block_data(c, b);
    for (uint64_t done = 0, there; done < size; done = there) {
        /* This first: it knows whether there still is a ring to look at. */
        if (client_wait(c, step_position(b->until, size, done + 1), done ? 0 : expect_ns) < 0) {
            client_fill_lost(dst, size, type);
            break;
        }
        there = bytes_there(c, b->until, size);
        /* A broken host's head may go back. */
        if (there < done)
            there = done;
        memcpy((uint8_t *)dst + done, from + done, there - done);
    }
    client_block_release(b);
}

static struct apir_stream_status *stream_status(const struct client *c, uint32_t stream)
{
    return (struct apir_stream_status *)(void *)(c->replies + client_stream_offset(stream));
}

uint32_t client_stream_status(const struct client *c, uint32_t stream)
{
    return apir_load_acquire32(&stream_status(c, stream)->failed);
}

void client_stream_clear(struct client *c, uint32_t stream)
{
    apir_store_release32(&stream_status(c, stream)->failed, APIR_OK);
}

/* Whether the graphs before a read that is complete have been computed. */
static bool read_is_sound(const struct client *c, const struct client_read *r)
{
    return r->stream == 0 || r->stream > APIR_STREAMS_MAX ||
           client_stream_status(c, r->stream) == APIR_OK;
}

static void read_finish(struct client *c, const struct client_read *r)
{
    client_flush_locked(c);
    if (r->block && !r->stride) {
        client_block_read(c, r->block, r->dst, r->size, r->type, 0);
        if (!read_is_sound(c, r))
            client_fill_lost(r->dst, r->size, r->type);
        return;
    }
    bool ok = client_wait_locked(c, r->until) == 0 && read_is_sound(c, r);
    uint64_t rows = r->stride ? r->size / r->row : 1;
    uint64_t row = r->stride ? r->row : r->size;
    for (uint64_t i = 0; i < rows; i++) {
        uint8_t *dst = (uint8_t *)r->dst + i * r->stride;
        if (!ok)
            client_fill_lost(dst, row, r->type);
        else if (r->block)
            memcpy(dst, (uint8_t *)client_block_data(c, r->block) + i * row, row);
    }
    if (r->block)
        client_block_release(r->block);
}

uint64_t client_reads_begin_locked(const struct client *c, uint32_t stream, uint64_t upto)
{
    for (uint32_t i = c->read_count; i-- > 0;) {
        const struct client_read *r = &c->reads[i];
        const uint64_t step = apir_get_step(r->size);
        if (r->stream == stream && r->until == upto && r->block && !r->stride)
            return step_position(upto, r->size, r->size < step ? r->size : step);
    }
    return upto;
}

void client_reads_finish_locked(struct client *c, uint32_t stream, uint64_t upto)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->read_count; i++) {
        if ((stream == 0 || c->reads[i].stream == stream) && c->reads[i].until <= upto)
            read_finish(c, &c->reads[i]);
        else
            c->reads[kept++] = c->reads[i];
    }
    c->read_count = kept;
}

/* ---- replies ------------------------------------------------------------------ */

int client_reply_get_locked(struct client *c)
{
    while (~c->calls == 0) {
        if (!client_usable(c))
            return -1;
        /* 64 threads wait for their answers: each takes microseconds. */
        client_unlock(c);
        os_sleep_ns(NAP_MIN_NS);
        client_lock(c);
    }
    int i = __builtin_ctzll(~c->calls);
    c->calls |= UINT64_C(1) << i;
    memset(c->replies + (size_t)i * APIR_REPLY_SIZE, 0, APIR_REPLY_SIZE);
    return i;
}

void client_reply_put_locked(struct client *c, int index)
{
    c->calls &= ~(UINT64_C(1) << index);
}

int client_call(struct client *c, struct apir_msg *msg, uint32_t *reply_field, void *answer,
                size_t size)
{
    if (!client_usable(c))
        return -ENODEV;
    client_lock(c);
    int place = client_reply_get_locked(c);
    if (place < 0) {
        client_unlock(c);
        return -ENODEV;
    }
    *reply_field = client_reply_offset(place);
    uint64_t pos = client_put_locked(c, msg);
    client_flush_locked(c);
    client_unlock(c);
    int rc = pos ? client_wait(c, pos, CALL_NS) : -ENODEV;
    if (!rc)
        memcpy(answer, c->replies + (size_t)place * APIR_REPLY_SIZE, size);
    /* After a loss the place is not given out again: the host might still write. */
    if (!rc) {
        client_lock(c);
        client_reply_put_locked(c, place);
        client_unlock(c);
    }
    return rc;
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

static int map_shared(struct client *c, struct apir_error *err)
{
    struct transport_blob blob = {0};
    int rc = c->transport.blob_create(&c->transport, APIR_RING_BLOB_ID, APIR_RING_SIZE, &blob);
    if (rc == -EDQUOT)
        return apir_error_set(err, EDQUOT,
                              "%s: programs of this class have all the shared memory that the host "
                              "allows (class_shm_mib)",
                              c->transport.where);
    if (rc)
        return apir_error_set(err, -rc, "%s: the host gives no shared memory (%s); %s",
                              c->transport.where, strerror(-rc),
                              c->transport.hint ? c->transport.hint
                                                : "is apir-render-server its "
                                                  "RENDER_SERVER_EXEC_PATH?");
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
