/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of the unix transport can do to the server: any messages, with and without
 * descriptors, hung up at any point. The server's own code behind a socket pair; only the worker's
 * process is not started.
 *
 * Input, per message: u8 how many descriptors (low 3 bits; bit 7: the client reads all answers
 * before it; bit 6: hello, or a request, of the right size), u8 size, then the bytes.
 */
#define _GNU_SOURCE
#include "tests/hostile/fuzz/fuzz.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/server/child.h"
#include "backend/server/context.h"
#include "backend/server/unix/unix.h"
#include "common/fdsock.h"
#include "common/log.h"
#include "protocol/unix.h"
#include "tests/lib/fds.h"

const char fuzz_corpus[] = "unix";

/* As if it had been started, and not yet said anything. */
FUZZ_DEFINE(int __wrap_server_child_start(
    struct server_children *children, struct server_child *child,
    const struct server_child_spec *spec,
    void (*changed)(void *user, enum server_child_change change, int status), void *user))
{
    *child = (struct server_child){.changed = changed, .user = user};
    return 0;
}

/* At once: what is left behind is counted. */
FUZZ_DEFINE(bool __wrap_server_free_later(int fd, uint64_t size, uint32_t *done))
{
    (void)size;
    close(fd);
    if (done)
        *done = 1;
    return true;
}

static struct server_loop loop;
static struct server_children children;
static struct apir_config config = {.max_contexts = 4, .context_shm_mib = 4, .class_shm_mib = 5};
static struct server_contexts contexts;

/* Lets the server do all there is to do. */
static void run(void)
{
    int rc;
    while ((rc = server_loop_turn(&loop, 0)) == 1) {
    }
    FUZZ_CHECK(rc == 0);
}

static void drain(int fd)
{
    struct apir_unix_welcome any;
    int fds[APIR_FDSOCK_FDS_MAX];
    size_t size = 0;
    size_t n_fds = 0;
    while (apir_fdsock_recv(fd, &any, sizeof(any), &size, fds, APIR_FDSOCK_FDS_MAX, &n_fds,
                            MSG_DONTWAIT) == 0 &&
           size > 0) {
        FUZZ_CHECK(size == sizeof(struct apir_unix_welcome) ||
                   size == sizeof(struct apir_unix_answer));
        for (size_t i = 0; i < n_fds; i++)
            close(fds[i]);
    }
}

static void check_invariants(void)
{
    FUZZ_CHECK(contexts.books.bytes <= (uint64_t)config.class_shm_mib << 20);
    const struct server_context *c = contexts.first;
    if (!c)
        return;
    uint64_t total = 0;
    for (uint32_t i = 0; i < APIR_BLOBS_MAX; i++)
        total += c->blobs[i].size;
    FUZZ_CHECK(total <= contexts.books.bytes);
    FUZZ_CHECK(total == c->shm_size && total <= (uint64_t)config.context_shm_mib << 20);
    FUZZ_CHECK(!c->next && contexts.n_served == 1 && contexts.n_refused == 0);
}

static void set_up(void)
{
    apir_log_set_level(APIR_LOG_ERROR);
    signal(SIGPIPE, SIG_IGN);
    FUZZ_CHECK(server_loop_init(&loop) == 0);
    children.loop = &loop;
}

/* Where the devices are tried first that has no end, and contexts wait. */
static void start(bool tried)
{
    contexts = (struct server_contexts){
        .env = {.loop = &loop,
                .children = &children,
                .config = &config,
                .worker_path = "/bin/true"},
        .max_per_user = 4,
    };
    FUZZ_CHECK(server_contexts_init(&contexts) == 0);
    if (tried)
        contexts.trial.state = SERVER_TRIAL_PASSED;
}

static void stop(void)
{
    (void)server_shm_ended(
        &contexts.books,
        server_users_get(&contexts.users, 1000)); /* nobody holds anything: what waits is closed */
    FUZZ_CHECK(!contexts.books.first && contexts.books.bytes == 0);
    server_contexts_fini(&contexts);
    FUZZ_CHECK(!loop.timers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t right_sizes[] = {sizeof(struct apir_unix_hello),
                                         sizeof(struct apir_unix_request)};
    static bool is_set_up;
    int sockets[2];
    if (!is_set_up)
        set_up();
    is_set_up = true;
    const int before = fds_count(0); /* the fuzzer itself opens some between inputs */
    start(!(size > 0 && data[0] & 0x20));
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
    FUZZ_CHECK(server_unix_create(&contexts, 1, server_users_get(&contexts.users, 1000), 0,
                                  sockets[1]) == 0);
    const int fds[APIR_FDSOCK_FDS_MAX] = {2, 2, 2, 2, 2, 2, 2, 2};
    bool first = true;
    while (size >= 2) {
        const uint8_t flags = data[0];
        size_t n = flags & 0x40 ? right_sizes[!first] : data[1];
        data += 2;
        size -= 2;
        if (n > size)
            n = size;
        if (flags & 0x80)
            drain(sockets[0]);
        if (n > 0)
            (void)apir_fdsock_send(sockets[0], data, n, fds, flags & 7);
        data += n;
        size -= n;
        first = false;
        run();
        check_invariants();
    }
    close(sockets[0]);
    run();
    FUZZ_CHECK(!contexts.first && contexts.n_served == 0);
    stop();
    while (fds_count(0) > before) /* threads close what was sent */
        sched_yield();
    FUZZ_CHECK(before > 0 && fds_count(0) == before);
    return 0;
}
