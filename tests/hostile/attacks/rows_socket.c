/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's two sockets: the VMM's, where the row is in libvirglrenderer's place, and the one
 * that listens for processes of this machine.
 */
#define _GNU_SOURCE
#include "tests/hostile/attacks/own.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/server/unix/unix.h"
#include "backend/server/vmm/render_protocol.h"
#include "protocol/atomic.h"
#include "tests/lib/unix_client.h"

static const size_t context_sizes[] = {
    [RENDER_CONTEXT_NOP] = 4,
    [RENDER_CONTEXT_INIT] = sizeof(struct render_context_init),
    [RENDER_CONTEXT_CREATE_RESOURCE] = sizeof(struct render_context_create_resource),
    [RENDER_CONTEXT_IMPORT_RESOURCE] = sizeof(struct render_context_import_resource),
    [RENDER_CONTEXT_DESTROY_RESOURCE] = sizeof(struct render_context_destroy_resource),
    [RENDER_CONTEXT_SUBMIT_CMD] = sizeof(struct render_context_submit_cmd),
    [RENDER_CONTEXT_SUBMIT_FENCE] = sizeof(struct render_context_submit_fence),
};

/* Whoever asks for memory is answered, even so. */
static void drop_answer(int fd)
{
    struct render_context_create_resource_reply reply;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, WAIT_MS) != 1 || recv(fd, &reply, sizeof(reply), 0) != sizeof(reply))
        not_stopped("a request for memory was not answered: the VMM waits for ever");
    WANT(reply.fd_type == RENDER_FD_INVALID);
}

/* The context is lost, its socket stays and answers. */
static void expect_violated(struct fixture_context *c, const char *what)
{
    int fd;
    /* On a busy machine those before it may still be ending, too many for another one. */
    if (!SOON((fd = fixture_create_blob(c, 1, APIR_RING_BLOB_ID, APIR_RING_SIZE)) >= 0))
        not_stopped("%s: no ring that could say why", what);
    c->ring = mmap(NULL, APIR_RING_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    WANT(c->ring != MAP_FAILED);
    if (apir_load_acquire32(&c->ring->state) != APIR_STATE_LOST)
        not_stopped("%s: taken for a message", what);
    if (!strstr(c->ring->reason, "protocol violation"))
        not_stopped("%s: lost for another reason: %s", what, c->ring->reason);
    refused("%s", c->ring->reason);
}

static void violate(struct own *o, uint32_t op, size_t size, const int *fds, size_t n)
{
    struct fixture_context c;
    uint8_t message[512] = {0};
    char what[80];
    memcpy(message, &op, sizeof(op));
    snprintf(what, sizeof(what), "op %u, %zu bytes, %zu descriptors", op, size, n);
    own_context_bare(o, &c, 2);
    send_with(c.fd, message, size, fds, n);
    if (op == RENDER_CONTEXT_CREATE_RESOURCE && size >= sizeof(op))
        drop_answer(c.fd);
    expect_violated(&c, what);
    own_context_end(o, &c, 2);
}

/* ---- sizes, ops -------------------------------------------------------------------------- */

static void context_messages_cut_short(void)
{
    struct own o;
    own_start(&o, false);
    for (uint32_t op = 0; op < N(context_sizes); op++) {
        for (size_t size = 1; size <= context_sizes[op] + 8; size++) {
            if (size != context_sizes[op])
                violate(&o, op, size, NULL, 0);
        }
    }
    violate(&o, N(context_sizes), 16, NULL, 0);
    violate(&o, UINT32_MAX, 16, NULL, 0);
    own_stop(&o);
}

/* At every length but the right one; from 32 bytes on at some. */
static void unix_cut_short(const void *message, size_t right, size_t most, bool greeted)
{
    uint8_t bytes[300] = {0};
    memcpy(bytes, message, right);
    for (size_t size = 1; size <= most; size += size < 32 ? 1 : 67) {
        if (size == right)
            continue;
        int fd = unix_connect();
        WANT(!greeted || strcmp(unix_greet(fd), "") == 0);
        send_with(fd, bytes, size, NULL, 0);
        unix_expect_closed(fd);
    }
}

static void unix_messages_cut_short(void)
{
    struct own o;
    const struct apir_unix_hello hello = {.magic = APIR_UNIX_MAGIC, .major = APIR_PROTOCOL_MAJOR};
    const struct apir_unix_request ping = {.op = APIR_UNIX_PING};
    own_start(&o, true);
    unix_cut_short(&hello, sizeof(hello), sizeof(hello) + 8, false);
    unix_cut_short(&ping, sizeof(ping), 300, true);
    own_stop(&o);
    refused("the connection is closed");
}

/* ---- descriptors ------------------------------------------------------------------------- */

static void more_descriptors(void)
{
    static const size_t most[] = {0, 2, 0, 1, 0, 0, 0}, more[] = {1, 2, 5, 6, 7, 60, 250};
    struct own o;
    int fds[253];
    own_start(&o, false);
    for (size_t i = 0; i < N(fds); i++)
        fds[i] = i % 2 ? STDERR_FILENO : o.bystander.transport.fd;
    for (uint32_t op = 0; op < N(context_sizes); op++) {
        for (size_t i = 0; i < N(more); i++)
            violate(&o, op, context_sizes[op], fds, most[op] + more[i]);
    }
    own_stop(&o);
}

/* With this kernel the message is not sent, or what was sent ends the connection. */
static void unix_offer(int fd, const void *data, size_t size, const int *fds, size_t n)
{
    if (offer_with(fd, data, size, fds, n)) {
        unix_expect_closed(fd);
        refused("the connection is closed");
    } else {
        close(fd);
        refused("the kernel does not take it: %s", strerror(EPERM));
    }
}

static void unix_descriptors(void)
{
    static const size_t counts[] = {1, 2, 7, 8, 9, 64, 253};
    struct own o;
    int fds[253];
    const struct apir_unix_hello hello = {.magic = APIR_UNIX_MAGIC, .major = APIR_PROTOCOL_MAJOR};
    const struct apir_unix_request ping = {.op = APIR_UNIX_PING};
    own_start(&o, true);
    for (size_t i = 0; i < N(counts); i++) {
        int fd = unix_connect();
        for (size_t k = 0; k < N(fds); k++)
            fds[k] = k % 2 ? fd : STDERR_FILENO; /* its own socket: a cycle */
        unix_offer(fd, &hello, sizeof(hello), fds, counts[i]);
        fd = unix_connect();
        WANT(strcmp(unix_greet(fd), "") == 0);
        unix_offer(fd, &ping, sizeof(ping), fds, counts[i]);
    }
    own_stop(&o);
}

/* A connection that still has data for a peer that never reads, and is closed only when that is
 * gone or time is up: by whoever closes it last. */
static int lingering_socket(int *ret_reader)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    /* Much longer than anything here is waited for. */
    const struct linger linger = {.l_onoff = 1, .l_linger = WAIT_MS / 1000 * 4};
    static const uint8_t data[65536];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    WANT(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0 &&
         getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    WANT(connect(fd, (struct sockaddr *)&address, size) == 0);
    WANT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
    while (send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
    WANT(errno == EAGAIN);
    *ret_reader = listener; /* while it is open: with it the connection would be reset */
    return fd;
}

/* Returns whether the kernel let it be sent. */
static bool slow_descriptor(struct own *o, bool greeted, bool unread)
{
    const struct apir_unix_hello hello = {.magic = APIR_UNIX_MAGIC, .major = APIR_PROTOCOL_MAJOR};
    int reader, fd = unix_connect(), slow = lingering_socket(&reader);
    if (greeted)
        WANT(strcmp(unix_greet(fd), "") == 0);
    /* While the server is stopped, so that the last descriptor is not the one here, or this row
     * would wait in its place. */
    WANT(kill(o->f->pid, SIGSTOP) == 0);
    if (unread) /* what ends the connection comes first */
        send_with(fd, &hello, 1, NULL, 0);
    const bool taken = offer_with(fd, &hello, sizeof(hello), &slow, 1);
    if (taken)
        close(slow);
    WANT(kill(o->f->pid, SIGCONT) == 0);
    int other = unix_connect();
    struct pollfd answer = {.fd = other, .events = POLLIN};
    unix_send_hello(other, APIR_PROTOCOL_MAJOR);
    if (poll(&answer, 1, WAIT_MS) != 1)
        not_stopped("nobody answers somebody else's hello");
    WANT(unix_receive_welcome(other).status == APIR_UNIX_WELCOME);
    close(other);
    close(fd);
    close(reader);
    if (!taken)
        close(slow);
    return taken;
}

/* Returns whether the kernel let all of it be sent. */
static bool slow_descriptors(void)
{
    struct own o;
    own_start(&o, true);
    bool taken = slow_descriptor(&o, false, false);
    taken = slow_descriptor(&o, true, false) && taken;
    taken = slow_descriptor(&o, true, true) && taken;
    own_stop(&o);
    refused("%s", taken ? "nobody waited" : strerror(EPERM));
    return taken;
}

static void slow_to_close(void)
{
    (void)slow_descriptors();
}

/* As a kernel before Linux 6.16 has it: that option of sockets does not exist, for the server
 * either. */
static void slow_to_close_on_old_kernels(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 83 /* SO_PASSRIGHTS */, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = N(code), .filter = code};
    WANT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    if (!slow_descriptors())
        not_stopped("the kernel had the option all the same");
}

static void no_descriptor(void)
{
    struct own o;
    own_start(&o, false);
    violate(&o, RENDER_CONTEXT_INIT, sizeof(struct render_context_init), NULL, 0);
    own_stop(&o);
}

static void init_with(struct own *o, int timeline, uint64_t size, int event, const char *what)
{
    struct fixture_context c;
    const struct render_context_init init = {.op = RENDER_CONTEXT_INIT, .shmem_size = size};
    own_context_bare(o, &c, 2);
    send_with(c.fd, &init, sizeof(init), (const int[]){timeline, event}, event < 0 ? 1 : 2);
    expect_violated(&c, what);
    own_context_end(o, &c, 2);
    close(timeline);
}

static int memfd_of(off_t size)
{
    int fd = memfd_create("timeline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    WANT(fd >= 0 && ftruncate(fd, size) == 0);
    return fd;
}

static void wrong_descriptors(void)
{
    struct own o;
    int pipes[2], sockets[2];
    own_start(&o, false);
    WANT(pipe2(pipes, O_CLOEXEC) == 0);
    WANT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    init_with(&o, open("/", O_RDONLY | O_CLOEXEC), 256, -1, "a directory");
    init_with(&o, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 256, -1, "a file to read");
    init_with(&o, open("/proc/self/exe", O_PATH | O_CLOEXEC), 256, -1, "a path");
    init_with(&o, open("/dev/zero", O_RDWR | O_CLOEXEC), 256, -1, "a device");
    init_with(&o, pipes[0], 256, -1, "a pipe");
    init_with(&o, sockets[0], 256, -1, "a socket");
    init_with(&o, eventfd(0, EFD_CLOEXEC), 256, -1, "an eventfd");
    init_with(&o, epoll_create1(EPOLL_CLOEXEC), 256, -1, "an epoll");
    init_with(&o, memfd_of(0), 256, -1, "an empty memfd");
    init_with(&o, memfd_of(255), 256, -1, "a memfd too small");
    init_with(&o, memfd_of(256), 0, -1, "a timeline of no bytes");
    init_with(&o, memfd_of(256), UINT64_MAX, -1, "a timeline of all bytes");
    /* What every fence is announced with must not stop the server. */
    init_with(&o, memfd_of(256), 256, pipes[1], "a pipe instead of the eventfd");
    close(pipes[1]);
    close(sockets[1]);

    struct fixture_context c;
    const struct render_context_init init = {.op = RENDER_CONTEXT_INIT, .shmem_size = 128};
    int timeline = memfd_of(128);
    for (int twice = 0; twice < 2; twice++) {
        own_context_bare(&o, &c, 2);
        send_with(c.fd, &init, sizeof(init), &timeline, 1);
        if (twice)
            send_with(c.fd, &init, sizeof(init), &timeline, 1);
        else
            fixture_fence(&c, 128 / sizeof(uint32_t), 1);
        expect_violated(&c, twice ? "a second timeline" : "a fence behind the timeline's end");
        own_context_end(&o, &c, 2);
    }

    /* Taken away behind our back: it costs the fences of this context. */
    own_context_bare(&o, &c, 2);
    send_with(c.fd, &init, sizeof(init), &timeline, 1);
    fixture_sync(&c);
    WANT(ftruncate(timeline, 0) == 0);
    close(timeline);
    fixture_fence(&c, 1, 1);
    fixture_sync(&c);
    own_context_end(&o, &c, 2);
    own_stop(&o);
}

/* ---- who does not listen, or says nothing ------------------------------------------------ */

/* Asks for memory that it does not get, until its socket takes no more; then hangs up. */
static unsigned ask_until_full(struct own *o, int fd, const void *request, size_t size)
{
    unsigned sent = 0;
    while (send(fd, request, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size) {
        if (++sent % 100 == 0)
            own_look(o);
    }
    WANT(errno == EAGAIN && sent > 100);
    own_look(o);
    return sent;
}

/* One after the other: whether the first request that must not be read comes in the same turn as
 * the last one that may is a matter of luck. */
enum { NEVER_READ = 8 };

static void never_reads(void)
{
    struct own o;
    struct fixture_context c;
    const struct render_context_create_resource req = {
        .op = RENDER_CONTEXT_CREATE_RESOURCE, .blob_id = 99, .blob_size = 65536};
    unsigned sent = 0;
    own_start(&o, false);
    for (uint32_t id = 2; id < 2 + NEVER_READ; id++) {
        own_context(&o, &c, id);
        sent = ask_until_full(&o, c.fd, &req, sizeof(req));
        own_context_end(&o, &c, id);
    }
    own_stop(&o);
    refused("%u requests, then its socket is read no more", sent);
}

static void unix_never_reads(void)
{
    struct own o;
    const struct apir_unix_request req = {.op = APIR_UNIX_BLOB_CREATE, .blob_id = 1, .value = 1};
    unsigned sent = 0;
    own_start(&o, true);
    for (int i = 0; i < NEVER_READ; i++) {
        int fd = unix_connect();
        WANT(strcmp(unix_greet(fd), "") == 0);
        sent = ask_until_full(&o, fd, &req, sizeof(req));
        for (unsigned k = 0; i == 0 && k < sent; k++) /* who reads after all has lost nothing */
            WANT(unix_receive_blob(fd, 1) == -EINVAL);
        close(fd);
    }
    own_stop(&o);
    refused("%u requests, then its socket is read no more", sent);
}

static void unix_silence(void)
{
    struct own o;
    int silent[8];
    own_start(&o, true);
    int64_t began = now_ms();
    for (size_t i = 0; i < N(silent); i++)
        silent[i] = unix_connect();
    for (size_t i = 0; i < N(silent); i++) {
        own_look(&o);
        unix_expect_closed(silent[i]);
    }
    int64_t took = now_ms() - began;
    /* Nobody who is only slow is cut off. */
    WANT(took >= SERVER_UNIX_HELLO_MS);
    own_stop(&o);
    refused("closed after %d ms without a hello", (int)took);
}

/* The announced rest of a command never comes: what does is a request. */
static void half_a_command(void)
{
    struct own o;
    struct fixture_context c;
    own_start(&o, false);
    own_context(&o, &c, 2);
    const struct render_context_submit_cmd cmd = {.op = RENDER_CONTEXT_SUBMIT_CMD, .size = 1 << 20};
    send_with(c.fd, &cmd, sizeof(cmd), NULL, 0);
    own_look(&o);
    fixture_open_ring(&c, true);
    own_context_end(&o, &c, 2);
    own_stop(&o);
    refused("waited for by nobody: the next message is a request");
}

/* ---- the VMM's socket as a stream ---------------------------------------------------------- */

static void own_start_stream(struct own *o)
{
    fixture_stream = true;
    own_start(o, false);
}

/* Bytes of a stream: a length, and what follows it. Returns how many. */
static size_t framed(uint8_t *to, uint32_t length, const void *bytes, size_t size)
{
    const uint32_t wire = htonl(length);
    memcpy(to, &wire, sizeof(wire));
    memcpy(to + sizeof(wire), bytes, size);
    return sizeof(wire) + size;
}

/* Loses the context, and what comes after it is taken for what it is. */
static void stream_violate(struct own *o, uint32_t length, const char *what)
{
    static uint8_t zeros[100000], bytes[100004];
    struct fixture_context c;
    own_context_bare(o, &c, 2);
    send_with(c.fd, bytes, framed(bytes, length, zeros, length), NULL, 0);
    expect_violated(&c, what);
    own_context_end(o, &c, 2);
}

static void stream_lengths(void)
{
    static const uint32_t promised[] = {5, 264, 265, 1 << 20, INT32_MAX, UINT32_MAX};
    struct own o;
    struct fixture_context c;
    uint8_t bytes[64];
    const struct render_context_submit_fence fence = {.op = RENDER_CONTEXT_SUBMIT_FENCE};
    const size_t all = framed(bytes, sizeof(fence), &fence, sizeof(fence));
    own_start_stream(&o);
    stream_violate(&o, 0, "an empty message");
    for (uint32_t length = 1; length < 300; length += length < 8 ? 1 : 37)
        stream_violate(&o, length == 4 ? 3 : length, "a length that no message has");
    stream_violate(&o, 4097, "a length of 4097");
    stream_violate(&o, 100000, "a length of 100000");
    /* Half a message, then silence; then the end. */
    for (size_t at = 1; at < all; at++) {
        own_context_bare(&o, &c, 2);
        send_with(c.fd, bytes, at, NULL, 0);
        own_look(&o);
        own_context_end(&o, &c, 2);
    }
    for (size_t i = 0; i < N(promised); i++) {
        framed(bytes, promised[i], "", 0);
        own_context_bare(&o, &c, 2);
        send_with(c.fd, bytes, 8, NULL, 0);
        own_look(&o);
        own_context_end(&o, &c, 2);
    }
    own_stop(&o);
}

static void stream_descriptors(void)
{
    static const size_t more[] = {1, 2, 9, 253};
    struct own o;
    struct fixture_context c;
    int fds[253];
    uint8_t bytes[64];
    const uint32_t nop = RENDER_CONTEXT_NOP;
    const size_t all = framed(bytes, sizeof(nop), &nop, sizeof(nop));
    own_start_stream(&o);
    for (size_t i = 0; i < N(fds); i++)
        fds[i] = i % 2 ? STDERR_FILENO : o.bystander.transport.fd;
    for (size_t i = 0; i < N(more); i++) {
        /* Where they may be, but not so many, or not with this. */
        own_context_bare(&o, &c, 2);
        send_with(c.fd, bytes, all, fds, more[i]);
        expect_violated(&c, "descriptors that nobody takes");
        own_context_end(&o, &c, 2);
        /* Within a message: INIT, whose own come too late. */
        const struct render_context_init init = {.op = RENDER_CONTEXT_INIT, .shmem_size = 256};
        uint8_t late[64];
        const size_t size = framed(late, sizeof(init), &init, sizeof(init));
        int timeline = memfd_of(256);
        own_context_bare(&o, &c, 2);
        send_with(c.fd, late, 4, &timeline, 1);
        for (size_t n = 0; n < 3; n++)
            send_with(c.fd, late + 4 + n, 1, fds, more[i]);
        send_with(c.fd, late + 7, size - 7, NULL, 0);
        expect_violated(&c, "descriptors within a message");
        own_context_end(&o, &c, 2);
        close(timeline);
        /* And kept there by a message that does not end. */
        own_context_bare(&o, &c, 2);
        send_with(c.fd, bytes, 5, fds, more[i]);
        own_look(&o);
        own_context_end(&o, &c, 2);
    }
    own_stop(&o);
}

/* ---- 10,000 resources -------------------------------------------------------------------- */

static void many_resources(void)
{
    struct own o;
    struct guest g;
    unsigned made = 0;
    own_start(&o, false);
    own_guest(&o, &g, 2);
    const struct fixture_context c = {.fd = g.transport.fd};
    for (uint32_t i = 0; i < 10000; i++) {
        int fd = fixture_create_blob(&c, 1000 + i, 2 + i, APIR_SHM_ALIGN);
        made += fd >= 0;
        if (fd >= 0)
            close(fd);
    }
    WANT(made == APIR_BLOBS_MAX - 2);
    for (uint32_t i = 0; i < 10000; i++)
        fixture_destroy_resource(&c, 1000 + i);
    for (uint32_t i = 0; i < 10000; i++) {
        int fd = fixture_create_blob(&c, 20000 + i, 2 + i % (APIR_BLOBS_MAX - 2), APIR_SHM_ALIGN);
        if (fd < 0)
            not_stopped("%u were given back, and one more is refused: %s", i, guest_reason(&g));
        close(fd);
        if (i % 20 == 0)
            guest_use_blob(&g, 2 + i % (APIR_BLOBS_MAX - 2));
        fixture_destroy_resource(&c, 20000 + i);
    }
    expect_alive(&g);
    guest_close(&g);
    fixture_destroy_context(o.f, 2);
    own_stop(&o);
    refused("%u at once, the others refused; one after the other, all", made + 2);
}

const struct attack_row attack_rows_socket[] = {
    {"socket-cut-short", "the VMM's socket: messages cut short, too long, unknown",
     context_messages_cut_short, 0, 0},
    {"socket-unix-cut-short", "the machine's socket: messages cut short, too long",
     unix_messages_cut_short, 0, 0},
    {"socket-more-fds", "the VMM's socket: more descriptors than allowed", more_descriptors, 0, 0},
    {"socket-unix-fds", "the machine's socket: descriptors", unix_descriptors, 0, 0},
    {"socket-slow-close", "the machine's socket: a descriptor that is slow to close", slow_to_close,
     0, 0},
    {"socket-slow-close-old", "the same on a kernel that cannot refuse descriptors",
     slow_to_close_on_old_kernels, 0, 0},
    {"socket-no-fd", "the VMM's socket: none where one is due", no_descriptor, 0, 0},
    {"socket-wrong-fds", "the VMM's socket: descriptors of a wrong type", wrong_descriptors, 0, 0},
    {"socket-never-reads", "the VMM's socket: a client that never reads replies", never_reads, 0,
     0},
    {"socket-unix-never-reads", "the machine's socket: a client that never reads", unix_never_reads,
     0, 0},
    {"socket-unix-silence", "the machine's socket: silence", unix_silence, 0, 0},
    {"socket-half-command", "the VMM's socket: half a message, then silence", half_a_command, 0, 0},
    {"socket-stream-lengths", "the VMM's stream: lengths that no message has, half a message",
     stream_lengths, 0, 0},
    {"socket-stream-fds", "the VMM's stream: descriptors where none belong, or too many",
     stream_descriptors, 0, 0},
    {"socket-10000-resources", "10,000 resources", many_resources, 0, 0},
    {0},
};
