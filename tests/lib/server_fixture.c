/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/server_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/server/vmm/render_protocol.h"
#include "protocol/atomic.h"
#include "common/fdsock.h"
#include "tests/lib/clock.h"
#include "tests/lib/fds.h"
#include "tests/lib/processes.h"

bool fixture_stream;

bool fixture_posix(void)
{
    return getenv("APIR_TEST_POSIX");
}

static void write_config(struct fixture *f, const char *config)
{
    strcpy(f->config, "/tmp/apir-test-XXXXXX");
    int fd = mkostemp(f->config, O_CLOEXEC);
    assert_true(fd >= 0);
    /* Who tests spare workers, or the shader cache, says so: others count processes. */
    const char *spares = config && strstr(config, "spare_workers") ? "" : ", \"spare_workers\": 0";
    const char *fill = config && strstr(config, "shader_seconds") ? "" : ", \"shader_seconds\": 0";
    const char *comma = config && *config ? ", " : "";
    if (config && strstr(config, "\"worker\""))
        dprintf(fd, "{ %s%s%s }\n", config, spares, fill);
    else if (config)
        dprintf(fd, "{ \"worker\": \"%s\"%s%s%s%s }\n", process_built("tests/process/fake_worker"),
                spares, fill, comma, config);
    else
        dprintf(fd, "{ \"no_such_key\": 1 }\n");
    close(fd);
}

/* What a child becomes a server with; each of the last four only where its option is given. */
struct birth {
    const struct fixture *f;
    const char *fault;
    int out;                     /* its stdout, or -1 */
    const struct rlimit *nofile; /* or NULL */
    const int *fds;              /* what --listen-fds is told of, or NULL */
    int n_fds;
    pid_t listen_pid; /* 0: its own */
};

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static void server_prepare(void *user)
{
    const struct birth *b = user;
    signal(SIGCHLD, SIG_IGN); /* as virgl_test_server leaves it */
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    setenv("APIR_CONFIG", b->f->config, 1);
    setenv("FAKE_WORKER", b->fault ? b->fault : "", 1);
    setenv("GGML_BACKEND_PATH", "/guest/only", 1);
    const char *visible = getenv("FIXTURE_VISIBLE_DEVICES"); /* for a real worker */
    setenv("GGML_VK_VISIBLE_DEVICES", visible ? visible : "", 1);
    if (!getenv("APIR_LOG"))
        setenv("APIR_LOG", "error", 1);
    if (b->f->client >= 0)
        close(b->f->client);
    if (b->out >= 0)
        dup2(b->out, STDOUT_FILENO);
    if (b->nofile)
        setrlimit(RLIMIT_NOFILE, b->nofile);
    if (!b->fds)
        return;
    for (int i = 0; i < b->n_fds; i++) /* they lie above 3 + n_fds, see to it */
        dup2(b->fds[i], 3 + i);
    set_number("LISTEN_PID", b->listen_pid ? b->listen_pid : getpid());
    set_number("LISTEN_FDS", b->n_fds);
    setenv("LISTEN_FDNAMES", "apir-host.socket", 1);
    if (b->n_fds != 1 || b->listen_pid) /* its complaint is expected */
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
}

static void server_start(struct fixture *f, const char *config, struct birth b, const char *option,
                         const char *value)
{
    write_config(f, config);
    b.f = f;
    const char *const argv[] = {process_built("backend/apir-render-server"), option, value, NULL};
    f->pid = process_spawn(argv, NULL, server_prepare, &b);
}

void fixture_start(struct fixture *f, const char *config, const char *fault)
{
    int sockets[2];
    char number[16];
    /* As virglrenderer makes it: neither end is close-on-exec. */
    const int type = fixture_stream || fixture_posix() ? SOCK_STREAM : SOCK_SEQPACKET;
    assert_int_equal(socketpair(AF_UNIX, type, 0, sockets), 0);
    snprintf(number, sizeof(number), "%d", sockets[1]);
    f->client = sockets[0];
    server_start(f, config, (struct birth){.fault = fault, .out = -1}, "--socket-fd", number);
    close(sockets[1]);
    const struct timeval limit = {.tv_sec = FIXTURE_WAIT_MS / 1000};
    setsockopt(f->client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    const struct render_client_init init = {.op = RENDER_CLIENT_INIT, .flags = 0};
    fixture_send(f->client, &init, sizeof(init), NULL, 0);
}

void fixture_start_listening(struct fixture *f, const char *config, const char *fault,
                             const char *path, const struct rlimit *nofile)
{
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    f->client = -1;
    server_start(f, config, (struct birth){.fault = fault, .out = out[1], .nofile = nofile},
                 "--listen", path);
    close(out[1]);
    /* It says so once it listens, and nothing before. */
    char line[256];
    struct pollfd p = {.fd = out[0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, FIXTURE_WAIT_MS), 1);
    ssize_t n = read(out[0], line, sizeof(line) - 1);
    line[n > 0 ? n : 0] = '\0';
    close(out[0]);
    assert_non_null(strstr(line, "listening on"));
}

void fixture_start_with_fds(struct fixture *f, const char *config, const int *fds, int n,
                            pid_t listen_pid)
{
    f->client = -1;
    server_start(f, config,
                 (struct birth){.out = -1, .fds = fds, .n_fds = n, .listen_pid = listen_pid},
                 "--listen-fds", NULL);
}

int fixture_wait_exit(struct fixture *f)
{
    const int status = process_end(f->pid, FIXTURE_WAIT_MS);
    if (status < 0)
        process_kill(f->pid);
    unlink(f->config);
    assert_true(status >= 0);
    return status;
}

void fixture_stop(struct fixture *f)
{
    if (f->client >= 0)
        close(f->client);
    else
        kill(f->pid, SIGTERM);
    assert_int_equal(fixture_wait_exit(f), 0);
}

static bool is_stream(int fd)
{
    int type = 0;
    socklen_t size = sizeof(type);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size), 0);
    return type == SOCK_STREAM;
}

/* Over a stream in two parts, as virglrenderer sends it. */
void fixture_send(int fd, const void *data, size_t size, const int *fds, size_t n_fds)
{
    if (is_stream(fd)) {
        const uint32_t length = htonl((uint32_t)size);
        assert_int_equal(apir_fdsock_send_some(fd, &length, sizeof(length), fds, n_fds),
                         sizeof(length));
        n_fds = 0;
    }
    assert_int_equal(apir_fdsock_send_some(fd, data, size, fds, n_fds), size);
}

/* Of bytes of which so many have come; returns how many descriptors came with them, one at most. */
static size_t receive_all(int fd, void *data, size_t size, int *ret_fd)
{
    int fds[APIR_FDSOCK_FDS_ALL];
    size_t got = 0, n_fds = 0;
    assert_int_equal(apir_fdsock_recv_strange(fd, data, size, &got, fds, &n_fds, 0), 0);
    assert_int_equal(got, size);
    assert_true(n_fds <= (ret_fd ? 1 : 0));
    if (n_fds)
        *ret_fd = fds[0];
    return n_fds;
}

size_t fixture_receive(int fd, void *data, size_t size, int *ret_fd)
{
    uint32_t length;
    *ret_fd = -1;
    if (!is_stream(fd))
        return receive_all(fd, data, size, ret_fd);
    const size_t n_fds = receive_all(fd, &length, sizeof(length), ret_fd);
    assert_int_equal(ntohl(length), size);
    assert_int_equal(receive_all(fd, data, size, NULL), 0);
    return n_fds;
}

int fixture_create_context(struct fixture *f, uint32_t id, const char *name)
{
    struct render_client_create_context req = {
        .op = RENDER_CLIENT_CREATE_CONTEXT,
        .context_id = id,
    };
    memcpy(req.name, name, strnlen(name, sizeof(req.name)));
    fixture_send(f->client, &req, sizeof(req), NULL, 0);
    struct render_client_create_context_reply reply;
    int fd;
    size_t n_fds = fixture_receive(f->client, &reply, sizeof(reply), &fd);
    assert_int_equal(reply.ok, n_fds);
    if (!reply.ok)
        return -1;
    const struct timeval limit = {.tv_sec = FIXTURE_WAIT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

void fixture_destroy_context(struct fixture *f, uint32_t id)
{
    const struct render_client_destroy_context req = {
        .op = RENDER_CLIENT_DESTROY_CONTEXT,
        .context_id = id,
    };
    fixture_send(f->client, &req, sizeof(req), NULL, 0);
}

void fixture_init_context(struct fixture_context *c, int fd)
{
    assert_true(fd >= 0);
    *c = (struct fixture_context){.fd = fd};
    c->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(c->eventfd >= 0);
    const size_t size = 64 * sizeof(uint32_t);
    int shmem = memfd_create("timeline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(shmem >= 0);
    assert_int_equal(ftruncate(shmem, (off_t)size), 0);
    c->timeline = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, shmem, 0);
    assert_true(c->timeline != MAP_FAILED);
    const struct render_context_init init = {.op = RENDER_CONTEXT_INIT, .shmem_size = size};
    fixture_send(fd, &init, sizeof(init), (const int[]){shmem, c->eventfd}, 2);
    close(shmem);
}

void fixture_open(struct fixture *f, struct fixture_context *c, uint32_t id)
{
    fixture_init_context(c, fixture_create_context(f, id, APIR_CONTEXT_NAME));
}

void fixture_open_ring(struct fixture_context *c, bool ready)
{
    int fd = fixture_create_blob(c, 1, APIR_RING_BLOB_ID, APIR_RING_SIZE);
    assert_true(fd >= 0);
    c->ring = mmap(NULL, APIR_RING_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(c->ring != MAP_FAILED);
    close(fd);
    if (ready)
        fixture_wait_state(c, APIR_STATE_READY);
}

void fixture_open_ready(struct fixture *f, struct fixture_context *c, uint32_t id)
{
    fixture_open(f, c, id);
    fixture_open_ring(c, true);
}

void fixture_close(struct fixture_context *c)
{
    if (c->ring)
        munmap(c->ring, APIR_RING_HEADER_SIZE);
    munmap(c->timeline, 64 * sizeof(uint32_t));
    close(c->eventfd);
    close(c->fd);
}

int fixture_create_blob(const struct fixture_context *c, uint32_t res_id, uint64_t blob_id,
                        uint64_t size)
{
    const struct render_context_create_resource req = {
        .op = RENDER_CONTEXT_CREATE_RESOURCE,
        .res_id = res_id,
        .blob_id = blob_id,
        .blob_size = size,
        .blob_flags = 1,
    };
    fixture_send(c->fd, &req, sizeof(req), NULL, 0);
    struct render_context_create_resource_reply reply;
    int fd;
    size_t n_fds = fixture_receive(c->fd, &reply, sizeof(reply), &fd);
    if (reply.fd_type == RENDER_FD_INVALID) {
        assert_int_equal(n_fds, 0);
        return -1;
    }
    assert_int_equal(n_fds, 1);
    assert_int_equal(reply.fd_type, RENDER_FD_SHM);
    assert_int_equal(reply.map_info, RENDER_MAP_CACHED);
    assert_int_equal(lseek(fd, 0, SEEK_END), (off_t)size);
    if (fixture_posix())
        return fd;
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE, 0);
    return fd;
}

void fixture_take_blob(const struct fixture_context *c, uint32_t res_id, uint64_t blob_id,
                       uint64_t size)
{
    int fd = fixture_create_blob(c, res_id, blob_id, size);
    assert_true(fd >= 0);
    close(fd);
}

void fixture_destroy_resource(const struct fixture_context *c, uint32_t res_id)
{
    const struct render_context_destroy_resource req = {
        .op = RENDER_CONTEXT_DESTROY_RESOURCE,
        .res_id = res_id,
    };
    fixture_send(c->fd, &req, sizeof(req), NULL, 0);
}

static int transport_blob_create(struct transport *t, uint64_t blob_id, uint64_t size,
                                 struct transport_blob *ret_blob)
{
    const struct fixture_context c = {.fd = t->fd};
    const uint32_t res_id = 100 + (uint32_t)blob_id;
    int fd = fixture_create_blob(&c, res_id, blob_id, size);
    if (fd < 0)
        return -EINVAL;
    if (!fixture_posix())
        return transport_map(fd, size, res_id, ret_blob);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    *ret_blob = (struct transport_blob){.map = map, .size = size, .handle = res_id};
    return map == MAP_FAILED ? -ENOMEM : 0;
}

static void transport_blob_destroy(struct transport *t, struct transport_blob *blob)
{
    const struct fixture_context c = {.fd = t->fd};
    munmap(blob->map, blob->size);
    fixture_destroy_resource(&c, blob->handle);
}

static int transport_doorbell(struct transport *t, const struct apir_doorbell *bell)
{
    const struct fixture_context c = {.fd = t->fd};
    fixture_doorbell(&c, bell->op, bell->value);
    return 0;
}

struct transport fixture_transport(int fd)
{
    return (struct transport){.fd = fd,
                              .same_kernel = true,
                              .blob_create = transport_blob_create,
                              .blob_destroy = transport_blob_destroy,
                              .doorbell = transport_doorbell};
}

void fixture_doorbell(const struct fixture_context *c, uint32_t op, uint64_t value)
{
    const struct apir_doorbell bell = {
        .magic = APIR_DOORBELL_MAGIC,
        .op = op,
        .value = value,
    };
    struct render_context_submit_cmd cmd = {
        .op = RENDER_CONTEXT_SUBMIT_CMD,
        .size = sizeof(bell),
    };
    memcpy(cmd.cmd, &bell, sizeof(bell));
    fixture_send(c->fd, &cmd, sizeof(cmd), NULL, 0);
}

void fixture_fence(const struct fixture_context *c, uint32_t ring, uint32_t seqno)
{
    const struct render_context_submit_fence req = {
        .op = RENDER_CONTEXT_SUBMIT_FENCE,
        .ring_index = ring,
        .seqno = seqno,
    };
    fixture_send(c->fd, &req, sizeof(req), NULL, 0);
}

void fixture_sync(const struct fixture_context *c)
{
    assert_int_equal(fixture_create_blob(c, 9999, APIR_BLOBS_MAX, APIR_SHM_ALIGN), -1);
}

void fixture_work(const struct fixture_context *c, uint64_t tail)
{
    apir_store_release64(&c->ring->tail, tail);
    fixture_doorbell(c, APIR_DOORBELL_KICK, 0);
}

void fixture_expect_alive(const struct fixture_context *c)
{
    static uint32_t nonce = 100;
    fixture_doorbell(c, APIR_DOORBELL_PING, ++nonce);
    fixture_sync(c);
    assert_int_equal(apir_load_acquire32(&c->ring->pong), nonce);
    assert_int_equal(apir_load_acquire32(&c->ring->state), APIR_STATE_READY);
}

void fixture_wait_state(const struct fixture_context *c, uint32_t state)
{
    WAIT_FOR(apir_load_acquire32(&c->ring->state) == state, FIXTURE_WAIT_MS);
    assert_int_equal(apir_load_acquire32(&c->ring->state), state);
}

void fixture_wait_timeline(const struct fixture_context *c, uint32_t ring, uint32_t seqno)
{
    int64_t end = now_ms() + FIXTURE_WAIT_MS;
    while (apir_load_acquire32(&c->timeline[ring]) != seqno && now_ms() < end) {
        /* As virglrenderer's sync thread waits. */
        struct pollfd fd = {.fd = c->eventfd, .events = POLLIN};
        poll(&fd, 1, (int)(end - now_ms()));
        uint64_t count;
        ssize_t ignored = read(c->eventfd, &count, sizeof(count));
        (void)ignored;
    }
    assert_int_equal(apir_load_acquire32(&c->timeline[ring]), seqno);
}

void fixture_expect_lost(const struct fixture_context *c, const char *reason)
{
    fixture_wait_state(c, APIR_STATE_LOST);
    if (!strstr(c->ring->reason, reason))
        fail_msg("the reason is: %s", c->ring->reason);
    fixture_sync(c);
}

void fixture_wait_head(const struct fixture_context *c, uint64_t head)
{
    WAIT_FOR(apir_load_acquire64(&c->ring->head) >= head, FIXTURE_WAIT_MS);
    assert_true(apir_load_acquire64(&c->ring->head) >= head);
}

void fixture_wait_hangup(int fd)
{
    struct pollfd p = {.fd = fd};
    assert_int_equal(poll(&p, 1, FIXTURE_WAIT_MS), 1);
    assert_true(p.revents & POLLHUP);
}

void fixture_wait_reaped(pid_t pid)
{
    WAIT_FOR(kill(pid, 0) != 0, FIXTURE_WAIT_MS);
    assert_int_equal(kill(pid, 0), -1);
}

void fixture_wait_gone(pid_t pid)
{
    WAIT_FOR(!process_lives(pid), FIXTURE_WAIT_MS);
    assert_false(process_lives(pid));
}

pid_t fixture_child(const struct fixture *f, const char *name, unsigned *ret_count)
{
    return process_child(f->pid, name, ret_count);
}

unsigned fixture_workers(const struct fixture *f)
{
    unsigned n = 0;
    fixture_child(f, "fake_worker", &n);
    return n;
}

void fixture_wait_childless(const struct fixture *f)
{
    pid_t child;
    WAIT_FOR((child = fixture_child(f, "", NULL)) <= 0, FIXTURE_WAIT_MS);
    assert_int_equal(child, -1);
}

size_t fixture_count_fds(const struct fixture *f)
{
    int count = fds_count(f->pid);
    assert_true(count >= 0);
    return (size_t)count;
}

void fixture_expect_fds(const struct fixture *f, size_t most)
{
    size_t count;
    WAIT_FOR((count = fixture_count_fds(f)) <= most, FIXTURE_WAIT_MS);
    assert_true(count <= most);
}
