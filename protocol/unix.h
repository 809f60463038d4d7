/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `unix` transport: a process of a container, or of the host itself, talks
 * to apir-render-server of the same kernel over one SOCK_SEQPACKET socket. One
 * connection is one context; its end is the context's end. What travels here is
 * little: the greeting, requests for shared memory (answered with a memfd), and
 * doorbells. All the rest is in the shared memory (shm.h), and both sides wake
 * each other there, by futexes.
 *
 *   client                            server
 *   apir_unix_hello            ->
 *                              <-     apir_unix_welcome, then its end if refused
 *   apir_unix_request          ->
 *                              <-     apir_unix_answer (to BLOB_CREATE alone), with
 *                                     one descriptor where status is 0
 *
 * A refusal may come before the hello was read, and the connection's end with it.
 * A message of any other size, with descriptors, or with a field out of its range
 * ends the connection. The form of hello and welcome never changes.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/shm.h"

#define APIR_UNIX_PATH  "/run/apir/host/apir.sock"
#define APIR_UNIX_MAGIC UINT64_C(0x58494e5552495041) /* "APIRUNIX" as bytes */

struct apir_unix_hello {
    uint64_t magic;
    uint32_t major; /* APIR_PROTOCOL_MAJOR */
    uint32_t minor;
    uint32_t zero[2];
};

enum apir_unix_status {
    APIR_UNIX_WELCOME = 0,
    APIR_UNIX_REFUSED = 1, /* text says why, in one line for the user */
};

struct apir_unix_welcome {
    uint64_t magic;
    uint32_t major; /* the server's */
    uint32_t minor;
    uint32_t status;
    uint32_t zero;
    char text[APIR_REASON_MAX]; /* NUL-terminated */
};

enum apir_unix_op {
    APIR_UNIX_BLOB_CREATE = 1,  /* blob_id; value: its size in bytes */
    APIR_UNIX_BLOB_DESTROY = 2, /* blob_id; value 0 */
    APIR_UNIX_KICK = 3,         /* blob_id 0, value 0: wake the worker */
    APIR_UNIX_PING = 4,         /* blob_id 0; value (32 bits): to be stored to pong */
};

struct apir_unix_request {
    uint32_t op;
    uint32_t blob_id;
    uint64_t value;
};

struct apir_unix_answer {
    uint32_t op;      /* as asked */
    uint32_t blob_id; /* as asked */
    /* 0, or an errno: the blob is refused, the context lives on. EDQUOT: all contexts of this
     * server have what they may have together. */
    uint32_t status;
    uint32_t zero;
};

_Static_assert(sizeof(struct apir_unix_hello) == 24, "wire size");
_Static_assert(sizeof(struct apir_unix_welcome) == 280, "wire size");
_Static_assert(offsetof(struct apir_unix_welcome, text) == 24, "wire offset");
_Static_assert(sizeof(struct apir_unix_request) == 16, "wire size");
_Static_assert(sizeof(struct apir_unix_answer) == 16, "wire size");

/* Checks a hello of `size` bytes. 0; -EBADMSG; -EPROTONOSUPPORT: another major version. */
static inline int apir_unix_hello_check(const struct apir_unix_hello *hello, size_t size)
{
    if (size != sizeof(*hello) || hello->magic != APIR_UNIX_MAGIC)
        return -EBADMSG;
    /* What another version means by its zeros is its own affair. */
    if (hello->major != APIR_PROTOCOL_MAJOR)
        return -EPROTONOSUPPORT;
    return hello->zero[0] == 0 && hello->zero[1] == 0 ? 0 : -EBADMSG;
}

/* Checks a request of `size` bytes, but for what depends on the context. 0 or -EBADMSG. */
static inline int apir_unix_request_check(const struct apir_unix_request *req, size_t size)
{
    if (size != sizeof(*req))
        return -EBADMSG;
    switch (req->op) {
    case APIR_UNIX_BLOB_CREATE:
        return req->blob_id < APIR_BLOBS_MAX ? 0 : -EBADMSG;
    case APIR_UNIX_BLOB_DESTROY:
        return req->blob_id < APIR_BLOBS_MAX && req->value == 0 ? 0 : -EBADMSG;
    case APIR_UNIX_KICK:
        return req->blob_id == 0 && req->value == 0 ? 0 : -EBADMSG;
    case APIR_UNIX_PING:
        return req->blob_id == 0 && req->value <= UINT32_MAX ? 0 : -EBADMSG;
    default:
        return -EBADMSG;
    }
}
