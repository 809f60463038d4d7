/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that want more of the host than they may have, and look for a way around its books. */
#define _GNU_SOURCE
#include "tests/hostile/attacks/own.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/server/context.h"
#include "backend/server/limits/claims.h"
#include "protocol/atomic.h"
#include "common/parent.h"
#include "tests/hostile/attacks/hijacked.h"
#include "tests/lib/processes.h"
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
        int fd = -EINVAL;
        /* What is not held is gone within that. */
        for (int i = 0; i < 100 && fd == -EINVAL; i++) {
            fd = unix_create_blob(c.fd, 1, ARENA_MIB << 20);
            nap_us(5000);
        }
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
        struct unix_client c = {.fd = unix_connect()};
        WANT(strcmp(unix_greet(c.fd), "") == 0);
        /* Workers may end more slowly than that, and hold what was their contexts'. */
        c.ring = unix_map_ring(blob_at_last(c.fd, APIR_RING_BLOB_ID, APIR_RING_SIZE));
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
    enum { MOST = 65536 };
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

/* ---- memory that others are refused for ---------------------------------------------------- */

#define VICTIM_SIZE (UINT64_C(32) << 20)

/* Asks for what no machine has, and again before there is an answer; does not return. */
static _Noreturn void ask_on(struct guest *g)
{
    for (bool lives = true; lives; lives = guest_run(g)) {
        for (int i = 0; i < 100; i++) {
            const struct apir_msg msg = {
                .code = APIR_MSG_BUFFER_ALLOC,
                .u.buffer_alloc = {.buffer = BUFFERS + 1,
                                   .size = APIR_SIZE_MAX - VICTIM_SIZE / 2,
                                   .reply = guest_reply(g)},
            };
            guest_put(g, &msg);
        }
    }
    _exit(1);
}

static void ask_failed(const char *text)
{
    (void)text;
    _exit(1);
}

/* The most that a server has written down for the others, of any device. */
static uint64_t claims_most(const char *folder)
{
    char pattern[96];
    glob_t found = {0};
    uint64_t most = 0;
    snprintf(pattern, sizeof(pattern), "%s/" SERVER_CLAIMS_PREFIX "*", folder);
    WANT(glob(pattern, 0, NULL, &found) == 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct server_claim row;
        const int fd = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC);
        off_t at = (off_t)sizeof(struct server_claims_head);
        for (; pread(fd, &row, sizeof(row), at) == (ssize_t)sizeof(row); at += (off_t)sizeof(row))
            most = row.bytes > most ? row.bytes : most;
        close(fd);
    }
    globfree(&found);
    return most;
}

/* Beside a process that does so, somebody else takes 32 MiB and gives them back. */
static void take_beside(struct guest *attacker, struct guest *victim, const char *folder)
{
    enum { TIMES = 100 };
    int n_refused = 0;
    uint64_t most = 0;
    const pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        guest_on_failure = ask_failed;
        if (apir_ends_with_parent(self))
            ask_on(attacker);
        _exit(1);
    }
    for (int i = 0; i < TIMES; i++) {
        const struct apir_msg msg = {
            .code = APIR_MSG_BUFFER_ALLOC,
            .u.buffer_alloc = {.buffer = BUFFERS + 1,
                               .size = VICTIM_SIZE,
                               .reply = guest_reply(victim)},
        };
        guest_put(victim, &msg);
        const struct apir_reply_status *r =
            guest_answer(victim, "BUFFER_ALLOC", msg.u.buffer_alloc.reply);
        if (r->status == APIR_OK)
            put_free(victim, BUFFERS + 1);
        else
            n_refused++;
        for (int k = 0; k < 50; k++) {
            const uint64_t claimed = claims_most(folder);
            most = claimed > most ? claimed : most;
        }
    }
    WANT(process_end(pid, 0) == -1); /* it has gone on all the while */
    process_kill(pid);
    if (n_refused)
        not_stopped("%d of %d buffers of somebody else were refused", n_refused, TIMES);
    if (most > UINT64_C(1) << 40)
        not_stopped("other servers see that %llu MiB are in use", (unsigned long long)most >> 20);
    expect_alive(victim);
}

static void asked_for_in_vain(void)
{
    char folder[] = "/tmp/apir-limits-XXXXXX", dir[80], limited[128];
    struct own one, other;
    struct guest attacker, victim;
    /* Where the worker asks the heap for as much, it is to be told so. */
    setenv("ASAN_OPTIONS", "exitcode=99:symbolize=0:detect_leaks=0:allocator_may_return_null=1", 1);
    WANT(mkdtemp(folder));
    snprintf(dir, sizeof(dir), ", \"limits_dir\": \"%s\"", folder);
    snprintf(limited, sizeof(limited), "%s, \"device_memory_mib\": 4096", dir);
    own_start_with(&one, true, dir);
    own_unix_guest(&attacker);
    own_unix_guest(&victim);
    take_beside(&attacker, &victim, folder);
    guest_close(&attacker);
    guest_close(&victim);
    /* The same for a program of another server, which has a limit. */
    own_start_with(&other, false, limited);
    own_unix_guest(&attacker);
    own_guest(&other, &victim, 2);
    take_beside(&attacker, &victim, folder);
    refused("what cannot be is refused, and what others ask for is not");
    guest_close(&victim);
    fixture_destroy_context(other.f, 2);
    guest_close(&attacker);
    own_stop(&other);
    own_stop(&one);
    WANT(rmdir(folder) == 0);
}

/* What a worker under foreign control says is in its own books alone. */
static void claimed_by_a_worker(void)
{
    struct own o;
    struct guest victim;
    hijacked_begin();
    own_start_with(&o, true, ", \"spare_workers\": 0");
    const struct apir_msg msg = {.code = APIR_MSG_DEVICE_INFO,
                                 .u.device_info = {.reply = guest_reply(&o.bystander)}};
    guest_put(&o.bystander, &msg);
    const struct apir_reply_device_info *info =
        guest_answer(&o.bystander, "DEVICE_INFO", msg.u.device_info.reply);
    hijacked_next(info->id);
    struct unix_client c = unix_client_open();
    unix_client_wait_state(&c, APIR_STATE_READY);
    if (strcmp(c.ring->reason, "granted, refused") != 0)
        not_stopped("64 TiB, and a byte more: %s", c.ring->reason);
    own_unix_guest(&victim);
    for (uint64_t size = 1; size <= VICTIM_SIZE; size *= 4) {
        guest_alloc(&victim, BUFFERS + 1, size);
        put_free(&victim, BUFFERS + 1);
    }
    refused("64 TiB and a byte are refused, and nothing of others");
    guest_close(&victim);
    unix_client_close(&c);
    own_stop(&o);
    hijacked_end();
}

const struct attack_row attack_rows_limits[] = {
    {"limits-given-back", "shared memory that was given back, and is held", given_back_and_held, 0,
     0},
    {"limits-ended", "contexts that have ended, whose memory is held", held_by_ended_contexts, 0,
     0},
    {"limits-in-vain", "memory that no machine has, asked for again and again", asked_for_in_vain,
     0, 0},
    {"limits-claimed", "memory that a worker under foreign control only claims",
     claimed_by_a_worker, 0, 0},
    {"limits-starts", "contexts made and ended in a loop", start_after_start, 0, 0},
    {"limits-log", "buffers that are refused, again and again", log_of_refusals, 0, 0},
    {0},
};
