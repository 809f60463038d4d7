/* SPDX-License-Identifier: Apache-2.0 */
/* The same origin as rows_reference.c: what shows only while something else happens. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "protocol/atomic.h"
#include "tests/hostile/attacks/watch.h"
#include "tests/hostile/attacks/sheet.h"

/* ---- a byte that another thread keeps changing ------------------------------------------- */

struct flipper {
    uint8_t *at;
    uint8_t good, bad;
    uint32_t stop;
    uint64_t flips;
    pthread_t thread;
};

static void *flip(void *arg)
{
    struct flipper *f = arg;
    while (!apir_load_acquire32(&f->stop)) {
        /* Bad for a moment now and then: seen too often it would end most contexts at the first
         * look, and it is the second one that matters. */
        __atomic_store_n(f->at, f->bad, __ATOMIC_RELAXED);
        apir_cpu_relax();
        __atomic_store_n(f->at, f->good, __ATOMIC_RELAXED);
        for (int i = 0; i < 8; i++)
            apir_cpu_relax();
        f->flips += 2;
    }
    return NULL;
}

static void flipper_start(struct flipper *f, uint8_t *at, uint8_t good, uint8_t bad)
{
    *f = (struct flipper){.at = at, .good = good, .bad = bad};
    WANT(pthread_create(&f->thread, NULL, flip, f) == 0);
}

/* The good value stays. Returns how often it has changed. */
static uint64_t flipper_stop(struct flipper *f)
{
    apir_store_release32(&f->stop, 1);
    pthread_join(f->thread, NULL);
    return f->flips;
}

/* ---- double fetch ------------------------------------------------------------------------ */

#define FLIPS_MIN UINT64_C(1000000)
#define TRIES     15 /* contexts of each kind */

/* Where the bytes of two payloads differ first. */
static size_t difference(struct guest *g, const struct sheet *a, const struct sheet *b)
{
    static uint8_t bytes[4096];
    size_t size = sheet_write(g, a), at = 0;
    WANT(size <= sizeof(bytes));
    memcpy(bytes, guest_arena(g), size);
    WANT(sheet_write(g, b) == size);
    while (at < size && bytes[at] == guest_arena(g)[at])
        at++;
    WANT(at < size);
    return at;
}

/* A type that is known or is not: either is well-formed, and the context goes on. */
static uint64_t types_flip(void)
{
    cleanup_guest struct guest g;
    struct sheet s, other;
    struct flipper f;
    unsigned ran = 0, broken = 0;
    guest_open(&g);
    sheet_square(&s);
    other = s;
    other.t[0].type = 200;
    size_t at = difference(&g, &s, &other), size = sheet_write(&g, &s);
    flipper_start(&f, guest_arena(&g) + at, F32, 200);
    for (int64_t end = now_ms() + WAIT_MS; !ran || !broken || ran + broken < 500;) {
        put_define(&g, 0, 0, size);
        uint32_t status = exec_status(&g, 0);
        WANT(status == APIR_OK || status == APIR_E_UNSUPPORTED);
        ran += status == APIR_OK;
        broken += status != APIR_OK;
        if (now_ms() > end)
            not_stopped("in %u definitions the host never saw a change", ran + broken);
    }
    uint64_t flips = flipper_stop(&f);
    return flips;
}

/* Until the host has seen the bad value, or often enough; it ends the context for that reason. */
static bool until_fatal(struct guest *g, struct flipper *f, const char *why)
{
    bool fatal = !guest_run(g);
    if (!fatal)
        return false;
    flipper_stop(f);
    if (guest_state(g) != APIR_STATE_FATAL || !strstr(guest_reason(g), why))
        not_stopped("state %u: %s, instead of: %s", guest_state(g), guest_reason(g), why);
    refused("%s", guest_reason(g));
    return true;
}

/* The index of a tensor's buffer, in a definition. */
static uint64_t indices_flip(void)
{
    cleanup_guest struct guest g;
    struct sheet s, other;
    struct flipper f;
    guest_open_square(&g, &s);
    other = s;
    other.t[0].buffer = 0xff;
    struct apir_msg m = {.code = APIR_MSG_GRAPH_DEF, .u.graph_def = {.stream = STREAM, .blob = 1}};
    size_t at = difference(&g, &s, &other);
    m.u.graph_def.size = sheet_write(&g, &s);
    flipper_start(&f, guest_arena(&g) + at, 0, 0xff);
    bool ended = false;
    for (int i = 0; i < 200 && !ended; i++) {
        guest_put(&g, &m);
        ended = until_fatal(&g, &f, "buffer is not one of this graph");
    }
    uint64_t flips = ended ? f.flips : flipper_stop(&f);
    return flips;
}

/* The size of a message on the ring, in the middle of many. */
static uint64_t message_flips(void)
{
    enum { MESSAGES = 64, SIZE = 16 };
    cleanup_guest struct guest g;
    struct flipper f;
    const struct apir_msg m = {.code = APIR_MSG_BUFFER_CLEAR, .u.buffer_clear = {3, 7}};
    guest_open(&g);
    uint64_t flips = 0;
    bool ended = false;
    for (int i = 0; i < 100 && !ended; i++) {
        uint64_t at = (g.ring.tail + MESSAGES / 2 * SIZE) & (g.ring.cmd_size - 1);
        for (int k = 0; k < MESSAGES; k++)
            guest_put(&g, &m);
        /* The second byte of the size: 16, or 16 KiB more than that. */
        flipper_start(&f, g.ring.cmd + at + 5, 0, 0x40);
        ended = until_fatal(&g, &f, "ring offsets make no sense");
        flips += ended ? f.flips : flipper_stop(&f);
    }
    return flips;
}

static void double_fetch(void)
{
    uint64_t flips = types_flip();
    for (int i = 0; i < TRIES || flips < FLIPS_MIN; i++) {
        flips += indices_flip();
        flips += message_flips();
    }
    refused("%llu changes, each seen once or not at all", (unsigned long long)flips);
}

/* ---- order ------------------------------------------------------------------------------- */

/* Once head has passed a message its answer is complete, at every look and in all of its bytes. */
static void answers_before_head(void)
{
    enum { ROUNDS = 5000 };
    cleanup_guest struct guest g;
    guest_open(&g);
    volatile uint32_t *status = NULL;
    uint64_t looks = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t at = guest_reply(&g);
        status = (volatile uint32_t *)(uintptr_t)guest_reply_at(&g, at);
        volatile uint8_t *last = guest_arena(&g) + 4095;
        *last = 0x77;
        guest_put(&g, &(struct apir_msg){.code = APIR_MSG_DEVICE_MEMORY,
                                         .u.device_memory = {.reply = at}});
        uint64_t answered = g.ring.tail;
        put_transfer(&g, APIR_MSG_GET, 0, 3, 0, 4096, 1, 0);
        guest_flush(&g);
        int64_t end = now_ms() + WAIT_MS;
        for (uint64_t head = 0; head < g.ring.tail;) {
            head = apir_load_acquire64(&g.ring.header->head);
            if (head >= answered && *status == UINT32_MAX)
                not_stopped("round %u: head has passed a message without its answer", i);
            if (head >= g.ring.tail && *last != guest_byte(3, 4095))
                not_stopped("round %u: head has passed a GET without its bytes", i);
            /* Where cores are scarce the worker may need this one. */
            if (head < answered && ++looks % 64 == 0)
                sched_yield();
            if (head < answered && now_ms() > end)
                not_stopped("the worker hangs");
        }
    }
    refused("%d answers were there when head said so", ROUNDS);
}

/* Inputs, graphs and results in one batch, which all use the same places of the arena. */
static void reads_beside_writes(void)
{
    enum { ROUNDS = 300, DEPTH = 16 };
    cleanup_guest struct guest g;
    struct sheet s;
    guest_open_square(&g, &s);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        float *in = (float *)(void *)guest_arena(&g), *out = in + 4096;
        for (uint32_t i = 0; i < DEPTH; i++) {
            in[i * 16] = (float)(round + i);
            out[i * 16] = -1.0f;
            put_transfer(&g, APIR_MSG_SET, STREAM, 1, 0, 4, 1, i * 64);
            put_exec(&g, 0);
            put_transfer(&g, APIR_MSG_GET, STREAM, 2, 0, 4, 1, 16384 + i * 64);
            /* What was just read is written again, before it is known here. */
            put_transfer(&g, APIR_MSG_SET, STREAM, 3, i * 4, 4, 1, 16384 + i * 64);
        }
        /* And at once what is read last, a long one. */
        volatile uint8_t *last = guest_arena(&g) + 65536 + MEMORY - 1;
        *last = (uint8_t)~guest_byte(3, MEMORY - 1);
        put_transfer(&g, APIR_MSG_GET, STREAM, 3, 0, MEMORY, 1, 65536);
        guest_flush(&g);
        int64_t end = now_ms() + WAIT_MS;
        while (apir_load_acquire64(&g.ring.header->head) != g.ring.tail)
            WANT(now_ms() < end);
        if (*last != guest_byte(3, MEMORY - 1))
            not_stopped("round %u: head has passed a GET without its bytes", round);
        for (uint32_t i = 0; i < DEPTH; i++) {
            const float want = (float)(round + i) * (float)(round + i);
            if (out[i * 16] != want)
                not_stopped("round %u: result %u is %f", round, i, (double)out[i * 16]);
        }
        float back[DEPTH];
        guest_get(&g, 3, 0, back, sizeof(back));
        for (uint32_t i = 0; i < DEPTH; i++)
            WANT(back[i] == (float)(round + i) * (float)(round + i));
    }
    refused("%u results were each its own", ROUNDS * DEPTH);
}

const struct attack_row attack_rows_races[] = {
    {"ref-double-fetch", "what is parsed changes meanwhile", double_fetch, 0, 0},
    {"ref-reply-order", "an answer stored after its completion", answers_before_head, 0, 0},
    {"ref-read-write-race", "a read beside a write", reads_beside_writes, 0, 0},
    {0},
};
