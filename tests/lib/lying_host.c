/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/lying_host.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fdsock.h"
#include "protocol/ring.h"

#define NAP_NS 10000000u

static struct {
    struct apir_ring_host ring;
    uint8_t *blobs[APIR_BLOBS_MAX];
    uint64_t sizes[APIR_BLOBS_MAX];
    unsigned state;
    int fd; /* of the connection */
    lie *tell;
} host;

int lying_host_memory(uint64_t size)
{
    int fd = memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        _exit(2);
    return fd;
}

struct apir_ring_header *lying_host_ring(void)
{
    return host.ring.header;
}

void lying_host_falls_silent(void)
{
    uint8_t unread[64];
    while (recv(host.fd, unread, sizeof(unread), 0) > 0)
        ;
    _exit(0);
}

/* ---- the socket ------------------------------------------------------------------------ */

static void ring_make(void)
{
    struct apir_ring_header h = {
        .magic = APIR_RING_MAGIC,
        .major = APIR_PROTOCOL_MAJOR,
        .minor = APIR_PROTOCOL_MINOR,
        .blob_size = APIR_RING_SIZE,
        .reply_offset = APIR_RING_HEADER_SIZE,
        .reply_size = apir_ring_reply_size(APIR_RING_SIZE),
        .cmd_offset = apir_ring_cmd_offset(APIR_RING_SIZE),
        .cmd_size = APIR_RING_SIZE / 2,
        .state = APIR_STATE_READY,
    };
    struct lie_data d = {.answer = &h};
    host.tell(LIE_READY, &d);
    memcpy(host.blobs[0], &h, sizeof(h));
    apir_ring_host_init(&host.ring, host.blobs[0], APIR_RING_SIZE);
    host.state = APIR_ST_NEW;
}

/* As the lie wants it: bytes more than `size` are zeros. */
static void say(enum lie_step step, struct lie_data *d)
{
    host.tell(step, d);
    if (apir_fdsock_send(host.fd, d->answer, d->size, d->fds, d->n_fds) < 0)
        _exit(0); /* the program has gone */
    for (size_t i = 0; i < d->n_fds; i++)
        close(d->fds[i]);
}

static void blob_give(const struct apir_unix_request *request)
{
    union {
        struct apir_unix_answer answer;
        uint8_t room[64];
    } out = {.answer = {.op = request->op, .blob_id = request->blob_id}};
    int fds[LIE_FDS_MAX] = {lying_host_memory(request->value)};
    struct lie_data d = {.answer = &out,
                         .size = sizeof(out.answer),
                         .room = sizeof(out),
                         .fds = fds,
                         .n_fds = 1,
                         .blob_id = request->blob_id,
                         .blob_size = request->value};
    void *map = mmap(NULL, request->value, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (map == MAP_FAILED)
        _exit(2);
    host.blobs[request->blob_id] = map;
    host.sizes[request->blob_id] = request->value;
    if (request->blob_id == APIR_RING_BLOB_ID)
        ring_make();
    say(LIE_MEMORY, &d);
}

/* False: the program has gone. */
static bool request_serve(void)
{
    struct apir_unix_request request;
    size_t size;
    if (apir_fdsock_recv(host.fd, &request, sizeof(request), &size, NULL, 0, NULL, 0) < 0 ||
        size == 0)
        return false;
    if (apir_unix_request_check(&request, size) < 0)
        _exit(2);
    if (request.op == APIR_UNIX_BLOB_CREATE)
        blob_give(&request);
    else if (request.op == APIR_UNIX_PING)
        __atomic_store_n(&host.ring.header->pong, (uint32_t)request.value, __ATOMIC_RELEASE);
    return true;
}

/* ---- the ring -------------------------------------------------------------------------- */

union reply {
    struct apir_reply_hello hello;
    struct apir_reply_device_info device_info;
    struct apir_reply_device_memory device_memory;
    struct apir_reply_op_query op_query;
    struct apir_reply_stream stream;
    struct apir_reply_optimize optimize;
    struct apir_reply_status status;
};

/* Where the answer goes, and what a good host would say; UINT32_MAX: there is none. */
static uint32_t reply_make(const struct apir_msg *msg, union reply *r)
{
    switch (msg->code) {
    case APIR_MSG_HELLO:
        r->hello = (struct apir_reply_hello){.major = APIR_PROTOCOL_MAJOR,
                                             .minor = APIR_PROTOCOL_MINOR,
                                             .n_devices = 1,
                                             .host_ggml = "ggml",
                                             .shm_limit = UINT64_C(64) << 20};
        host.state = APIR_ST_READY;
        return msg->u.hello.reply;
    case APIR_MSG_DEVICE_INFO:
        r->device_info = (struct apir_reply_device_info){.alignment = 64,
                                                         .max_size = UINT64_C(1) << 40,
                                                         .memory_free = UINT64_C(1) << 30,
                                                         .memory_total = UINT64_C(1) << 31,
                                                         .name = "GPU0",
                                                         .description = "A GPU",
                                                         .id = "gpu"};
        return msg->u.device_info.reply;
    case APIR_MSG_DEVICE_MEMORY:
        r->device_memory = (struct apir_reply_device_memory){.memory_free = UINT64_C(1) << 30,
                                                             .memory_total = UINT64_C(1) << 31};
        return msg->u.device_memory.reply;
    case APIR_MSG_OP_QUERY:
        r->op_query.flags = APIR_OP_SUPPORTED;
        return msg->u.op_query.reply;
    case APIR_MSG_BUFFER_ALLOC:
        return msg->u.buffer_alloc.reply;
    case APIR_MSG_BUFFER_ALLOC_EXTRA:
        return msg->u.buffer_alloc_extra.reply;
    case APIR_MSG_STREAM_OPEN:
        r->stream.flags = APIR_STREAM_OPTIMIZE;
        return msg->u.stream_open.reply;
    case APIR_MSG_GRAPH_OPTIMIZE:
        return msg->u.graph_optimize.reply;
    case APIR_MSG_BLOB_REGISTER:
        return msg->u.blob_register.reply;
    default:
        return UINT32_MAX;
    }
}

/* What the message is about, of those that come with a graph. */
static void payload_find(const struct apir_msg *msg, struct lie_data *d)
{
    uint32_t blob = 0;
    uint64_t offset = 0, size = 0;
    if (msg->code == APIR_MSG_OP_QUERY) {
        blob = msg->u.op_query.blob;
        offset = msg->u.op_query.blob_offset;
        size = msg->u.op_query.size;
    } else if (msg->code == APIR_MSG_GRAPH_OPTIMIZE) {
        blob = msg->u.graph_optimize.blob;
        offset = msg->u.graph_optimize.blob_offset;
        size = msg->u.graph_optimize.size;
    } else if (msg->code == APIR_MSG_GRAPH_DEF) {
        blob = msg->u.graph_def.blob;
        offset = msg->u.graph_def.blob_offset;
        size = msg->u.graph_def.size;
    }
    if (offset > host.sizes[blob] || size > host.sizes[blob] - offset)
        _exit(2);
    d->payload = size ? host.blobs[blob] + offset : NULL;
    d->payload_size = size;
}

/* The order that there is. */
static void order_make(const struct apir_msg *msg, const struct apir_graph *g, union reply *r,
                       struct lie_data *d)
{
    const struct apir_msg_graph_optimize *m = &msg->u.graph_optimize;
    if (m->out_size < (uint64_t)g->n_nodes * 4 + (uint64_t)g->n_tensors * 8 ||
        m->out_offset > host.sizes[m->blob] || m->out_size > host.sizes[m->blob] - m->out_offset)
        _exit(2);
    d->order = (uint32_t *)(void *)(host.blobs[m->blob] + m->out_offset);
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].bits & APIR_TENSOR_NODE)
            d->order[n++] = i;
    }
    r->optimize.n_nodes = n;
}

static void message_serve(const uint8_t *buf, size_t size)
{
    struct apir_msg msg;
    struct apir_graph graph = {0};
    const char *why = NULL;
    union reply r;
    struct lie_data d = {.answer = &r, .msg = &msg};
    memset(&r, 0, sizeof(r));
    if (apir_msg_decode(buf, size, host.state, &msg, &why) != 0)
        _exit(2);
    payload_find(&msg, &d);
    if (d.payload) {
        if (apir_graph_decode(d.payload, d.payload_size, &graph, &why) != 0)
            _exit(2);
        d.graph = &graph;
    }
    const uint32_t at = reply_make(&msg, &r);
    if (msg.code == APIR_MSG_GRAPH_OPTIMIZE)
        order_make(&msg, &graph, &r, &d);
    host.tell((enum lie_step)msg.code, &d);
    if (at != UINT32_MAX)
        memcpy(host.blobs[0] + APIR_RING_HEADER_SIZE + at, &r, sizeof(r));
    apir_graph_fini(&graph);
    apir_ring_host_done(&host.ring);
    apir_ring_host_show(&host.ring);
}

/* What is on the ring; then sleeps on it until more is there, for a moment. */
static void ring_serve(void)
{
    static uint8_t buf[APIR_MESSAGE_MAX];
    size_t size;
    while (apir_ring_host_take(&host.ring, buf, sizeof(buf), &size) == 0)
        message_serve(buf, size);
    if (apir_ring_host_prepare_sleep(&host.ring))
        apir_ring_host_sleep(&host.ring, NAP_NS);
    apir_ring_host_awake(&host.ring);
}

void lying_host_serve(int listener, lie *tell)
{
    struct apir_unix_hello hello;
    union {
        struct apir_unix_welcome welcome;
        uint8_t room[512];
    } out = {.welcome = {.magic = APIR_UNIX_MAGIC, .major = APIR_PROTOCOL_MAJOR}};
    int fds[LIE_FDS_MAX];
    struct lie_data d = {
        .answer = &out, .size = sizeof(out.welcome), .room = sizeof(out), .fds = fds};
    size_t size;
    host.tell = tell;
    host.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (host.fd < 0 ||
        apir_fdsock_recv(host.fd, &hello, sizeof(hello), &size, NULL, 0, NULL, 0) < 0 ||
        apir_unix_hello_check(&hello, size) < 0)
        _exit(2);
    say(LIE_WELCOME, &d);
    for (;;) {
        struct pollfd p = {.fd = host.fd, .events = POLLIN};
        const bool both = host.blobs[0] && host.blobs[1];
        if (both)
            ring_serve();
        if (poll(&p, 1, both ? 0 : -1) > 0 && !request_serve())
            _exit(0);
    }
}
