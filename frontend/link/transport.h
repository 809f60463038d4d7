/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How bytes reach the host: shared memory that both sides map, and a doorbell.
 * The client above knows no DRM and no socket.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "frontend/link/silence.h"
#include "common/error.h"
#include "protocol/shm.h"

/* Shared memory with the host, mapped here. */
struct transport_blob {
    void *map; /* NULL: none */
    uint64_t size;
    uint32_t handle; /* GEM handle, vtest's resource id, or the blob's own id */
};

struct transport {
    int fd;              /* owned; -1: closed */
    bool same_kernel;    /* a futex in shared memory wakes across the two sides */
    char where[128];     /* for messages: the node or socket */
    char device_id[64];  /* PCI address of the render node, or empty */
    const char *hint;    /* where to look if the host gives no memory; NULL: at the VMM */
    uint64_t window;     /* bytes of the host-visible window; 0: unknown, or there is none */
    uint64_t silence_ns; /* a host that owes an answer for longer is lost */
    int (*blob_create)(struct transport *t, uint64_t blob_id, uint64_t size,
                       struct transport_blob *ret_blob);
    /* Unmaps it and gives the host's resource up; the descriptor must be open. */
    void (*blob_destroy)(struct transport *t, struct transport_blob *blob);
    int (*doorbell)(struct transport *t, const struct apir_doorbell *bell);
};

/*
 * Opens the transport that APIR_TRANSPORT asks for, and makes an apir context on it: auto (the
 * default: the first render node of virtio-gpu, and where there is none the socket that
 * protocol/unix.h names), or one of the kinds in transport.c with a path: unix:PATH. Returns 0;
 * -ENODEV where there is nothing to talk to (auto without a node: no reason to tell the user);
 * another -errno with *err.
 */
int transport_open(struct transport *t, const char *choice, struct apir_error *err);

/* Closes the descriptor; maps stay until the process ends. */
void transport_close(struct transport *t);

/* What APIR_SILENCE_SECONDS says (15 by default, 5 at least), in ns: for silence_ns. */
uint64_t transport_silence(void);

/*
 * For transports over a socket, which read and write without blocking: waits a moment for `events`
 * (poll's). False: the host has been silent for too long.
 */
bool transport_await(const struct transport *t, short events, struct silence *s);
/* Connects t->fd, made here, of a type of socket(2), to the socket at path, and sets silence_ns,
 * after which it gives up. 0 or -errno; t->fd is to be closed either way. */
int transport_connect(struct transport *t, int type, const char *path);

/* For a node or socket that may not be used: who may, and what lets us. Static text. */
const char *transport_permission_advice(const char *path);

/*
 * What one recvmsg gives, exactly `size` bytes, and the descriptor that came with it, the caller's
 * (-1: none). 0 or -errno (-EAGAIN: silence).
 */
int transport_receive(const struct transport *t, void *data, size_t size, int *ret_fd);

/* Maps `size` bytes of shared memory that came so, and closes fd. 0 or -errno (-EPROTO: it is too
 * short, or could be made so: no memfd that is sealed against that). */
int transport_map(int fd, uint64_t size, uint32_t handle, struct transport_blob *ret_blob);

/*
 * One kind of transport opens t, whose silence_ns, functions and other members it sets; 0 or -errno
 * with *err. path: the node or socket; NULL, for virtgpu alone: search, -ENODEV: no virtio-gpu
 * node.
 */
typedef int transport_opener(struct transport *t, const char *path, struct apir_error *err);
transport_opener transport_virtgpu_open, transport_unix_open, transport_vtest_open;
