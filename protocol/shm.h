/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring blob: the layout that guest, server and worker share.
 *
 *   0                    struct apir_ring_header (one page)
 *   4096                 reply area, up to blob_size / 2
 *   blob_size / 2        command ring, blob_size / 2 bytes, a power of two
 *
 * The guest makes it with blob_id 0 as the first blob of its context; others
 * follow with blob_id 1 to 63, without a layout of their own. The server fills
 * line 0 before it answers the creation: a guest that maps the blob and does
 * not find the magic talks to a host without us.
 *
 * Every word is written by the one side named; the other side treats it as
 * hostile and reads it once per decision. What the guest writes can only hurt
 * the guest's own context.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the protocol is little-endian; a big-endian host needs byte swaps in wire.h and here"
#endif

#define APIR_CONTEXT_NAME   "apir:1" /* routes; carries the major version; never trusted */
#define APIR_PROTOCOL_MAJOR 1u
/* 1: DEVICE_INFO tells an id; 2: BUFFER_ALLOC and STREAM_OPEN why not; 3: a stream why it failed;
 * 4: no word `coming` beside tail, no doorbell for fences; 5: extra buffer types, STREAM_THREADS */
#define APIR_PROTOCOL_MINOR 5u

#define APIR_RING_MAGIC       UINT64_C(0x31474e5252495041) /* "APIRRNG1" as bytes */
#define APIR_SHM_ALIGN        65536u                       /* every blob is a multiple of this */
#define APIR_RING_BLOB_ID     0u
#define APIR_ARENA_BLOB_ID    1u /* where messages put what is longer than they are */
#define APIR_RING_SIZE_MIN    (128u << 10)
#define APIR_RING_SIZE_MAX    (16u << 20)
#define APIR_RING_SIZE        (1u << 20) /* what our guest asks for */
#define APIR_RING_HEADER_SIZE 4096u
#define APIR_BLOB_SIZE_MAX    (UINT64_C(1) << 30)
#define APIR_BLOBS_MAX        64u /* per context: the ring, the arena, host buffers */

enum apir_state {
    APIR_STATE_NONE = 0,
    APIR_STATE_STARTING = 1, /* set by the server with the magic: a worker is on its way */
    APIR_STATE_READY = 2,    /* set by the worker: the host's ggml is loaded */
    APIR_STATE_FATAL = 3,    /* set by the worker: a malformed message; reason says which */
    APIR_STATE_LOST = 4,     /* set by the server: the worker is gone; reason says how */
};

#define APIR_REASON_MAX 256u
/* In each reason, and each note, that a device was tried and did not do: apir doctor looks for it.
 */
#define APIR_CANNOT_COMPUTE "cannot compute"

struct apir_ring_header {
    /* line 0: server, once, before the guest can map it */
    uint64_t magic;
    uint32_t major;
    uint32_t minor;
    uint64_t blob_size;
    uint32_t reply_offset;
    uint32_t reply_size;
    uint32_t cmd_offset;
    uint32_t cmd_size;
    uint8_t pad0[24];
    /* line 1: guest */
    uint64_t tail; /* bytes ever written to the command ring */
    uint8_t pad1[56];
    /* line 2: guest */
    uint32_t waiting; /* threads that sleep on the futex `wake` (same kernel only) */
    uint32_t ping;    /* a new value, with a PING doorbell, asks for the same in pong */
    uint8_t pad2[56];
    /* line 3: worker */
    uint64_t head; /* bytes ever completed: replies before it are in place */
    uint8_t pad3[56];
    /* line 4: worker, but for guest or server taking `idle` away when they wake it */
    uint32_t idle; /* 1: the worker sleeps on this futex and wants to be woken (a KICK doorbell) */
    uint32_t wake; /* futex word, counts up when head moves under a waiting guest */
    uint8_t pad4[56];
    /* line 5: server (pong; state LOST) and worker (state READY, FATAL) */
    uint32_t state;
    uint32_t pong;
    uint8_t pad5[56];
    /* line 6: whoever sets FATAL or LOST, before it; NUL-terminated text. Before the worker starts,
     * the server: which of the host's devices it leaves out and why, or nothing (a note, which only
     * apir doctor reads, once the state is READY) */
    char reason[APIR_REASON_MAX];
    /*
     * line 10: a robust futex (set_robust_list(2)) of the worker's main thread, which has its id in
     * it. However the worker ends, the kernel then sets FUTEX_OWNER_DIED: also where the server has
     * ended, which takes its workers along. A host older than this leaves it 0.
     */
    uint32_t worker;
    uint8_t pad10[60];
};

_Static_assert(offsetof(struct apir_ring_header, tail) == 64, "cache line");
_Static_assert(offsetof(struct apir_ring_header, waiting) == 128, "cache line");
_Static_assert(offsetof(struct apir_ring_header, head) == 192, "cache line");
_Static_assert(offsetof(struct apir_ring_header, idle) == 256, "cache line");
_Static_assert(offsetof(struct apir_ring_header, state) == 320, "cache line");
_Static_assert(offsetof(struct apir_ring_header, reason) == 384, "cache line");
_Static_assert(offsetof(struct apir_ring_header, worker) == 640, "cache line");
_Static_assert(sizeof(struct apir_ring_header) <= APIR_RING_HEADER_SIZE, "one page");

/*
 * The doorbell: the payload of virtio-gpu's SUBMIT_3D (EXECBUFFER) or vtest's
 * SUBMIT_CMD2, always this one struct. The server answers it without asking
 * the worker.
 */
enum apir_doorbell_op {
    APIR_DOORBELL_KICK = 1, /* wake the worker; value 0 */
    APIR_DOORBELL_PING = 2, /* store value (32 bits) to pong: is the server alive? */
};

#define APIR_DOORBELL_MAGIC 0x62447041u /* "ApDb" */

struct apir_doorbell {
    uint32_t magic;
    uint32_t op;
    uint64_t zero;
    uint64_t value;
};
_Static_assert(sizeof(struct apir_doorbell) == 24, "wire size");

#define APIR_COUNTED_CODES 64u /* of messages; higher ones are not counted */
/* Set in apir_worker_counts.work while the worker is at work. */
#define APIR_AT_WORK (UINT64_C(1) << 63)

/*
 * Worker: what it has done for its context. None ever goes back, but `work`, so each can be read at
 * any time by itself (backend/server/seen/counts.h).
 */
struct apir_worker_counts {
    /* Nanoseconds at work so far. At work: APIR_AT_WORK, and the moment (CLOCK_MONOTONIC) since
     * which it would have been, had it never paused. One word, for both must be of one moment. */
    uint64_t work;
    uint64_t graphs_ns;  /* computing graphs, and waiting for streams that do */
    uint64_t longest_ns; /* the longest of these for one graph */
    uint64_t turns_ns;   /* waiting for turns */
    uint64_t set_bytes;  /* from the guest */
    uint64_t got_bytes;  /* to it */
    struct {
        uint64_t count;
        uint64_t ns; /* at the log's level info only */
    } messages[APIR_COUNTED_CODES];
    char sandbox[256]; /* what its sandbox has, before it is ready; NUL-terminated */
};

/*
 * Between server and worker only, one page of a memfd that the guest never
 * sees: so limits of time rest on nothing the guest can write.
 */
struct apir_worker_status {
    uint64_t head;  /* worker: the true head, stored (release) with the shared one */
    uint64_t taken; /* worker: where the message that it works on ends; else as head */
    uint32_t ready; /* worker: 1 once it has loaded its drivers and reads messages */
    uint32_t zero;
    uint64_t progress; /* worker: counts up while the message gets on, if its device shows that */
    /* Worker, where classes take turns: a bit per turn that it waits for, or computes in; and the
     * threads of its CPU stream (0: as many as there are). */
    uint32_t turns_wanted;
    uint32_t turns_held;
    uint32_t threads;
    uint8_t pad[20];
    struct apir_worker_counts counts;
};
_Static_assert(offsetof(struct apir_worker_status, counts) == 64, "cache line");

#define APIR_TURNS_MAX 16u

enum apir_turn_state {
    APIR_TURN_OPEN = 1, /* workers may begin a graph */
    APIR_TURN_TELL = 2, /* others wait: the end of each graph is to be told */
};

/* One for all workers of a server, who map it to read: which devices are its class's at the moment
 * (backend/server/turns/turns.h). */
struct apir_turn_page {
    uint32_t state[APIR_TURNS_MAX]; /* enum apir_turn_state together; each is a futex */
    uint8_t rest[4096 - 4 * APIR_TURNS_MAX];
};

/* Among the workers of a server: who looks for work at the moment (backend/server/spin.h). */
#define APIR_SPIN_SLOTS 2048u

struct apir_spin_page {
    uint32_t limit;   /* server: so many may look at once */
    uint32_t n_slots; /* server: higher slots were never used */
    uint8_t pad[56];
    uint8_t looking[APIR_SPIN_SLOTS]; /* each worker its own: 1 while it looks */
    uint8_t rest[4096 - 64 - APIR_SPIN_SLOTS];
};

/* So many of a machine's processors may look for work at once. */
static inline uint32_t apir_spin_most(long processors)
{
    return processors >= 8 ? (uint32_t)processors / 4 : 1;
}

/* The descriptors that a worker is started with; the last one where classes take turns. */
enum apir_worker_fd {
    APIR_WORKER_FD_CONTROL = 3,
    APIR_WORKER_FD_STATUS,
    APIR_WORKER_FD_SPIN,
    APIR_WORKER_FD_TURNS,
};

/* Server -> worker on the control socket (SEQPACKET), one fd with ADD_BLOB. */
enum apir_control_op {
    APIR_CONTROL_ADD_BLOB = 1,
    APIR_CONTROL_DEL_BLOB = 2,
    APIR_CONTROL_ANSWER = 3, /* struct apir_control_answer */
};

struct apir_control {
    uint32_t op;
    uint32_t blob_id;
    uint64_t size;
};

/* Worker -> server on the same socket; one request at a time, RESERVE, ROOM, TURN and TRY are
 * answered. */
enum apir_ask_op {
    APIR_ASK_RESERVE = 1, /* `size` bytes of the device, which the context uses from now on */
    APIR_ASK_RELEASE = 2, /* of what was reserved */
    APIR_ASK_ROOM = 3,    /* how much could be had */
    APIR_ASK_TURN = 6,    /* which of the turns is the device's */
    APIR_ASK_MOVED = 7,   /* turns_wanted or turns_held have changed, as far as the server cares */
    /* Of one without a context, which was told to try the devices, and of no other: */
    APIR_ASK_TRY = 4,   /* from here on it tries `device`, of this name and not id */
    APIR_ASK_TRIED = 5, /* all `size` devices compute, and it waits for a ring */
};

enum apir_ask_flag {
    APIR_ASK_HOST = 1, /* the device's memory is the host's main memory */
};

#define APIR_ID_SIZE  64u
#define APIR_WHY_SIZE 192u

struct apir_ask {
    uint32_t op;
    uint32_t flags; /* enum apir_ask_flag */
    uint64_t size;
    char device[APIR_ID_SIZE]; /* as DEVICE_INFO tells it, NUL-padded */
};

struct apir_control_answer {
    uint32_t op;
    uint32_t refused; /* RESERVE: 1, and why */
    uint64_t total;   /* TURN: its number, or APIR_TURNS_MAX: none. ROOM: what the limits leave a
                         context of the device, used or … */
    uint64_t free;    /* … not; UINT64_MAX: no limit */
    char why[APIR_WHY_SIZE]; /* for the user; NUL-terminated */
};

/* The parts of the ring blob for a blob size that apir_ring_size_ok accepts. */
static inline int apir_ring_size_ok(uint64_t size)
{
    return size >= APIR_RING_SIZE_MIN && size <= APIR_RING_SIZE_MAX && (size & (size - 1)) == 0;
}

static inline uint32_t apir_ring_cmd_offset(uint64_t size)
{
    return (uint32_t)(size / 2);
}

static inline uint32_t apir_ring_reply_size(uint64_t size)
{
    return (uint32_t)(size / 2) - APIR_RING_HEADER_SIZE;
}
