/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket protocol between libvirglrenderer and its render server, as
 * virglrenderer 1.1 to 1.3 speak it on 64-bit Linux. It is internal to them and
 * written with C enums, bool and size_t; here it has fixed widths, and every
 * size and offset is pinned. One struct per message, fds beside it; how messages
 * are kept apart is framing.h's.
 */
#ifndef APIR_SERVER_PROTOCOL_H
#define APIR_SERVER_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

/* ---- the client socket: one per VMM -------------------------------------- */

enum server_client_op {
    SERVER_CLIENT_NOP = 0,
    SERVER_CLIENT_INIT = 1,
    SERVER_CLIENT_RESET = 2,
    SERVER_CLIENT_CREATE_CONTEXT = 3, /* answered; the only one that is */
    SERVER_CLIENT_DESTROY_CONTEXT = 4,
    SERVER_CLIENT_OP_COUNT = 5,
};

#define SERVER_CONTEXT_NAME_SIZE 32u

struct server_client_init {
    uint32_t op;
    uint32_t flags;
};

struct server_client_create_context {
    uint32_t op;
    uint32_t context_id;
    char name[SERVER_CONTEXT_NAME_SIZE];
};

struct server_client_destroy_context {
    uint32_t op;
    uint32_t context_id;
};

/* With one socket fd where ok is 1, with none where it is 0. */
struct server_client_create_context_reply {
    uint8_t ok;
};

union server_client_request {
    uint32_t op;
    struct server_client_init init;
    struct server_client_create_context create_context;
    struct server_client_destroy_context destroy_context;
};

_Static_assert(sizeof(struct server_client_init) == 8, "wire size");
_Static_assert(sizeof(struct server_client_create_context) == 40, "wire size");
_Static_assert(offsetof(struct server_client_create_context, name) == 8, "wire offset");
_Static_assert(sizeof(struct server_client_destroy_context) == 8, "wire size");
_Static_assert(sizeof(struct server_client_create_context_reply) == 1, "wire size");

/* ---- a context socket: one per context ----------------------------------- */

enum server_context_op {
    SERVER_CONTEXT_NOP = 0,
    SERVER_CONTEXT_INIT = 1,
    SERVER_CONTEXT_CREATE_RESOURCE = 2, /* answered; the only one that is */
    SERVER_CONTEXT_IMPORT_RESOURCE = 3,
    SERVER_CONTEXT_DESTROY_RESOURCE = 4,
    SERVER_CONTEXT_SUBMIT_CMD = 5,
    SERVER_CONTEXT_SUBMIT_FENCE = 6,
    SERVER_CONTEXT_OP_COUNT = 7,
};

/* With the timeline memfd, and an eventfd where the VMM wants to be woken. */
struct server_context_init {
    uint32_t op;
    uint32_t flags;
    uint64_t shmem_size;
};

struct server_context_create_resource {
    uint32_t op;
    uint32_t res_id;
    uint64_t blob_id;
    uint64_t blob_size;
    uint32_t blob_flags;
    uint32_t pad;
};

struct server_context_import_resource {
    uint32_t op;
    uint32_t res_id;
    int32_t fd_type;
    uint32_t pad;
    uint64_t size;
};

struct server_context_destroy_resource {
    uint32_t op;
    uint32_t res_id;
};

#define SERVER_INLINE_CMD_SIZE 256u

/* What exceeds cmd[] follows as one message of exactly the remaining size. */
struct server_context_submit_cmd {
    uint32_t op;
    uint32_t size;
    uint8_t cmd[SERVER_INLINE_CMD_SIZE];
};

struct server_context_submit_fence {
    uint32_t op;
    uint32_t flags;
    uint32_t ring_index;
    uint32_t seqno;
};

union server_context_request {
    uint32_t op;
    struct server_context_init init;
    struct server_context_create_resource create_resource;
    struct server_context_import_resource import_resource;
    struct server_context_destroy_resource destroy_resource;
    struct server_context_submit_cmd submit_cmd;
    struct server_context_submit_fence submit_fence;
};

enum server_fd_type {
    SERVER_FD_INVALID = -1,
    SERVER_FD_SHM = 2,
};

#define SERVER_MAP_CACHED 1u

/* With one fd, or with none where fd_type is SERVER_FD_INVALID. */
struct server_context_create_resource_reply {
    int32_t fd_type;
    uint32_t map_info;
    struct {
        uint8_t device_uuid[16];
        uint8_t driver_uuid[16];
        uint64_t allocation_size;
        uint32_t memory_type_index;
        uint32_t pad;
    } vulkan_info; /* zero: not for memfds */
};

_Static_assert(sizeof(struct server_context_init) == 16, "wire size");
_Static_assert(offsetof(struct server_context_init, shmem_size) == 8, "wire offset");
_Static_assert(sizeof(struct server_context_create_resource) == 32, "wire size");
_Static_assert(offsetof(struct server_context_create_resource, blob_id) == 8, "wire offset");
_Static_assert(offsetof(struct server_context_create_resource, blob_flags) == 24, "wire offset");
_Static_assert(sizeof(struct server_context_import_resource) == 24, "wire size");
_Static_assert(offsetof(struct server_context_import_resource, size) == 16, "wire offset");
_Static_assert(sizeof(struct server_context_destroy_resource) == 8, "wire size");
_Static_assert(sizeof(struct server_context_submit_cmd) == 264, "wire size");
_Static_assert(sizeof(struct server_context_submit_fence) == 16, "wire size");
_Static_assert(sizeof(struct server_context_create_resource_reply) == 56, "wire size");
_Static_assert(offsetof(struct server_context_create_resource_reply, vulkan_info) == 8,
               "wire offset");

#endif
