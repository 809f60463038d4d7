/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that want more of the host than they may have, and look for a way around its books. */
#define _GNU_SOURCE
#include "tests/attacks/own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/server/context.h"
#include "protocol/atomic.h"
#include "tests/lib/unix_client.h"

#define ARENA_MIB 16
#define HELD      6 /* and a ring and one more: beyond twice the limit */

/* Nobody holds anything any more, but for a worker that has yet to hear of it, or to end. */
static int blob_at_last(int sock, uint32_t id, uint64_t size)
{
    int fd;
    if (!SOON((fd = unix_create_blob(sock, id, size)) >= 0))
        not_stopped("nothing is held any more, and refused all the same: %s", strerror(-fd));
    return fd;
}

/* Memory that was given back, held by its descriptor alone or by a map alone. */
static void given_back_and_held(void)
{
    struct own o;
    own_start_with(&o, true, ", \"context_shm_mib\": 50");
    struct unix_client c = unix_client_open();
    for (int by_map = 0; by_map < 2; by_map++) {
        int fds[HELD];
        void *maps[HELD];
        for (uint32_t i = 0; i < HELD; i++) {
            fds[i] = blob_at_last(c.fd, 1 + i, ARENA_MIB << 20);
            maps[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
            WANT(maps[i] != MAP_FAILED);
            unix_request(c.fd, APIR_UNIX_BLOB_DESTROY, 1 + i, 0);
            if (by_map)
                close(fds[i]);
            else
                munmap(maps[i], 4096);
        }
        int fd = unix_create_blob(c.fd, 1, ARENA_MIB << 20);
        if (fd >= 0)
            not_stopped("113 MiB are held where 50 may be, and 50 for a moment");
        WANT(fd == -EINVAL);
        for (uint32_t i = 0; i < HELD; i++)
            WANT((by_map ? munmap(maps[i], 4096) : close(fds[i])) == 0);
        fd = blob_at_last(c.fd, 1, ARENA_MIB << 20);
        close(fd);
        unix_request(c.fd, APIR_UNIX_BLOB_DESTROY, 1, 0);
    }
    unix_expect_alive(&c);
    unix_client_close(&c);
    own_stop(&o);
    refused("the blob is refused until less is held");
}

/* The same, with a connection for each: the books of a context do not end with it. */
static void held_by_ended_contexts(void)
{
    enum { USERS = 2, TRIES = 8 };
    struct own o;
    int held[TRIES], n = 0;
    own_start_with(&o, true, ", \"max_contexts_per_user\": 2");
    while (n < TRIES) {
        int fd = unix_connect();
        WANT(strcmp(unix_greet(fd), "") == 0);
        held[n] = unix_create_blob(fd, APIR_RING_BLOB_ID, APIR_RING_SIZE);
        close(fd);
        if (held[n] < 0)
            break;
        n++;
    }
    if (n == TRIES)
        not_stopped("%d contexts have ended, and their memory is held", n);
    WANT(n == USERS + 1 && held[n] == -EINVAL);
    for (int i = 0; i < n; i++)
        close(held[i]);
    int fd = unix_connect();
    WANT(strcmp(unix_greet(fd), "") == 0);
    close(blob_at_last(fd, APIR_RING_BLOB_ID, APIR_RING_SIZE));
    close(fd);
    own_stop(&o);
    refused("no ring after %d contexts that have ended and hold theirs", n);
}

/* A context made and ended costs the host a process: no more of them than it says, however fast
 * this machine is. */
static void start_after_start(void)
{
    enum { TRIES = 2000 };
    struct own o;
    char reason[APIR_REASON_MAX] = "";
    int n = 0;
    own_start(&o, true);
    const int64_t began = now_ms();
    for (; n < TRIES && !*reason; n++) {
        struct unix_client c = unix_client_open();
        if (apir_load_acquire32(&c.ring->state) == APIR_STATE_LOST)
            memcpy(reason, c.ring->reason, sizeof(reason) - 1);
        unix_client_close(&c);
    }
    const int64_t most = SERVER_STARTS_AT_ONCE + (now_ms() - began) / SERVER_STARTS_EVERY_MS;
    /* The server's clock is not this one. */
    if (n > most + most / 10)
        not_stopped("%d workers were started, %d may be", n, (int)most);
    if (*reason && !strstr(reason, "faster than the host allows"))
        not_stopped("lost for another reason: %s", reason);
    own_stop(&o);
    refused("%s", *reason ? reason : "this machine starts them more slowly than it may");
}

/* A buffer is asked for and refused, again and again; returns by how much the log has grown. */
static off_t log_of_refused(struct own *o, struct guest *g, uint64_t size, uint32_t status)
{
    struct stat before, after;
    WANT(fstat(o->log, &before) == 0);
    for (int i = 0; i < 4000; i++) {
        const uint32_t reply = guest_reply(g);
        const struct apir_msg msg = {
            .code = APIR_MSG_BUFFER_ALLOC,
            .u.buffer_alloc = {.device = 0, .buffer = BUFFERS + 1, .size = size, .reply = reply},
        };
        guest_put(g, &msg);
        WANT(guest_run(g));
        const struct apir_reply_status *r = guest_reply_at(g, reply);
        if (r->status != status)
            not_stopped("%llu bytes: status %u", (unsigned long long)size, r->status);
    }
    WANT(fstat(o->log, &after) == 0);
    return after.st_size - before.st_size;
}

static void log_of_refusals(void)
{
    enum { MOST = 32768 };
    struct own o;
    struct guest g;
    setenv("APIR_LOG", "warn", 1);
    own_start_with(&o, true, ", \"context_device_memory_mib\": 1024");
    own_unix_guest(&g);
    off_t size = log_of_refused(&o, &g, UINT64_C(1) << 31, APIR_E_LIMIT);
    if (size > MOST)
        not_stopped("2 GiB where 1 is allowed: %lld bytes of log", (long long)size);
    refused("%lld bytes of log", (long long)size);
    guest_close(&g);
    own_stop(&o);

    own_start_with(&o, true, "");
    own_unix_guest(&g);
    size = log_of_refused(&o, &g, UINT64_C(1) << 45, APIR_E_NOMEM);
    if (size > 0)
        not_stopped("32 TiB: %lld bytes of log", (long long)size);
    guest_close(&g);
    own_stop(&o);
}

const struct attack_row attack_rows_limits[] = {
    {"limits-given-back", "shared memory that was given back, and is held", given_back_and_held, 0,
     0},
    {"limits-ended", "contexts that have ended, whose memory is held", held_by_ended_contexts, 0,
     0},
    {"limits-starts", "contexts made and ended in a loop", start_after_start, 0, 0},
    {"limits-log", "buffers that are refused, again and again", log_of_refusals, 0, 0},
    {0},
};
