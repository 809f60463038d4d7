/* SPDX-License-Identifier: Apache-2.0 */
/* The shared memory itself: its size, and holes in it. */
#define _GNU_SOURCE
#include "tests/hostile/attacks/own.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/atomic.h"
#include "tests/hostile/attacks/sheet.h"
#include "tests/lib/clock.h"
#include "tests/lib/unix_client.h"

/* What the transport closes once it has mapped it: descriptors by blob id. */
static int kept[APIR_BLOBS_MAX];

static int keep(int fd, uint64_t id, uint64_t size, uint32_t handle, struct transport_blob *ret)
{
    if (fd < 0)
        return -EINVAL;
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    kept[id] = fd;
    *ret = (struct transport_blob){.map = map, .size = size, .handle = handle};
    return 0;
}

/* RESOURCE_CREATE_BLOB, as frontend/link/transport_vtest.c has it. */
static int vtest_create(struct transport *t, uint64_t id, uint64_t size, struct transport_blob *ret)
{
    const uint32_t create = 18, host3d = 2, mappable = 1;
    const uint32_t request[8] = {
        6, create, host3d, mappable, (uint32_t)size, (uint32_t)(size >> 32), (uint32_t)id, 0};
    uint32_t answer[3];
    char byte;
    int fd = -1;
    if (send(t->fd, request, sizeof(request), MSG_NOSIGNAL) != sizeof(request) ||
        recv(t->fd, answer, sizeof(answer), MSG_WAITALL) != sizeof(answer) ||
        transport_receive(t, &byte, 1, &fd))
        return -EIO;
    return keep(fd, id, size, answer[2], ret);
}

static int unix_create(struct transport *t, uint64_t id, uint64_t size, struct transport_blob *ret)
{
    return keep(unix_create_blob(t->fd, (uint32_t)id, size), id, size, (uint32_t)id, ret);
}

/* A guest that has kept them all. */
static void keeper_open(struct guest *g, bool over_unix)
{
    struct apir_error err = {0};
    *g = (struct guest){.transport = {.fd = -1}};
    if (over_unix ? transport_unix_open(&g->transport, unix_host.path, &err)
                  : transport_vtest_open(&g->transport, attack_socket(), &err))
        not_stopped("%s", err.msg);
    g->transport.blob_create = over_unix ? unix_create : vtest_create;
    guest_attach(g);
    guest_fill(g, ARENA);
}

static void keeper_close(struct guest *g)
{
    close(kept[0]);
    close(kept[1]);
    guest_close(g);
}

/* ---- another size ------------------------------------------------------------------------ */

static void resize(int fd, off_t size)
{
    static const off_t sizes[] = {0, 4096, 65536};
    for (size_t i = 0; i < N(sizes); i++) {
        if (ftruncate(fd, sizes[i]) == 0)
            not_stopped("a blob was cut to %d bytes", (int)sizes[i]);
    }
    if (ftruncate(fd, size + 65536) == 0 || fallocate(fd, 0, size, 65536) == 0)
        not_stopped("a blob was made larger");
    /* Where this worked, the host could not map it any more. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0)
        not_stopped("a blob was sealed against writing");
    refused("%s", strerror(errno));
}

static void resized_over(bool over_unix)
{
    struct guest g;
    keeper_open(&g, over_unix);
    square_runs(&g);
    guest_remember(&g);
    for (int i = 0; i < 100; i++) {
        resize(kept[0], APIR_RING_SIZE);
        resize(kept[1], ARENA);
        put_exec(&g, 0);
        guest_unchanged(&g);
    }
    expect_alive(&g);
    keeper_close(&g);
}

static void resized(void)
{
    struct own o;
    resized_over(false);
    own_start(&o, true);
    resized_over(true);
    own_stop(&o);
    refused("sealed: %s", strerror(EPERM));
}

/* ---- holes ------------------------------------------------------------------------------- */

struct puncher {
    pthread_t thread;
    uint32_t stop;
};

static void punch(int fd, off_t size)
{
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size);
}

/* With a pause: where a page is taken away as soon as it is there nobody gets on, not even we. */
static void *punch_arena(void *arg)
{
    struct puncher *p = arg;
    while (!apir_load_acquire32(&p->stop)) {
        punch(kept[1], ARENA);
        nap_us(10);
    }
    return NULL;
}

/* A graph that has become a hole is no graph. */
static void graph_punched(void)
{
    struct guest g;
    struct sheet s;
    keeper_open(&g, false);
    sheet_square(&s);
    sheet_runs(&g, &s);
    const size_t size = sheet_write(&g, &s);
    punch(kept[1], ARENA);
    put_define(&g, 1, 0, size);
    expect_refused(&g, "GRAPH_DEF: ");
    keeper_close(&g);
}

/* The arena is emptied while the host reads and writes it; then while it reads graphs from it,
 * which are refused or not, as it finds them: those contexts end for that, and for nothing else. */
static void arena_punched(void)
{
    static uint8_t bytes[MEMORY];
    unsigned refusals = 0;
    graph_punched();
    for (int round = 0; round < 8; round++) {
        struct guest g;
        struct sheet s;
        struct puncher p = {0};
        bool alive = true;
        keeper_open(&g, false);
        sheet_square(&s);
        sheet_runs(&g, &s);
        WANT(pthread_create(&p.thread, NULL, punch_arena, &p) == 0);
        for (int i = 0; i < 200; i++) {
            guest_set(&g, 1, 0, bytes, sizeof(bytes));
            guest_get(&g, 3, 0, bytes, sizeof(bytes));
        }
        for (int i = 0; i < 200 && alive; i++) {
            put_define(&g, 1, 0, sheet_write(&g, &s));
            alive = guest_run(&g);
        }
        apir_store_release32(&p.stop, 1);
        pthread_join(p.thread, NULL);
        if (alive) {
            expect_alive(&g);
        } else {
            expect_refused(&g, "GRAPH_DEF: ");
            refusals++;
        }
        keeper_close(&g);
    }
    refused("read as zeros: of 8 contexts %u ended for a malformed graph", refusals);
}

/*
 * Whether the ring says that the context has ended. It does not where the server had said so before
 * the last hole, which took these words as well: then a ping must not be answered, for by that a
 * client finds it out.
 */
static bool says_its_end(struct guest *g)
{
    const struct apir_doorbell ping = {
        .magic = APIR_DOORBELL_MAGIC, .op = APIR_DOORBELL_PING, .value = 77};
    WANT(g->transport.doorbell(&g->transport, &ping) == 0);
    guest_flush(g);
    const bool ended =
        SOON(guest_state(g) == APIR_STATE_FATAL || guest_state(g) == APIR_STATE_LOST);
    WANT(apir_load_acquire64(&g->ring.header->head) != g->ring.tail);
    WANT(ended || apir_load_acquire32(&g->ring.header->pong) != ping.value);
    return ended;
}

/* The ring too: words of the host's and of the guest's, and messages, are zeros. */
static void ring_punched(void)
{
    for (int round = 0; round < 8; round++) {
        struct guest g;
        keeper_open(&g, false);
        expect_alive(&g);
        for (int i = 0; i < 50; i++) {
            punch(kept[0], round % 2 ? APIR_RING_HEADER_SIZE : APIR_RING_SIZE);
            punch(kept[1], ARENA);
        }
        /* The tail is behind the head now. */
        g.ring.tail += 16;
        guest_show(&g, round < 4 ? 0 : g.ring.tail);
        if (says_its_end(&g)) {
            /* A hole may have swallowed the worker's own words: then the server's are there. */
            const char *want = guest_state(&g) == APIR_STATE_FATAL ? "ring offsets make no sense"
                                                                   : "worker exited with status 3";
            if (!strstr(guest_reason(&g), want))
                not_stopped("the reason is: %s, instead of: %s", guest_reason(&g), want);
            refused("%s", guest_reason(&g));
        } else {
            refused("silence, and no answer to a ping");
        }
        keeper_close(&g);
    }
}

const struct attack_row attack_rows_memory[] = {
    {"memory-resized", "a blob resized while it is mapped", resized, 0, 0},
    {"memory-punched", "holes punched into the arena while it is used", arena_punched, 0, 0},
    {"memory-ring-punched", "a hole punched into the ring", ring_punched, 0, 0},
    {0},
};
