/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built apir-render-server as a child process, with this test in
 * virglrenderer's place. Whatever does not work here fails the test; every wait
 * has a time-out.
 */
#ifndef APIR_TEST_SERVER_FIXTURE_H
#define APIR_TEST_SERVER_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "frontend/link/transport.h"
#include "protocol/shm.h"
#include "tests/lib/clock.h"

#define FIXTURE_WAIT_MS patient_ms(5000)
#define NO_STOCK        "\"stock_server\": false"

struct fixture {
    pid_t pid;
    int client;      /* -1: the server listens instead */
    char config[64]; /* path of the configuration file */
};

struct fixture_context {
    int fd;
    int eventfd;
    uint32_t *timeline;
    struct apir_ring_header *ring; /* the header page */
};

/* Servers that are started from now on get a stream socket (backend/server/vmm/framing.h). */
extern bool fixture_stream;
/* The server is one with what macOS has, too (tests/macos/run.sh): stream sockets, memory without
 * seals. */
bool fixture_posix(void);

/*
 * Starts the server. config: members of the JSON object ("" for none), to which
 * the fake worker is added unless they name one; NULL: a broken file. fault: the fake worker's.
 */
void fixture_start(struct fixture *f, const char *config, const char *fault);
/* The same with --listen PATH; returns once it listens. nofile: its limit, or NULL. */
void fixture_start_listening(struct fixture *f, const char *config, const char *fault,
                             const char *path, const struct rlimit *nofile);
/* The same with --listen-fds and these (above 2 + n); listen_pid 0: its own. */
void fixture_start_with_fds(struct fixture *f, const char *config, const int *fds, int n,
                            pid_t listen_pid);
/* Closes the client socket, or sends SIGTERM; the server must exit with 0. */
void fixture_stop(struct fixture *f);
/* Until it ends by itself: its wait status. */
int fixture_wait_exit(struct fixture *f);

/* The context's socket, or -1 where it was refused. */
int fixture_create_context(struct fixture *f, uint32_t id, const char *name);
void fixture_destroy_context(struct fixture *f, uint32_t id);

/* CREATE_CONTEXT "apir:1" and INIT with timeline and eventfd. */
void fixture_open(struct fixture *f, struct fixture_context *c, uint32_t id);
/* The same for any socket. */
void fixture_init_context(struct fixture_context *c, int fd);
/* Blob 0 of the usual size as resource 1, mapped; waits for READY where ready. */
void fixture_open_ring(struct fixture_context *c, bool ready);
/* The three above: a context whose worker is READY. */
void fixture_open_ready(struct fixture *f, struct fixture_context *c, uint32_t id);
void fixture_close(struct fixture_context *c);

/* The memfd (checked as virglrenderer does, with its seals added), or -1 where refused. */
int fixture_create_blob(const struct fixture_context *c, uint32_t res_id, uint64_t blob_id,
                        uint64_t size);
/* One that must be given, and is let go of at once. */
void fixture_take_blob(const struct fixture_context *c, uint32_t res_id, uint64_t blob_id,
                       uint64_t size);
void fixture_destroy_resource(const struct fixture_context *c, uint32_t res_id);
/* A context of this socket as what a client of ours speaks over. */
struct transport fixture_transport(int fd);
void fixture_doorbell(const struct fixture_context *c, uint32_t op, uint64_t value);
void fixture_fence(const struct fixture_context *c, uint32_t ring, uint32_t seqno);
/* NOP and a refused blob: answered in order, so all before it has been handled. */
void fixture_sync(const struct fixture_context *c);
/* Work up to `tail` is there: written and kicked. */
void fixture_work(const struct fixture_context *c, uint64_t tail);
/* The server answers its ping, and it is READY. */
void fixture_expect_alive(const struct fixture_context *c);

/* A message over a socket of either kind. */
void fixture_send(int fd, const void *data, size_t size, const int *fds, size_t n_fds);
/* A reply of this size; returns how many descriptors came with it, of at most one. */
size_t fixture_receive(int fd, void *data, size_t size, int *ret_fd);

/* Wait, and fail the test after FIXTURE_WAIT_MS. */
void fixture_wait_state(const struct fixture_context *c, uint32_t state);
/* It is LOST with this in the reason, and its socket answers. */
void fixture_expect_lost(const struct fixture_context *c, const char *reason);
/* Until the worker has completed all up to `head`. */
void fixture_wait_head(const struct fixture_context *c, uint64_t head);
void fixture_wait_timeline(const struct fixture_context *c, uint32_t ring, uint32_t seqno);
void fixture_wait_hangup(int fd);
/* Until the server has noticed the end of this child. */
void fixture_wait_reaped(pid_t pid);
/* Until /proc/PID says that there is no such process (or a zombie of somebody else's). */
void fixture_wait_gone(pid_t pid);

/* The server's children whose command line holds `name`: returns one, and how many. */
pid_t fixture_child(const struct fixture *f, const char *name, unsigned *ret_count);
/* How many workers of the fake kind it has. */
unsigned fixture_workers(const struct fixture *f);
/* Until the server has no child left that is not a zombie. */
void fixture_wait_childless(const struct fixture *f);
size_t fixture_count_fds(const struct fixture *f);
/* Until it has no more than so many: what a worker held at its end is let go of a little later. */
void fixture_expect_fds(const struct fixture *f, size_t most);

/*
 * A test (unit.h) of a server with this configuration and fault, which has f and c: the context 1
 * of the server, READY. Both are ended after it.
 */
#define CONTEXT_TEST(name, config, fault)                                                          \
    static void name##_within(struct fixture *f, struct fixture_context *c);                       \
    TEST(name)                                                                                     \
    {                                                                                              \
        struct fixture f;                                                                          \
        struct fixture_context c;                                                                  \
        fixture_start(&f, config, fault);                                                          \
        fixture_open_ready(&f, &c, 1);                                                             \
        name##_within(&f, &c);                                                                     \
        fixture_close(&c);                                                                         \
        fixture_stop(&f);                                                                          \
    }                                                                                              \
    static void name##_within(struct fixture *f __attribute__((unused)),                           \
                              struct fixture_context *c __attribute__((unused)))

#endif
