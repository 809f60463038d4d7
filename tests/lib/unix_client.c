/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/unix_client.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/atomic.h"
#include "common/fdsock.h"
#include "tests/lib/clock.h"

struct unix_host unix_host;

/* ---- a client -------------------------------------------------------------------- */

int unix_connect(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, unix_host.path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        close(fd);
        return -1;
    }
    const struct timeval limit = {.tv_sec = FIXTURE_WAIT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

void unix_send_hello(int fd, uint32_t major)
{
    const struct apir_unix_hello hello = {.magic = APIR_UNIX_MAGIC, .major = major};
    (void)apir_fdsock_send(fd, &hello, sizeof(hello), NULL, 0); /* a refusal may have ended it */
}

struct apir_unix_welcome unix_receive_welcome(int fd)
{
    struct apir_unix_welcome welcome = {0};
    size_t size = 0;
    int rc = apir_fdsock_recv(fd, &welcome, sizeof(welcome), &size, NULL, 0, NULL, 0);
    if (rc == -ECONNRESET) /* closed with our hello unread; what was sent is there all the same */
        rc = apir_fdsock_recv(fd, &welcome, sizeof(welcome), &size, NULL, 0, NULL, 0);
    assert_int_equal(rc, 0);
    assert_int_equal(size, sizeof(welcome));
    assert_true(welcome.magic == APIR_UNIX_MAGIC);
    assert_int_equal(welcome.major, APIR_PROTOCOL_MAJOR);
    return welcome;
}

const char *unix_greet(int fd)
{
    static char text[APIR_REASON_MAX];
    unix_send_hello(fd, APIR_PROTOCOL_MAJOR);
    const struct apir_unix_welcome welcome = unix_receive_welcome(fd);
    assert_int_equal(welcome.status != 0, welcome.text[0] != '\0');
    memcpy(text, welcome.text, sizeof(text));
    return text;
}

void unix_request(int fd, uint32_t op, uint32_t blob_id, uint64_t value)
{
    const struct apir_unix_request req = {.op = op, .blob_id = blob_id, .value = value};
    fixture_send(fd, &req, sizeof(req), NULL, 0);
}

int unix_receive_blob(int fd, uint32_t blob_id)
{
    struct apir_unix_answer answer;
    size_t size = 0;
    size_t n_fds = 0;
    int memfd = -1;
    assert_int_equal(apir_fdsock_recv(fd, &answer, sizeof(answer), &size, &memfd, 1, &n_fds, 0), 0);
    assert_int_equal(size, sizeof(answer));
    assert_int_equal(answer.op, APIR_UNIX_BLOB_CREATE);
    assert_int_equal(answer.blob_id, blob_id);
    assert_int_equal(n_fds, answer.status == 0);
    return answer.status ? -(int)answer.status : memfd;
}

int unix_create_blob(int fd, uint32_t blob_id, uint64_t size)
{
    unix_request(fd, APIR_UNIX_BLOB_CREATE, blob_id, size);
    return unix_receive_blob(fd, blob_id);
}

void unix_take_blob(int fd, uint32_t blob_id, uint64_t size)
{
    const int memfd = unix_create_blob(fd, blob_id, size);
    assert_true(memfd >= 0);
    close(memfd);
}

struct apir_ring_header *unix_map_ring(int memfd)
{
    assert_true(memfd >= 0);
    void *ring = mmap(NULL, APIR_RING_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    assert_true(ring != MAP_FAILED);
    close(memfd);
    return ring;
}

int unix_connect_greeted(void)
{
    const int fd = unix_connect();
    assert_true(fd >= 0);
    assert_string_equal(unix_greet(fd), "");
    return fd;
}

struct unix_client unix_client_open(void)
{
    struct unix_client c = {.fd = unix_connect_greeted()};
    c.ring = unix_map_ring(unix_create_blob(c.fd, APIR_RING_BLOB_ID, APIR_RING_SIZE));
    return c;
}

void unix_client_wait_state(const struct unix_client *c, uint32_t state)
{
    const struct fixture_context context = {.ring = c->ring};
    fixture_wait_state(&context, state);
}

void unix_client_close(struct unix_client *c)
{
    munmap(c->ring, APIR_RING_HEADER_SIZE);
    close(c->fd);
}

void unix_expect_alive(const struct unix_client *c)
{
    static uint32_t nonce = 100;
    nonce++;
    unix_request(c->fd, APIR_UNIX_PING, 0, nonce);
    /* Refused, but answered in order. */
    assert_int_equal(unix_create_blob(c->fd, APIR_RING_BLOB_ID, APIR_RING_SIZE), -EINVAL);
    assert_int_equal(apir_load_acquire32(&c->ring->pong), nonce);
}

void unix_expect_closed(int fd)
{
    struct apir_unix_welcome any;
    fixture_wait_hangup(fd);
    ssize_t n;
    do {
        n = recv(fd, &any, sizeof(any), MSG_DONTWAIT);
    } while (n > 0);
    assert_true(n == 0 || errno == ECONNRESET);
    close(fd);
}

void unix_expect_nothing_left(void)
{
    fixture_wait_childless(&unix_host.f);
    size_t count;
    WAIT_FOR((count = fixture_count_fds(&unix_host.f)) == unix_host.n_fds, FIXTURE_WAIT_MS);
    assert_int_equal(count, unix_host.n_fds);
}

/* ---- set-up ------------------------------------------------------------------------ */

void unix_make_dir(void)
{
    strcpy(unix_host.dir, "/tmp/apir-unix-XXXXXX");
    assert_non_null(mkdtemp(unix_host.dir));
    assert_int_equal(chmod(unix_host.dir, 0755), 0);
    snprintf(unix_host.path, sizeof(unix_host.path), "%s/apir.sock", unix_host.dir);
}

void unix_start(const char *config, const char *fault)
{
    unix_make_dir();
    fixture_start_listening(&unix_host.f, config, fault, unix_host.path, NULL);
    unix_host.n_fds = fixture_count_fds(&unix_host.f);
}

int unix_set_up(void **state)
{
    (void)state;
    unix_start("", NULL);
    return 0;
}

int unix_tear_down(void **state)
{
    (void)state;
    fixture_stop(&unix_host.f);
    /* It takes its socket along. */
    assert_int_equal(access(unix_host.path, F_OK), -1);
    assert_int_equal(rmdir(unix_host.dir), 0);
    return 0;
}
