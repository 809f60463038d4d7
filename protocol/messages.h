/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every ring message, declared once. From this table come the structs, the
 * encoder, the decoder with its range checks, and the table-driven tests.
 *
 * On the ring a message is a header {u16 code, u16 zero, u32 size} and its
 * fields in table order, packed little-endian, then (TAIL messages only) `size`
 * bytes of payload, then zero bytes up to a multiple of 8. `size` in the header
 * counts all of it. Codes are never reused (19 and 23 have been some); HELLO is frozen for ever.
 *
 * All messages go from guest to host; answers are structs that the host writes
 * to the place the guest names in the reply area (offset `reply`, multiple of
 * APIR_REPLY_ALIGN, struct apir_reply_*) before it moves `head` past the message.
 *
 * M(NAME, name, code, states, TAIL|FLAT)   F(type, name, lowest, highest)
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define APIR_HELLO_MAGIC UINT64_C(0x6f6c6c6548524950)
#define APIR_REPLY_ALIGN 64u
#define APIR_REPLY_SIZE  512u /* room behind every reply offset */
#define APIR_DEVICES_MAX 16u
#define APIR_BUFFERS_MAX 4096u                /* live buffers per context; ids run from 1 */
#define APIR_STREAMS_MAX 64u                  /* live backend instances per context; ids from 1 */
#define APIR_SLOTS_MAX   64u                  /* graph slots per context; ids from 0 */
#define APIR_EVENTS_MAX  256u                 /* per context; ids from 0 */
#define APIR_EXTRAS_MAX  4u                   /* extra buffer types of a device; numbers from 0 */
#define APIR_INLINE_MAX  8192u                /* SET_INLINE payload */
#define APIR_PAYLOAD_MAX (UINT64_C(64) << 20) /* one graph definition or query */
#define APIR_MESSAGE_MAX (APIR_INLINE_MAX + 128u)
#define APIR_SIZE_MAX    (UINT64_C(1) << 46) /* buffer sizes and offsets */

/* When a message is allowed. */
#define APIR_ST_NEW   1u /* before HELLO */
#define APIR_ST_READY 2u

#define APIR_U32_MAX       UINT32_MAX
#define APIR_U64_MAX       UINT64_MAX
#define APIR_BUFFER_ID_MAX UINT32_MAX /* generation << 12 | index; the handler looks it up */

/* A place in a blob but the ring: checked against its size. */
#define APIR_FIELDS_REGION(F)                                                                      \
    F(uint32_t, blob, 1, APIR_BLOBS_MAX - 1)                                                       \
    F(uint64_t, blob_offset, 0, APIR_BLOB_SIZE_MAX)

/* A place in a buffer. stream 0: ordered as ggml's synchronous calls are; else after that stream's
 * work. */
#define APIR_FIELDS_AT(F)                                                                          \
    F(uint32_t, stream, 0, APIR_STREAMS_MAX)                                                       \
    F(uint32_t, buffer, 1, APIR_BUFFER_ID_MAX)                                                     \
    F(uint64_t, offset, 0, APIR_SIZE_MAX)

#define APIR_FIELDS_hello(F)                                                                       \
    F(uint64_t, magic, APIR_HELLO_MAGIC, APIR_HELLO_MAGIC)                                         \
    F(uint32_t, major, 0, APIR_U32_MAX)                                                            \
    F(uint32_t, minor, 0, APIR_U32_MAX)                                                            \
    F(uint64_t, features, 0, APIR_U64_MAX)                                                         \
    F(uint32_t, reply, 0, APIR_U32_MAX)

#define APIR_FIELDS_device_info(F)                                                                 \
    F(uint32_t, device, 0, APIR_DEVICES_MAX - 1)                                                   \
    F(uint32_t, reply, 0, APIR_U32_MAX)

#define APIR_FIELDS_device_memory(F) APIR_FIELDS_device_info(F)

/* payload: a graph of one node (graph.h); answers supports_op and get_alloc_size */
#define APIR_FIELDS_op_query(F)                                                                    \
    F(uint32_t, device, 0, APIR_DEVICES_MAX - 1)                                                   \
    APIR_FIELDS_REGION(F)                                                                          \
    F(uint64_t, size, 1, APIR_PAYLOAD_MAX)                                                         \
    F(uint32_t, reply, 0, APIR_U32_MAX)

#define APIR_FIELDS_buffer_alloc(F)                                                                \
    F(uint32_t, device, 0, APIR_DEVICES_MAX - 1)                                                   \
    F(uint32_t, buffer, 1, APIR_BUFFER_ID_MAX)                                                     \
    F(uint64_t, size, 1, APIR_SIZE_MAX)                                                            \
    F(uint32_t, reply, 0, APIR_U32_MAX)

/* A buffer of one of the device's extra types (struct apir_reply_device_info). */
#define APIR_FIELDS_buffer_alloc_extra(F)                                                          \
    APIR_FIELDS_buffer_alloc(F) F(uint32_t, extra, 0, APIR_EXTRAS_MAX - 1)

/* What SET and SET_INLINE write to this buffer of an extra type from here on are the bytes of this
 * contiguous tensor, from the first to the last, at `offset` and on. With the last one the host
 * converts it. */
#define APIR_FIELDS_tensor_begin(F)                                                                \
    F(uint32_t, buffer, 1, APIR_BUFFER_ID_MAX)                                                     \
    F(uint64_t, offset, 0, APIR_SIZE_MAX)                                                          \
    F(uint32_t, type, 0, 255)                                                                      \
    F(uint64_t, ne0, 1, APIR_SIZE_MAX)                                                             \
    F(uint64_t, ne1, 1, APIR_SIZE_MAX)                                                             \
    F(uint64_t, ne2, 1, APIR_SIZE_MAX)

#define APIR_FIELDS_buffer_free(F) F(uint32_t, buffer, 1, APIR_BUFFER_ID_MAX)

#define APIR_FIELDS_buffer_clear(F)                                                                \
    F(uint32_t, buffer, 1, APIR_BUFFER_ID_MAX)                                                     \
    F(uint32_t, value, 0, 255)

#define APIR_FIELDS_buffer_reset(F) F(uint32_t, buffer, 1, APIR_BUFFER_ID_MAX)

#define APIR_FIELDS_set(F)                                                                         \
    APIR_FIELDS_AT(F)                                                                              \
    F(uint64_t, size, 1, APIR_BLOB_SIZE_MAX)                                                       \
    APIR_FIELDS_REGION(F)

#define APIR_FIELDS_set_inline(F)                                                                  \
    APIR_FIELDS_AT(F)                                                                              \
    F(uint64_t, size, 1, APIR_INLINE_MAX)

/*
 * The bytes arrive in steps of apir_get_step() bytes, the last one shorter, in order. The host may
 * say so as they do: while head stands k bytes before the message's end, all but the last k steps
 * are there. They are fewer than the message has bytes.
 */
#define APIR_FIELDS_get(F) APIR_FIELDS_set(F)

/* rows of `size` bytes: `count` of them, `stride` apart in the tensor, packed in
 * the blob */
#define APIR_FIELDS_set_2d(F)                                                                      \
    APIR_FIELDS_AT(F)                                                                              \
    F(uint64_t, size, 1, APIR_BLOB_SIZE_MAX)                                                       \
    F(uint64_t, count, 1, APIR_BLOB_SIZE_MAX)                                                      \
    F(uint64_t, stride, 0, APIR_SIZE_MAX)                                                          \
    APIR_FIELDS_REGION(F)

#define APIR_FIELDS_get_2d(F) APIR_FIELDS_set_2d(F)

#define APIR_FIELDS_memset(F)                                                                      \
    APIR_FIELDS_AT(F)                                                                              \
    F(uint64_t, size, 1, APIR_SIZE_MAX)                                                            \
    F(uint32_t, value, 0, 255)

/* src_stream and dst_stream: both 0 (synchronous) or both a stream. The ranges are apart. */
#define APIR_FIELDS_copy(F)                                                                        \
    F(uint32_t, src_stream, 0, APIR_STREAMS_MAX)                                                   \
    F(uint32_t, dst_stream, 0, APIR_STREAMS_MAX)                                                   \
    F(uint32_t, src_buffer, 1, APIR_BUFFER_ID_MAX)                                                 \
    F(uint64_t, src_offset, 0, APIR_SIZE_MAX)                                                      \
    F(uint32_t, dst_buffer, 1, APIR_BUFFER_ID_MAX)                                                 \
    F(uint64_t, dst_offset, 0, APIR_SIZE_MAX)                                                      \
    F(uint64_t, size, 1, APIR_SIZE_MAX)

/* status: struct apir_stream_status in the reply area for the stream's life */
#define APIR_FIELDS_stream_open(F)                                                                 \
    F(uint32_t, stream, 1, APIR_STREAMS_MAX)                                                       \
    F(uint32_t, device, 0, APIR_DEVICES_MAX - 1)                                                   \
    F(uint32_t, status, 0, APIR_U32_MAX)                                                           \
    F(uint32_t, reply, 0, APIR_U32_MAX)

/* How many threads compute what follows in the stream, of at most as many as the host allows. Where
 * the device says APIR_DEVICE_THREADS. */
#define APIR_FIELDS_stream_threads(F)                                                              \
    F(uint32_t, stream, 1, APIR_STREAMS_MAX)                                                       \
    F(uint32_t, threads, 1, APIR_U32_MAX)

#define APIR_FIELDS_stream_close(F) F(uint32_t, stream, 1, APIR_STREAMS_MAX)

/* everything submitted to the stream before this is done when head passes it */
#define APIR_FIELDS_stream_sync(F) F(uint32_t, stream, 1, APIR_STREAMS_MAX)

/* An event is a mark in a stream, made by its first RECORD and moved by the next. WAIT:
 * the stream's work that follows starts after the mark. SYNC: head passes this message
 * once what is before the mark is done. An event without a mark holds nobody up. */
#define APIR_FIELDS_event_record(F)                                                                \
    F(uint32_t, event, 0, APIR_EVENTS_MAX - 1)                                                     \
    F(uint32_t, stream, 1, APIR_STREAMS_MAX)

#define APIR_FIELDS_event_wait(F) APIR_FIELDS_event_record(F)

#define APIR_FIELDS_event_sync(F) F(uint32_t, event, 0, APIR_EVENTS_MAX - 1)

#define APIR_FIELDS_event_free(F) F(uint32_t, event, 0, APIR_EVENTS_MAX - 1)

/* The blob's memory is going to be source and destination of many transfers of this
 * device: the host may make it known to the driver. Answers struct apir_reply_blob. */
#define APIR_FIELDS_blob_register(F)                                                               \
    F(uint32_t, blob, 1, APIR_BLOBS_MAX - 1)                                                       \
    F(uint32_t, device, 0, APIR_DEVICES_MAX - 1)                                                   \
    F(uint32_t, reply, 0, APIR_U32_MAX)

/* The blob is not used again; its id may be once the resource is destroyed. */
#define APIR_FIELDS_blob_forget(F) F(uint32_t, blob, 1, APIR_BLOBS_MAX - 1)

/* payload: graph.h. Redefines the slot if it is in use. */
#define APIR_FIELDS_graph_def(F)                                                                   \
    F(uint32_t, slot, 0, APIR_SLOTS_MAX - 1)                                                       \
    F(uint32_t, stream, 1, APIR_STREAMS_MAX)                                                       \
    APIR_FIELDS_REGION(F)                                                                          \
    F(uint64_t, size, 1, APIR_PAYLOAD_MAX)

#define APIR_FIELDS_graph_exec(F)                                                                  \
    F(uint32_t, slot, 0, APIR_SLOTS_MAX - 1)                                                       \
    F(uint32_t, stream, 1, APIR_STREAMS_MAX)

#define APIR_FIELDS_graph_drop(F) F(uint32_t, slot, 0, APIR_SLOTS_MAX - 1)

/* payload: graph.h, without buffers. The order that the host's backend prefers goes
 * to `out_offset` of the same blob: u32 tensor index per node, then for each
 * dependency two u32, tensor and until: `tensor` must stay allocated until then. */
#define APIR_FIELDS_graph_optimize(F)                                                              \
    F(uint32_t, stream, 1, APIR_STREAMS_MAX)                                                       \
    APIR_FIELDS_REGION(F)                                                                          \
    F(uint64_t, size, 1, APIR_PAYLOAD_MAX)                                                         \
    F(uint64_t, out_offset, 0, APIR_BLOB_SIZE_MAX)                                                 \
    F(uint64_t, out_size, 1, APIR_PAYLOAD_MAX)                                                     \
    F(uint32_t, reply, 0, APIR_U32_MAX)

/* FLAT; TAIL: its `size` bytes follow; ASKS: it has a `reply`, the place of its answer. */
#define APIR_MESSAGES(M)                                                                           \
    M(HELLO, hello, 1, APIR_ST_NEW, ASKS)                                                          \
    M(DEVICE_INFO, device_info, 2, APIR_ST_READY, ASKS)                                            \
    M(DEVICE_MEMORY, device_memory, 3, APIR_ST_READY, ASKS)                                        \
    M(OP_QUERY, op_query, 4, APIR_ST_READY, ASKS)                                                  \
    M(BUFFER_ALLOC, buffer_alloc, 5, APIR_ST_READY, ASKS)                                          \
    M(BUFFER_FREE, buffer_free, 6, APIR_ST_READY, FLAT)                                            \
    M(BUFFER_CLEAR, buffer_clear, 7, APIR_ST_READY, FLAT)                                          \
    M(BUFFER_RESET, buffer_reset, 8, APIR_ST_READY, FLAT)                                          \
    M(SET, set, 9, APIR_ST_READY, FLAT)                                                            \
    M(SET_INLINE, set_inline, 10, APIR_ST_READY, TAIL)                                             \
    M(GET, get, 11, APIR_ST_READY, FLAT)                                                           \
    M(SET_2D, set_2d, 12, APIR_ST_READY, FLAT)                                                     \
    M(GET_2D, get_2d, 13, APIR_ST_READY, FLAT)                                                     \
    M(MEMSET, memset, 14, APIR_ST_READY, FLAT)                                                     \
    M(COPY, copy, 15, APIR_ST_READY, FLAT)                                                         \
    M(STREAM_OPEN, stream_open, 16, APIR_ST_READY, ASKS)                                           \
    M(STREAM_CLOSE, stream_close, 17, APIR_ST_READY, FLAT)                                         \
    M(STREAM_SYNC, stream_sync, 18, APIR_ST_READY, FLAT)                                           \
    M(GRAPH_DEF, graph_def, 20, APIR_ST_READY, FLAT)                                               \
    M(GRAPH_EXEC, graph_exec, 21, APIR_ST_READY, FLAT)                                             \
    M(GRAPH_DROP, graph_drop, 22, APIR_ST_READY, FLAT)                                             \
    M(GRAPH_OPTIMIZE, graph_optimize, 24, APIR_ST_READY, ASKS)                                     \
    M(EVENT_RECORD, event_record, 25, APIR_ST_READY, FLAT)                                         \
    M(EVENT_WAIT, event_wait, 26, APIR_ST_READY, FLAT)                                             \
    M(EVENT_SYNC, event_sync, 27, APIR_ST_READY, FLAT)                                             \
    M(EVENT_FREE, event_free, 28, APIR_ST_READY, FLAT)                                             \
    M(BLOB_REGISTER, blob_register, 29, APIR_ST_READY, ASKS)                                       \
    M(BLOB_FORGET, blob_forget, 30, APIR_ST_READY, FLAT)                                           \
    M(BUFFER_ALLOC_EXTRA, buffer_alloc_extra, 31, APIR_ST_READY, ASKS)                             \
    M(TENSOR_BEGIN, tensor_begin, 32, APIR_ST_READY, FLAT)                                         \
    M(STREAM_THREADS, stream_threads, 33, APIR_ST_READY, FLAT)

#include "protocol/shm.h"

enum apir_msg_code {
#define M(NAME, name, code, states, tail) APIR_MSG_##NAME = (code),
    APIR_MESSAGES(M)
#undef M
};

#define F(type, field, lo, hi) type field;
#define M(NAME, name, code, states, tail)                                                          \
    struct apir_msg_##name {                                                                       \
        APIR_FIELDS_##name(F)                                                                      \
    };
APIR_MESSAGES(M)
#undef M
#undef F

/* A decoded message: a private copy, every field within its range. */
struct apir_msg {
    enum apir_msg_code code;
    const uint8_t *tail; /* TAIL messages: u.NAME.size bytes in the caller's copy, else NULL */
    union {
#define M(NAME, name, code, states, tail) struct apir_msg_##name name;
        APIR_MESSAGES(M)
#undef M
    } u;
};

struct apir_msg_header {
    uint16_t code;
    uint16_t zero;
    uint32_t size; /* of the whole message, a multiple of 8 */
};

/*
 * Encodes msg (msg->code chooses the member) into buf. For TAIL messages
 * msg->tail gives the payload. Returns the size written (a multiple of 8), or
 * -EINVAL (unknown code, field out of range) or -ENOSPC.
 */
int64_t apir_msg_encode(const struct apir_msg *msg, void *buf, size_t cap);

/*
 * Decodes exactly one message of `size` bytes that the caller has already
 * copied out of shared memory. `state` is one APIR_ST_ bit. The order of checks
 * is code, state, size, field ranges, trailing bytes. Returns 0, or
 * -EBADMSG with *ret_why (static text) naming the first thing wrong.
 */
int apir_msg_decode(const void *buf, size_t size, unsigned state, struct apir_msg *ret_msg,
                    const char **ret_why);

/* Bytes of a step of a GET of `size` bytes: enough not to feel the step, and at most 33 of them. */
static inline uint64_t apir_get_step(uint64_t size)
{
    uint64_t step = (size / 32 + 4095) & ~UINT64_C(4095);
    return step > 16384 ? step : 16384;
}

/* Static name of a code, or "unknown". */
const char *apir_msg_name(unsigned code);

/* ---- answers ---------------------------------------------------------- */

enum apir_status {
    APIR_OK = 0,
    APIR_E_NOMEM = 1,
    APIR_E_UNSUPPORTED = 2,
    APIR_E_FAILED = 3,
    APIR_E_LIMIT = 4,
    APIR_E_VERSION = 5,
};

/* Bits of HELLO's features. What a host does not know it leaves alone. */
enum apir_hello_feature {
    APIR_HELLO_ONE_KERNEL = 1, /* the worker's, too: a futex in the ring wakes either side */
};

#define APIR_NAME_SIZE       128u
#define APIR_EXTRA_NAME_SIZE 32u

struct apir_reply_hello {
    uint32_t status; /* APIR_OK, or APIR_E_VERSION with the host's version below */
    uint32_t major;
    uint32_t minor;
    uint32_t n_devices;
    uint64_t features;
    char host_ggml[APIR_NAME_SIZE];
    uint64_t shm_limit; /* bytes of all blobs of the context together; 0: not said */
};

enum apir_device_flag {
    APIR_DEVICE_SYNC = 4,    /* graph_compute returns when done (CPU) */
    APIR_DEVICE_THREADS = 8, /* from minor 5 on: takes STREAM_THREADS */
};

struct apir_reply_device_info {
    uint32_t status;
    uint32_t flags; /* enum apir_device_flag */
    uint64_t alignment;
    uint64_t max_size;
    uint64_t memory_free;
    uint64_t memory_total;
    char name[64]; /* the host's name, such as Vulkan0 */
    char description[APIR_NAME_SIZE];
    char device_id[64]; /* PCI address, or empty */
    /* The same for this device at every boot; no other device of the
     * host has it. Characters a-z 0-9 . : @ _ -; empty: not told. */
    char id[APIR_ID_SIZE];
    /* From minor 5 on: ggml's extra buffer types of this device, for weights in layouts that only
     * its kernels know: how many, and their names. */
    uint32_t n_extras;
    uint32_t zero;
    char extras[APIR_EXTRAS_MAX][APIR_EXTRA_NAME_SIZE];
};

struct apir_reply_device_memory {
    uint32_t status;
    uint32_t zero;
    uint64_t memory_free;
    uint64_t memory_total;
};

enum apir_op_flag {
    APIR_OP_SUPPORTED = 1,
    APIR_OP_OFFLOAD = 2,
};

struct apir_reply_op_query {
    uint32_t status;
    uint32_t flags;      /* enum apir_op_flag */
    uint64_t alloc_size; /* bytes for the node's own data; 0 where it has none */
    /* From minor 5 on. Bit i: the op is supported with its first source in extra type i; or, of a
     * tensor of no op, it has a layout there, and takes so many bytes. */
    uint32_t extras;
    uint32_t zero;
    uint64_t extra_sizes[APIR_EXTRAS_MAX];
};

enum apir_stream_flag {
    APIR_STREAM_OPTIMIZE = 1, /* the host's backend has graph_optimize */
};

struct apir_reply_stream {
    uint32_t status;
    uint32_t flags;          /* enum apir_stream_flag */
    char why[APIR_WHY_SIZE]; /* APIR_E_LIMIT's, for the user; NUL-terminated */
};

struct apir_reply_optimize {
    uint32_t status; /* not APIR_OK: keep the order there is */
    uint32_t n_nodes;
    uint32_t n_deps;
    uint32_t zero;
};

enum apir_blob_flag {
    APIR_BLOB_DIRECT = 1, /* the device itself reads and writes the blob */
};

struct apir_reply_blob {
    uint32_t status;
    uint32_t flags; /* enum apir_blob_flag */
};

struct apir_reply_status {
    uint32_t status;
    uint32_t zero;
    char why[APIR_WHY_SIZE]; /* as in apir_reply_stream */
};

/* Lives in the reply area as long as the stream; the host writes it as a graph fails, `failed`
 * last, before head passes the failing message. The guest clears `failed`. */
struct apir_stream_status {
    uint32_t failed; /* enum apir_status of the latest failed graph, sticky */
    uint32_t zero;
    char why[APIR_WHY_SIZE]; /* for the user: the op, its tensor and the reason */
};

_Static_assert(sizeof(struct apir_reply_hello) <= APIR_REPLY_SIZE, "fits a reply");
_Static_assert(sizeof(struct apir_reply_device_info) <= APIR_REPLY_SIZE, "fits a reply");
_Static_assert(sizeof(struct apir_stream_status) <= APIR_REPLY_SIZE, "fits a reply");
