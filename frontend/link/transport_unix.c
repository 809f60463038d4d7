/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of an apir-render-server on this very machine: a container of a host
 * without a VM. Shared memory comes as descriptors, and the two sides wake each
 * other in it: the socket itself is for memory and for signs of life.
 */
#include "frontend/link/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend/link/os.h"
#include "protocol/unix.h"
#include "common/text.h"

/* One message. A server that has stopped reads none, and must not hold up our program for ever. */
static int put(struct transport *t, const void *data, size_t size)
{
    struct silence s;
    ssize_t n;
    silence_begin(&s, os_now_ns());
    do {
        n = send(t->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && (errno == EINTR || (errno == EAGAIN && transport_await(t, POLLOUT, &s))));
    return n < 0 ? -errno : 0;
}

static int request(struct transport *t, uint32_t op, uint32_t blob_id, uint64_t value)
{
    const struct apir_unix_request req = {.op = op, .blob_id = blob_id, .value = value};
    return put(t, &req, sizeof(req));
}

static int unix_blob_create(struct transport *t, uint64_t blob_id, uint64_t size,
                            struct transport_blob *ret_blob)
{
    struct apir_unix_answer a;
    int fd = -1;
    int rc = request(t, APIR_UNIX_BLOB_CREATE, (uint32_t)blob_id, size);
    if (!rc)
        rc = transport_receive(t, &a, sizeof(a), &fd);
    if (rc)
        return rc;
    if (a.op != APIR_UNIX_BLOB_CREATE || a.blob_id != blob_id || (a.status == 0) != (fd >= 0))
        rc = -EPROTO;
    else if (a.status)
        /* What stands for a broken connection elsewhere is but a refusal here. */
        rc = a.status == EDQUOT                         ? -EDQUOT
             : a.status == ENOMEM || a.status == ENOSPC ? -ENOMEM
                                                        : -EINVAL;
    if (!rc)
        return transport_map(fd, size, (uint32_t)blob_id, ret_blob);
    if (fd >= 0)
        close(fd);
    return rc;
}

static void unix_blob_destroy(struct transport *t, struct transport_blob *blob)
{
    munmap(blob->map, blob->size);
    request(t, APIR_UNIX_BLOB_DESTROY, blob->handle, 0);
    *blob = (struct transport_blob){0};
}

static int unix_doorbell(struct transport *t, const struct apir_doorbell *bell)
{
    switch (bell->op) {
    case APIR_DOORBELL_KICK:
        return request(t, APIR_UNIX_KICK, 0, 0);
    case APIR_DOORBELL_PING:
        return request(t, APIR_UNIX_PING, 0, (uint32_t)bell->value);
    default:
        return -EINVAL;
    }
}

/* A socket unit may be starting the server. */
static int connect_to(struct transport *t, const char *path, struct apir_error *err)
{
    int rc = transport_connect(t, SOCK_SEQPACKET, path);
    if (rc == 0)
        return 0;
    if (rc == -EACCES)
        return apir_error_set(err, EACCES, "no permission to use %s: %s", path,
                              transport_permission_advice(path));
    if (rc == -ENOENT || rc == -ECONNREFUSED)
        return apir_error_set(err, -rc,
                              "nobody serves %s: on the host, `systemctl start apir-host.socket` "
                              "or `apir host serve`%s",
                              path, rc == -ENOENT ? "; in a sandbox, let its folder through" : "");
    return apir_error_sys(err, -rc, "cannot connect to %s", path);
}

/* 0, or -errno with *err: the server's own words where it has refused. */
static int greet(struct transport *t, const char *path, struct apir_error *err)
{
    const struct apir_unix_hello hello = {
        .magic = APIR_UNIX_MAGIC,
        .major = APIR_PROTOCOL_MAJOR,
        .minor = APIR_PROTOCOL_MINOR,
    };
    struct apir_unix_welcome w;
    int extra = -1;
    /* A refusal may have come, and the end with it, before this is sent or read. */
    int rc = put(t, &hello, sizeof(hello));
    if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
        rc = transport_receive(t, &w, sizeof(w), &extra);
    if (rc == -ECONNRESET)
        rc = transport_receive(t, &w, sizeof(w), &extra);
    if (extra >= 0)
        close(extra);
    if (rc)
        return apir_error_sys(err, -rc, "%s: no apir-render-server answers", path);
    if (w.magic != APIR_UNIX_MAGIC)
        return apir_error_set(err, EPROTO, "%s: that is no apir-render-server", path);
    if (w.status == APIR_UNIX_WELCOME && w.major == APIR_PROTOCOL_MAJOR)
        return 0;
    apir_text_accept(w.text, sizeof(w.text));
    return apir_error_set(err, EACCES, "%s: %s", path,
                          *w.text ? w.text : "refused, without a reason");
}

int transport_unix_open(struct transport *t, const char *path, struct apir_error *err)
{
    int rc = connect_to(t, path, err);
    if (rc == 0)
        rc = greet(t, path, err);
    if (rc) {
        transport_close(t);
        return rc;
    }
    t->same_kernel = true;
    t->hint = "the log of its apir-render-server says why";
    snprintf(t->where, sizeof(t->where), "%s", path);
    t->blob_create = unix_blob_create;
    t->doorbell = unix_doorbell;
    t->blob_destroy = unix_blob_destroy;
    return 0;
}
