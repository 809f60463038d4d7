/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the place of virglrenderer's render server (RENDER_SERVER_EXEC_PATH): stock virglrenderer of
 * Linux on one side, which speaks packets; on the other ours, which is spoken to as virglrenderer's
 * macOS port does: over stream sockets, a length before each message, descriptors with the length.
 * It is as strict with replies as that one is.
 *
 *   STREAM_PROXY_SERVER   the path of apir-render-server
 *   STREAM_PROXY_SLOW     where set: every byte of a request is sent by itself
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fdsock.h"
#include "tests/lib/descriptors.h"

enum { FDS_MAX = 8, MESSAGE_MAX = 1 << 20 };

/* A socket of virglrenderer's, and its counterpart to our server. */
struct link {
    int packets, stream;
    bool is_client; /* whose replies bring the sockets of contexts */
    pthread_t threads[2];
};

struct message {
    size_t size, n_fds;
    int fds[FDS_MAX];
    uint8_t *data; /* MESSAGE_MAX */
};

static bool slow;

_Noreturn static void give_up(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("stream-proxy: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* Returns the bytes, 0 at the end. */
static size_t receive(int sock, void *data, size_t size, int *fds, size_t *ret_n)
{
    size_t got = 0;
    *ret_n = 0;
    const int rc = apir_fdsock_recv(sock, data, size, &got, fds, FDS_MAX, ret_n, 0);
    if (rc < 0 && rc != -ECONNRESET)
        give_up("a message that cannot be received");
    return rc < 0 ? 0 : got;
}

/* False: the other side is gone. */
static bool transmit(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    return descriptors_send(sock, data, size, fds, n_fds) == (ssize_t)size;
}

static bool transmit_all(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    const uint8_t *p = data;
    const size_t step = slow ? 1 : size;
    for (size_t at = 0; at < size; at += step, n_fds = 0) {
        if (!transmit(sock, p + at, step, fds, n_fds))
            return false;
    }
    return true;
}

static void fds_close(struct message *m)
{
    for (size_t i = 0; i < m->n_fds; i++)
        close(m->fds[i]);
    m->n_fds = 0;
}

/* ---- what virglrenderer says ------------------------------------------------------ */

static void *to_stream(void *user)
{
    struct link *l = user;
    struct message m = {.data = malloc(MESSAGE_MAX)};
    while ((m.size = receive(l->packets, m.data, MESSAGE_MAX, m.fds, &m.n_fds)) > 0) {
        const uint32_t length = htonl((uint32_t)m.size);
        const bool sent = transmit_all(l->stream, &length, sizeof(length), m.fds, m.n_fds) &&
                          transmit_all(l->stream, m.data, m.size, NULL, 0);
        fds_close(&m);
        if (!sent)
            break;
    }
    shutdown(l->stream, SHUT_WR);
    free(m.data);
    return NULL;
}

/* ---- what our server says --------------------------------------------------------- */

static void link_start(int packets, int stream, bool is_client);

/* A context's socket: one that speaks packets is the stock server's, and goes on as it is. */
static void context_begins(int *fd)
{
    int type = 0, pair[2];
    socklen_t size = sizeof(type);
    if (getsockopt(*fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
        give_up("a context without a socket");
    if (type == SOCK_SEQPACKET)
        return;
    if (type != SOCK_STREAM || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        give_up("a context with a socket of another kind");
    fprintf(stderr, "stream-proxy: a context over a stream\n");
    link_start(pair[0], *fd, false);
    *fd = pair[1];
}

/* In one read or more; without descriptors. False: the stream's end. */
static bool receive_exactly(int sock, uint8_t *data, size_t size)
{
    int fds[FDS_MAX];
    size_t n_fds = 0;
    while (size) {
        const size_t n = receive(sock, data, size, fds, &n_fds);
        if (n == 0)
            return false;
        if (n_fds)
            give_up("descriptors within a reply");
        data += n;
        size -= n;
    }
    return true;
}

static bool reply_receive(const struct link *l, struct message *m)
{
    uint8_t length[4];
    uint32_t size;
    const size_t n = receive(l->stream, length, sizeof(length), m->fds, &m->n_fds);
    if (n == 0 || !receive_exactly(l->stream, length + n, sizeof(length) - n))
        return false;
    memcpy(&size, length, sizeof(size));
    m->size = ntohl(size);
    if (m->size == 0 || m->size > MESSAGE_MAX || m->n_fds > 1)
        give_up("a reply of %zu bytes with %zu descriptors", m->size, m->n_fds);
    if (!receive_exactly(l->stream, m->data, m->size))
        give_up("half a reply");
    return true;
}

static void *to_packets(void *user)
{
    struct link *l = user;
    struct message m = {.data = malloc(MESSAGE_MAX)};
    while (reply_receive(l, &m)) {
        if (l->is_client && m.n_fds)
            context_begins(&m.fds[0]);
        const bool sent = transmit(l->packets, m.data, m.size, m.fds, m.n_fds);
        fds_close(&m);
        if (!sent)
            break;
    }
    shutdown(l->packets, SHUT_RDWR);
    free(m.data);
    return NULL;
}

/* ---- both ------------------------------------------------------------------------- */

static void *link_run(void *user)
{
    struct link *l = user;
    if (pthread_create(&l->threads[0], NULL, to_stream, l) ||
        pthread_create(&l->threads[1], NULL, to_packets, l))
        give_up("no threads");
    pthread_join(l->threads[0], NULL);
    pthread_join(l->threads[1], NULL);
    close(l->packets);
    close(l->stream);
    free(l);
    return NULL;
}

static struct link *link_new(int packets, int stream, bool is_client)
{
    struct link *l = malloc(sizeof(*l));
    if (!l)
        give_up("no memory");
    *l = (struct link){.packets = packets, .stream = stream, .is_client = is_client};
    return l;
}

static void link_start(int packets, int stream, bool is_client)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, link_run, link_new(packets, stream, is_client)))
        give_up("no thread");
    pthread_detach(thread);
}

int main(int argc, char **argv)
{
    const char *server = getenv("STREAM_PROXY_SERVER");
    int pair[2], status = 1;
    char number[16];
    if (argc != 3 || strcmp(argv[1], "--socket-fd") != 0 || !server)
        give_up("virglrenderer starts this");
    slow = getenv("STREAM_PROXY_SLOW");
    const int packets = (int)strtol(argv[2], NULL, 10);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        give_up("no sockets");
    pid_t pid = fork();
    if (pid == 0) {
        close(packets);
        close(pair[0]);
        snprintf(number, sizeof(number), "%d", pair[1]);
        execl(server, server, "--socket-fd", number, (char *)NULL);
        give_up("%s: %s", server, strerror(errno));
    }
    close(pair[1]);
    link_run(link_new(packets, pair[0], true));
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
