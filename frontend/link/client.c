/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/link/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "protocol/atomic.h"
#include "common/log.h"
#include "common/text.h"

#define SPIN_NS 200000u /* look this long before sleeping: waking up can cost more */
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

bool client_state_ok(struct client *c)
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

bool client_reached(const struct client *c, uint64_t pos)
{
    /* The shared head, read without the lock: only compared, never used as a size. */
    return (int64_t)(apir_load_acquire64(&c->ring.header->head) - pos) >= 0;
}

bool client_host_idle(struct client *c)
{
    return client_reached(c, apir_load_acquire64(&c->ring.header->tail));
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
        if (!client_reached(c, pos))
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
        if (client_reached(c, pos))
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
    if (client_reached(c, pos))
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
        there = client_reached(c, pos);
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
