/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virgl_test_server's socket: the stock virglrenderer without a VM. Its protocol
 * is a stream of {u32 length in dwords, u32 command} and payload.
 */
#include "frontend/link/transport.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend/link/os.h"

enum {
    VT_RESOURCE_UNREF = 3,
    VT_RESOURCE_BUSY_WAIT = 7,
    VT_CREATE_RENDERER = 8, /* length in bytes, this one alone */
    VT_PING_PROTOCOL_VERSION = 10,
    VT_PROTOCOL_VERSION = 11,
    VT_CONTEXT_INIT = 17,
    VT_RESOURCE_CREATE_BLOB = 18,
    VT_SUBMIT_CMD2 = 24,
};

#define VT_VERSION_MIN    3u
#define VT_VERSION_MAX    4u
#define CAPSET_VENUS      4u
#define BLOB_HOST3D       2u
#define BLOB_MAPPABLE     1u
#define COMMAND_WORDS_MAX 16u /* of payload */

/* All of it, in the direction of events: POLLIN, POLLOUT. */
static int stream(const struct transport *t, short events, void *data, size_t size)
{
    char *p = data;
    struct silence s;
    silence_begin(&s, os_now_ns());
    while (size) {
        ssize_t n = events == POLLIN ? recv(t->fd, p, size, MSG_DONTWAIT)
                                     : send(t->fd, p, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || (errno == EAGAIN && transport_await(t, events, &s))))
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EPIPE;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

/* In one piece: the stock server reads a command to its end before it looks at anybody else, so a
 * process that is stopped in the middle of one would hold up all of them. */
static int command_bytes(const struct transport *t, uint32_t cmd, uint32_t length,
                         const void *payload, size_t size)
{
    uint32_t msg[2 + COMMAND_WORDS_MAX] = {length, cmd};
    if (size > sizeof(msg) - 2 * sizeof(msg[0]))
        return -EMSGSIZE;
    if (size)
        memcpy(&msg[2], payload, size);
    return stream(t, POLLOUT, msg, 2 * sizeof(msg[0]) + size);
}

static int command(const struct transport *t, uint32_t cmd, const void *payload, uint32_t dwords)
{
    return command_bytes(t, cmd, dwords, payload, dwords * sizeof(uint32_t));
}

/* Reads an answer of exactly `dwords` to `cmd`. */
static int answer(const struct transport *t, uint32_t cmd, uint32_t *payload, uint32_t dwords)
{
    uint32_t header[2];
    int rc = stream(t, POLLIN, header, sizeof(header));
    if (rc)
        return rc;
    if (header[0] != dwords || header[1] != cmd)
        return -EPROTO;
    return stream(t, POLLIN, payload, dwords * sizeof(uint32_t));
}

/* The descriptor that follows some answers, on a byte of its own. */
static int receive_fd(const struct transport *t)
{
    char byte;
    int got = -1;
    int rc = transport_receive(t, &byte, sizeof(byte), &got);
    return rc ? rc : got < 0 ? -EPROTO : got;
}

static int vtest_blob_create(struct transport *t, uint64_t blob_id, uint64_t size,
                             struct transport_blob *ret_blob)
{
    uint32_t req[6] = {
        BLOB_HOST3D,       BLOB_MAPPABLE,
        (uint32_t)size,    (uint32_t)(size >> 32),
        (uint32_t)blob_id, (uint32_t)(blob_id >> 32),
    };
    int rc = command(t, VT_RESOURCE_CREATE_BLOB, req, 6);
    uint32_t id;
    if (!rc)
        rc = answer(t, VT_RESOURCE_CREATE_BLOB, &id, 1);
    if (rc)
        return rc;
    int fd = receive_fd(t);
    return fd < 0 ? fd : transport_map(fd, size, id, ret_blob);
}

static void vtest_blob_destroy(struct transport *t, struct transport_blob *blob)
{
    munmap(blob->map, blob->size);
    command(t, VT_RESOURCE_UNREF, &blob->handle, 1);
    *blob = (struct transport_blob){0};
}

static int vtest_doorbell(struct transport *t, const struct apir_doorbell *bell)
{
    /* one batch: flags, cmd offset, cmd size, sync offset, sync count, ring, syncobjs */
    uint32_t msg[9 + sizeof(*bell) / 4] = {1, 0, 9, sizeof(*bell) / 4};
    memcpy(&msg[9], bell, sizeof(*bell));
    return command(t, VT_SUBMIT_CMD2, msg, sizeof(msg) / 4);
}

static int handshake(const struct transport *t)
{
    static const char name[] = APIR_CONTEXT_NAME;
    int rc = command_bytes(t, VT_CREATE_RENDERER, sizeof(name), name, sizeof(name));
    /* A server too old to answer the ping still answers the busy-wait. */
    uint32_t busy[2] = {0, 0}, dummy;
    if (!rc)
        rc = command(t, VT_PING_PROTOCOL_VERSION, NULL, 0);
    if (!rc)
        rc = command(t, VT_RESOURCE_BUSY_WAIT, busy, 2);
    if (!rc)
        rc = answer(t, VT_PING_PROTOCOL_VERSION, &dummy, 0);
    if (!rc)
        rc = answer(t, VT_RESOURCE_BUSY_WAIT, &dummy, 1);
    uint32_t version = VT_VERSION_MAX;
    if (!rc)
        rc = command(t, VT_PROTOCOL_VERSION, &version, 1);
    if (!rc)
        rc = answer(t, VT_PROTOCOL_VERSION, &version, 1);
    if (!rc && version < VT_VERSION_MIN)
        rc = -EPROTONOSUPPORT;
    uint32_t capset = CAPSET_VENUS;
    return rc ? rc : command(t, VT_CONTEXT_INIT, &capset, 1);
}

int transport_vtest_open(struct transport *t, const char *path, struct apir_error *err)
{
    int rc = transport_connect(t, SOCK_STREAM, path);
    if (rc == 0)
        rc = handshake(t);
    if (rc) {
        transport_close(t);
        return apir_error_sys(err, -rc, "vtest: no virgl_test_server at %s", path);
    }
    t->same_kernel = true;
    memcpy(t->where, path, strlen(path) < sizeof(t->where) ? strlen(path) : sizeof(t->where) - 1);
    t->blob_create = vtest_blob_create;
    t->doorbell = vtest_doorbell;
    t->blob_destroy = vtest_blob_destroy;
    return 0;
}
