/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/fdsock.h"
#include "common/log.h"

/* ---- shared memory ------------------------------------------------------------ */

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
    w->blobs[c->blob_id] = (struct worker_blob){.map = map, .size = c->size};
    return 0;
}

/* Takes the blob out of the table. Its memory goes when the caller of all this reaps it. */
static int blob_leave(struct worker *w, struct worker_blob *b)
{
    if (!b->map)
        return 0;
    /* No more of them than the server lets a context hold after it has given them back. */
    struct worker_dying *dying = malloc(sizeof(*dying));
    if (!dying)
        return -ENOMEM;
    *dying = (struct worker_dying){.next = w->dying, .blob = *b};
    w->dying = dying;
    *b = (struct worker_blob){0};
    return 0;
}

int worker_control_drain(struct worker *w)
{
    for (;;) {
        union {
            struct apir_control blob;
            struct apir_control_answer answer;
        } m = {0};
        size_t size = 0, n_fds = 0;
        int fds[APIR_FDSOCK_FDS_MAX];
        int rc =
            apir_fdsock_recv(w->control_fd, &m, sizeof(m), &size, fds, 1, &n_fds, MSG_DONTWAIT);
        if (rc == -EAGAIN)
            return 0;
        if (rc)
            return rc;
        if (size == 0)
            return -EPIPE;
        cleanup_fd int fd = n_fds ? fds[0] : -1;
        const struct apir_control c = m.blob;
        if (size != (c.op == APIR_CONTROL_ANSWER ? sizeof(m.answer) : sizeof(m.blob)))
            return -EPROTO;
        switch (c.op) {
        case APIR_CONTROL_ADD_BLOB:
            if (fd < 0)
                return -EPROTO;
            rc = blob_add(w, &c, steal_fd(&fd));
            if (rc)
                return rc;
            break;
        case APIR_CONTROL_DEL_BLOB:
            /* The ring stays mapped: its loss ends the context, not this map. */
            if (c.blob_id == APIR_RING_BLOB_ID || c.blob_id >= APIR_BLOBS_MAX)
                return -EPROTO;
            rc = blob_leave(w, &w->blobs[c.blob_id]);
            if (rc)
                return rc;
            break;
        case APIR_CONTROL_ANSWER:
            w->answer = m.answer;
            w->answered = true;
            break;
        default:
            return -EPROTO;
        }
    }
}

int worker_control_wait(struct worker *w)
{
    struct pollfd p = {.fd = w->control_fd, .events = POLLIN};
    return poll(&p, 1, -1) < 0 && errno != EINTR ? -errno : worker_control_drain(w);
}

/* ---- limits ------------------------------------------------------------------- */

static struct apir_ask ask_of(const struct worker *w, uint32_t op, uint32_t device, uint64_t size)
{
    const struct host_device *d = &w->ggml.devices[device];
    struct apir_ask ask = {.op = op, .size = size};
    if (host_device_is_cpu(d))
        ask.flags = APIR_ASK_HOST;
    memcpy(ask.device, d->id, strnlen(d->id, sizeof(ask.device) - 1));
    return ask;
}

/* Returns 0 or -errno: the server is gone. */
static int ask(struct worker *w, uint32_t op, uint32_t device, uint64_t size)
{
    const struct apir_ask request = ask_of(w, op, device, size);
    w->answered = false;
    return apir_fdsock_send(w->control_fd, &request, sizeof(request), NULL, 0);
}

/* The answer is in w->answer then. Returns as ask(). */
static int answer_wait(struct worker *w)
{
    int rc = 0;
    while (!rc && !w->answered)
        rc = worker_control_wait(w);
    /* An answer that is still to come would be taken for that to the next question. */
    w->control_err = rc;
    return rc;
}

static enum apir_status server_gone(int rc, char *why)
{
    snprintf(why, APIR_WHY_SIZE, "the host's server is gone: %s", strerror(-rc));
    return APIR_E_FAILED;
}

static enum apir_status reserve(struct worker *w, uint32_t device, uint64_t size, char *why)
{
    if (w->control_fd < 0)
        return APIR_OK;
    int rc = ask(w, APIR_ASK_RESERVE, device, size);
    if (!rc)
        rc = answer_wait(w);
    if (rc)
        return server_gone(rc, why);
    w->devices_used |= w->answer.refused ? 0 : 1u << device;
    if (!w->answer.refused)
        return APIR_OK;
    memcpy(why, w->answer.why, APIR_WHY_SIZE);
    why[APIR_WHY_SIZE - 1] = '\0';
    apir_log(APIR_LOG_WARN, "%s: refused: %s", w->ggml.devices[device].name, why);
    return APIR_E_LIMIT;
}

enum apir_status worker_reserve(struct worker *w, uint32_t device, uint64_t size, char *why)
{
    return w->is_limited ? reserve(w, device, size, why) : APIR_OK;
}

enum apir_status worker_taken(struct worker *w, uint32_t device, uint64_t size, char *why)
{
    return w->is_limited ? APIR_OK : reserve(w, device, size, why);
}

void worker_unreserve(struct worker *w, uint32_t device, uint64_t size)
{
    if (w->is_limited)
        worker_release(w, device, size);
}

void worker_release(struct worker *w, uint32_t device, uint64_t size)
{
    if (w->control_fd < 0 || size == 0)
        return;
    const struct apir_ask request = ask_of(w, APIR_ASK_RELEASE, device, size);
    /* A server that is gone has no books. */
    (void)apir_fdsock_send(w->control_fd, &request, sizeof(request), NULL, 0);
}

void worker_room(struct worker *w, uint32_t device, uint64_t *io_free, uint64_t *io_total)
{
    /* llama.cpp wants to know five times while it loads a model: not without need through another
     * process. Should the server have read another configuration, what it grants is its own. */
    if (w->control_fd < 0 || !w->room_is_limited || ask(w, APIR_ASK_ROOM, device, 0) < 0 ||
        answer_wait(w) < 0)
        return;
    if (*io_total > w->answer.total)
        *io_total = w->answer.total;
    if (*io_free > w->answer.free)
        *io_free = w->answer.free;
}

/* ---- turns ---------------------------------------------------------------------- */

int worker_control_turn(struct worker *w, uint32_t device, uint64_t *ret_number)
{
    int rc = ask(w, APIR_ASK_TURN, device, 0);
    if (!rc)
        rc = answer_wait(w);
    if (!rc)
        *ret_number = w->answer.total;
    return rc;
}

int worker_control_moved(struct worker *w, uint32_t device)
{
    const struct apir_ask request = ask_of(w, APIR_ASK_MOVED, device, 0);
    return apir_fdsock_send(w->control_fd, &request, sizeof(request), NULL, 0);
}

/* ---- the trial of the devices --------------------------------------------------- */

int worker_control_try(struct worker *w, const char *device)
{
    struct apir_ask request = {.op = APIR_ASK_TRY};
    memcpy(request.device, device, strnlen(device, sizeof(request.device) - 1));
    w->answered = false;
    int rc = apir_fdsock_send(w->control_fd, &request, sizeof(request), NULL, 0);
    return rc ? rc : answer_wait(w);
}

int worker_control_tried(struct worker *w, uint32_t devices)
{
    const struct apir_ask request = {.op = APIR_ASK_TRIED, .size = devices};
    return apir_fdsock_send(w->control_fd, &request, sizeof(request), NULL, 0);
}
