/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that the server keeps the books of (backend/server/limits/account.h): we ask before we
 * allocate.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "backend/worker/worker.h"
#include "common/fdsock.h"
#include "common/log.h"

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
    int err = 0;
    while (!err && !w->answered) {
        struct pollfd p = {.fd = w->control_fd, .events = POLLIN};
        err = poll(&p, 1, -1) < 0 && errno != EINTR ? -errno : worker_control_drain(w);
    }
    /* An answer that is still to come would be taken for that to the next question. */
    w->control_err = err;
    return err;
}

static enum apir_status server_gone(int err, char *why)
{
    snprintf(why, APIR_WHY_SIZE, "the host's server is gone: %s", strerror(-err));
    return APIR_E_FAILED;
}

enum apir_status worker_reserve(struct worker *w, uint32_t device, uint64_t size, char *why)
{
    if (w->control_fd < 0)
        return APIR_OK;
    int err = ask(w, APIR_ASK_RESERVE, device, size);
    if (err)
        return server_gone(err, why);
    return w->is_limited ? worker_granted(w, device, why) : APIR_OK;
}

enum apir_status worker_granted(struct worker *w, uint32_t device, char *why)
{
    if (w->control_fd < 0)
        return APIR_OK;
    int err = answer_wait(w);
    if (err)
        return server_gone(err, why);
    w->devices_used |= w->answer.refused ? 0 : 1u << device;
    if (!w->answer.refused)
        return APIR_OK;
    memcpy(why, w->answer.why, APIR_WHY_SIZE);
    why[APIR_WHY_SIZE - 1] = '\0';
    apir_log(APIR_LOG_WARN, "%s: refused: %s", w->ggml.devices[device].name, why);
    return APIR_E_LIMIT;
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
