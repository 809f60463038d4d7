/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket protocol between libvirglrenderer and its render server, as
 * virglrenderer 1.1 to 1.3 speak it on 64-bit Linux. It is internal to them and
 * written with C enums, bool and size_t; here it has fixed widths, and every
 * size and offset is pinned. One struct per message, fds beside it; how messages
 * are kept apart is framing.h's. The names are virglrenderer's: a client is a VMM.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* ---- the client socket: one per VMM -------------------------------------- */

enum render_client_op {
    RENDER_CLIENT_NOP = 0,
    RENDER_CLIENT_INIT = 1,
    RENDER_CLIENT_RESET = 2,
    RENDER_CLIENT_CREATE_CONTEXT = 3, /* answered; the only one that is */
    RENDER_CLIENT_DESTROY_CONTEXT = 4,
    RENDER_CLIENT_OP_COUNT = 5,
};

#define RENDER_CONTEXT_NAME_SIZE 32u

struct render_client_init {
    uint32_t op;
    uint32_t flags;
};

struct render_client_create_context {
    uint32_t op;
    uint32_t context_id;
    char name[RENDER_CONTEXT_NAME_SIZE];
};

struct render_client_destroy_context {
    uint32_t op;
    uint32_t context_id;
};

/* With one socket fd where ok is 1, with none where it is 0. */
struct render_client_create_context_reply {
    uint8_t ok;
};

union render_client_request {
    uint32_t op;
    struct render_client_init init;
    struct render_client_create_context create_context;
    struct render_client_destroy_context destroy_context;
};

_Static_assert(sizeof(struct render_client_init) == 8, "wire size");
_Static_assert(sizeof(struct render_client_create_context) == 40, "wire size");
_Static_assert(offsetof(struct render_client_create_context, name) == 8, "wire offset");
_Static_assert(sizeof(struct render_client_destroy_context) == 8, "wire size");
_Static_assert(sizeof(struct render_client_create_context_reply) == 1, "wire size");

/* ---- a context socket: one per context ----------------------------------- */

enum render_context_op {
    RENDER_CONTEXT_NOP = 0,
    RENDER_CONTEXT_INIT = 1,
    RENDER_CONTEXT_CREATE_RESOURCE = 2, /* answered; the only one that is */
    RENDER_CONTEXT_IMPORT_RESOURCE = 3,
    RENDER_CONTEXT_DESTROY_RESOURCE = 4,
    RENDER_CONTEXT_SUBMIT_CMD = 5,
    RENDER_CONTEXT_SUBMIT_FENCE = 6,
    RENDER_CONTEXT_OP_COUNT = 7,
};

/* With the timeline memfd, and an eventfd where the VMM wants to be woken. */
struct render_context_init {
    uint32_t op;
    uint32_t flags;
    uint64_t shmem_size;
};

struct render_context_create_resource {
    uint32_t op;
    uint32_t res_id;
    uint64_t blob_id;
    uint64_t blob_size;
    uint32_t blob_flags;
    uint32_t pad;
};

struct render_context_import_resource {
    uint32_t op;
    uint32_t res_id;
    int32_t fd_type;
    uint32_t pad;
    uint64_t size;
};

struct render_context_destroy_resource {
    uint32_t op;
    uint32_t res_id;
};

#define RENDER_INLINE_CMD_SIZE 256u

/* What exceeds cmd[] follows as one message of exactly the remaining size. */
struct render_context_submit_cmd {
    uint32_t op;
    uint32_t size;
    uint8_t cmd[RENDER_INLINE_CMD_SIZE];
};

struct render_context_submit_fence {
    uint32_t op;
    uint32_t flags;
    uint32_t ring_index;
    uint32_t seqno;
};

union render_context_request {
    uint32_t op;
    struct render_context_init init;
    struct render_context_create_resource create_resource;
    struct render_context_import_resource import_resource;
    struct render_context_destroy_resource destroy_resource;
    struct render_context_submit_cmd submit_cmd;
    struct render_context_submit_fence submit_fence;
};

enum render_fd_type {
    RENDER_FD_INVALID = -1,
    RENDER_FD_SHM = 2,
};

#define RENDER_MAP_CACHED 1u

/* With one fd, or with none where fd_type is RENDER_FD_INVALID. */
struct render_context_create_resource_reply {
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

_Static_assert(sizeof(struct render_context_init) == 16, "wire size");
_Static_assert(offsetof(struct render_context_init, shmem_size) == 8, "wire offset");
_Static_assert(sizeof(struct render_context_create_resource) == 32, "wire size");
_Static_assert(offsetof(struct render_context_create_resource, blob_id) == 8, "wire offset");
_Static_assert(offsetof(struct render_context_create_resource, blob_flags) == 24, "wire offset");
_Static_assert(sizeof(struct render_context_import_resource) == 24, "wire size");
_Static_assert(offsetof(struct render_context_import_resource, size) == 16, "wire offset");
_Static_assert(sizeof(struct render_context_destroy_resource) == 8, "wire size");
_Static_assert(sizeof(struct render_context_submit_cmd) == 264, "wire size");
_Static_assert(sizeof(struct render_context_submit_fence) == 16, "wire size");
_Static_assert(sizeof(struct render_context_create_resource_reply) == 56, "wire size");
_Static_assert(offsetof(struct render_context_create_resource_reply, vulkan_info) == 8,
               "wire offset");
