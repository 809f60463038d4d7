/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "backend/worker.h"
#include "protocol/cleanup.h"
#include "protocol/fdsock.h"
#include "protocol/log.h"

static void blob_drop(struct worker_blob *b)
{
    if (b->map)
        munmap(b->map, b->size);
    *b = (struct worker_blob){ 0 };
}

/* Takes over fd. The server is trusted; its message is checked all the same. */
static int blob_add(struct worker *w, const struct apir_control *c, int fd_in)
{
    cleanup_fd int fd = fd_in;
    struct stat st;
    if (c->blob_id >= APIR_BLOBS_MAX || w->blobs[c->blob_id].map)
        return -EPROTO;
    /* Sealed by the server: it cannot shrink under our mapping. */
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != c->size || c->size == 0 ||
        (c->blob_id == APIR_RING_BLOB_ID && !apir_ring_size_ok(c->size)))
        return -EPROTO;
    void *map = mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    w->blobs[c->blob_id] = (struct worker_blob){ .map = map, .size = c->size };
    return 0;
}

int worker_control_drain(struct worker *w)
{
    for (;;) {
        struct apir_control c;
        size_t size = 0, n_fds = 0;
        int fds[APIR_FDSOCK_FDS_MAX];
        int err = apir_fdsock_recv(w->control_fd, &c, sizeof(c), &size, fds, 1, &n_fds,
                                   MSG_DONTWAIT);
        if (err == -EAGAIN)
            return 0;
        if (err)
            return err;
        if (size == 0)
            return -EPIPE;
        cleanup_fd int fd = n_fds ? fds[0] : -1;
        if (size != sizeof(c))
            return -EPROTO;
        switch (c.op) {
        case APIR_CONTROL_ADD_BLOB:
            if (fd < 0)
                return -EPROTO;
            err = blob_add(w, &c, steal_fd(&fd));
            if (err)
                return err;
            break;
        case APIR_CONTROL_DEL_BLOB:
            /* The ring stays mapped: its loss ends the context, not this map. */
            if (c.blob_id == APIR_RING_BLOB_ID || c.blob_id >= APIR_BLOBS_MAX)
                return -EPROTO;
            blob_drop(&w->blobs[c.blob_id]);
            break;
        default:
            return -EPROTO;
        }
    }
}

void *worker_arena(struct worker *w, uint32_t blob, uint64_t offset, uint64_t size)
{
    if (blob == APIR_RING_BLOB_ID || blob >= APIR_BLOBS_MAX)
        return NULL;
    /* The server tells us of a new arena before the guest can name it. */
    if (!w->blobs[blob].map && worker_control_drain(w) < 0)
        return NULL;
    const struct worker_blob *b = &w->blobs[blob];
    if (!b->map || offset > b->size || size > b->size - offset)
        return NULL;
    return b->map + offset;
}

void *worker_reply(struct worker *w, uint32_t offset)
{
    const struct worker_blob *b = &w->blobs[APIR_RING_BLOB_ID];
    uint32_t room = apir_ring_reply_size(b->size);
    if (offset % APIR_REPLY_ALIGN || offset > room || APIR_REPLY_SIZE > room - offset)
        return NULL;
    return b->map + APIR_RING_HEADER_SIZE + offset;
}
