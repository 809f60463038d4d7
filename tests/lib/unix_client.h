/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that listens, and clients of it without a plug-in: each sends what its test says.
 * Whatever does not work here fails the test; every wait has a time-out.
 */
#ifndef APIR_TEST_UNIX_CLIENT_H
#define APIR_TEST_UNIX_CLIENT_H

#include <stdint.h>
#include <sys/types.h>

#include "protocol/unix.h"
#include "tests/lib/server_fixture.h"

#define ARENA_SIZE (1u << 20)

/* The server of the test at hand. */
extern struct unix_host {
    struct fixture f;
    char dir[64];
    char path[80]; /* of the socket */
    size_t n_fds;  /* the server's, before there was any client */
} unix_host;

struct unix_client {
    int fd;
    struct apir_ring_header *ring; /* the header page */
};

/* A folder of its own for the socket; the server in it (as fixture_start_listening has it). */
void unix_make_dir(void);
void unix_start(const char *config, const char *fault);
/* cmocka's: a server of the default configuration; its end, which removes the socket. */
int unix_set_up(void **state);
int unix_tear_down(void **state);

/* The connection without a word said, or -1. */
int unix_connect(void);
void unix_send_hello(int fd, uint32_t major);
struct apir_unix_welcome unix_receive_welcome(int fd);
/* The whole greeting; a refusal's text, or "". */
const char *unix_greet(int fd);
void unix_request(int fd, uint32_t op, uint32_t blob_id, uint64_t value);
/* The memfd, or -errno as answered. */
int unix_receive_blob(int fd, uint32_t blob_id);
int unix_create_blob(int fd, uint32_t blob_id, uint64_t size);
/* One that must be given, and is let go of at once. */
void unix_take_blob(int fd, uint32_t blob_id, uint64_t size);
/* Takes the memfd. */
struct apir_ring_header *unix_map_ring(int memfd);

/* Connected and greeted; with its ring. */
int unix_connect_greeted(void);
struct unix_client unix_client_open(void);
void unix_client_wait_state(const struct unix_client *c, uint32_t state);
void unix_client_close(struct unix_client *c);

/* Until the server has answered a ping: it lives, and has done all that came before. */
void unix_expect_alive(const struct unix_client *c);
/* The server has closed this connection; fd is closed. */
void unix_expect_closed(int fd);
/* Nothing is left of any connection: no process, no descriptor. */
void unix_expect_nothing_left(void);

/*
 * A test (unit.h) of such a server, which has a client `c` whose worker is READY. After it the
 * client is closed, and nothing may be left of any connection.
 */
#define UNIX_TEST(name)                                                                            \
    static void name##_of(struct unix_client *c);                                                  \
    TEST_WITHIN(name, unix_set_up, unix_tear_down)                                                 \
    {                                                                                              \
        struct unix_client c = unix_client_open();                                                 \
        unix_client_wait_state(&c, APIR_STATE_READY);                                              \
        name##_of(&c);                                                                             \
        unix_client_close(&c);                                                                     \
        unix_expect_nothing_left();                                                                \
    }                                                                                              \
    static void name##_of(struct unix_client *c)

#endif
