/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/host/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/child.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "frontend/link/ask.h"
#include "protocol/atomic.h"

/*
 * In memory that parent and child share, so that a child which is stopped, or dies, shows how far
 * it came. Pointers in there are the child's: the parent only sees whether there are any.
 */
struct attempt {
    struct client client;
    struct cdi_session session;
};

__attribute__((format(printf, 3, 4))) static void fail(struct cdi_session *s, int code,
                                                       const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(s->text, sizeof(s->text), fmt, ap);
    va_end(ap);
    apir_text_clean(s->text);
    s->code = code;
}

static void copy_text(char *to, size_t size, const char *from, size_t from_size)
{
    snprintf(to, size, "%.*s", (int)from_size, from);
    apir_text_clean(to);
}

/* It becomes a variable's value in a file that engines read: nothing else may be in it. */
static void copy_id(char *to, const char *from)
{
    size_t n = strnlen(from, APIR_ID_SIZE);

    if (n < APIR_ID_SIZE && strspn(from, "abcdefghijklmnopqrstuvwxyz0123456789.:@_-") == n)
        memcpy(to, from, n + 1);
}

/* The host's own words for the end of the context, where it has said any; else the text. */
static void fail_with_reason(const struct client *c, struct cdi_session *s, int code,
                             const char *text)
{
    const struct apir_ring_header *ring = c->ring.header;
    char reason[APIR_REASON_MAX] = "";

    if (ring && apir_load_acquire32(&ring->state) >= APIR_STATE_FATAL)
        copy_text(reason, sizeof(reason), ring->reason, sizeof(ring->reason) - 1);
    if (reason[0] != '\0')
        fail(s, code, "the host's worker failed: %s", reason);
    else
        fail(s, code, "%s", text);
}

void cdi_session_ask(struct client *c, struct cdi_session *s)
{
    for (uint32_t i = 0; i < c->hello.n_devices; i++) {
        struct cdi_session_device *d = &s->devices[i];
        struct apir_reply_device_info info;
        struct apir_msg msg = {.code = APIR_MSG_DEVICE_INFO, .u.device_info = {.device = i}};
        int rc = client_call(c, &msg, &msg.u.device_info.reply, &info, sizeof(info));

        if (rc < 0 || info.status != APIR_OK) {
            fail_with_reason(c, s, rc < 0 ? -rc : EPROTO,
                             "the host does not say what its devices are");
            return;
        }
        *d = (struct cdi_session_device){
            .memory_free = info.memory_free,
            .memory_total = info.memory_total,
            .is_own_cpu = client_has_own_cpu(c, &info),
        };
        copy_text(d->name, sizeof(d->name), info.name, sizeof(info.name));
        copy_text(d->description, sizeof(d->description), info.description,
                  sizeof(info.description));
        copy_id(d->id, info.id);
        for (uint32_t k = 0; k < i; k++)
            if (d->id[0] != '\0' && strcmp(d->id, s->devices[k].id) == 0) {
                fail(s, EPROTO, "the host has two devices of the id %s", d->id);
                return;
            }
        s->n_devices = i + 1;
    }
    s->passed = CDI_SESSION_DEVICES;
}

/* How far client_open came that failed with `code`. */
static enum cdi_session_step step_of(const struct client *c, int code)
{
    if (c->transport.where[0] == '\0')
        return CDI_SESSION_NONE;
    /* No ring of ours in the memory, or no memory. */
    if (!c->ring.header)
        return code == ENOTSUP || code == EPROTO ? CDI_SESSION_MEMORY : CDI_SESSION_CONTEXT;
    /* The arena comes after the ring: it is refused for want of room, or since the worker ended. */
    if (!c->arena)
        return code == ENODEV ? CDI_SESSION_HOST : CDI_SESSION_CONTEXT;
    return code == EPROTONOSUPPORT ? CDI_SESSION_MEMORY : CDI_SESSION_HOST;
}

/* What client_open says, without the name of the transport, which the caller has chosen. */
static void tell_failure(const struct client *c, const struct apir_error *err,
                         struct cdi_session *s)
{
    const char *text = err->msg[0] != '\0' ? err->msg : strerror(err->code);
    size_t n = strlen(c->transport.where);

    if (n > 0 && strncmp(text, c->transport.where, n) == 0 && strncmp(text + n, ": ", 2) == 0)
        text += n + 2;
    fail_with_reason(c, s, err->code, text);
}

/* All that is to be said is in the session's text. */
static void say_nothing(enum apir_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

static void work(void *answer, const void *transport)
{
    struct attempt *a = answer;
    struct client *c = &a->client;
    struct cdi_session *s = &a->session;
    struct apir_error err = {0};

    apir_log_set_sink(say_nothing, NULL);
    /* A loss is to be told, not to end this process. */
    unsetenv("APIR_ON_LOSS");
    int rc = client_open(c, transport, &err);
    if (c->ring.header) {
        s->major = apir_load_acquire32(&c->ring.header->major);
        s->minor = apir_load_acquire32(&c->ring.header->minor);
    }
    if (rc < 0) {
        err.code = -rc;
        tell_failure(c, &err, s);
    } else {
        s->passed = CDI_SESSION_WORKER;
        s->major = c->hello.major;
        s->minor = c->hello.minor;
        copy_text(s->host_ggml, sizeof(s->host_ggml), c->hello.host_ggml,
                  sizeof(c->hello.host_ggml));
        /* While all is well it is no reason, but a note. */
        if (apir_load_acquire32(&c->ring.header->state) == APIR_STATE_READY)
            copy_text(s->left_out, sizeof(s->left_out), c->ring.header->reason,
                      sizeof(c->ring.header->reason) - 1);
        cdi_session_ask(c, s);
    }
}

void cdi_session_run(const char *transport, unsigned timeout_ms, struct cdi_session *ret)
{
    cleanup_free struct attempt *a = calloc(1, sizeof(*a));
    char text[sizeof(ret->text)] = "";

    memset(ret, 0, sizeof(*ret));
    if (!a) {
        fail(ret, ENOMEM, "%s", strerror(ENOMEM));
        return;
    }
    enum cdi_child_end end =
        cdi_child_run(work, transport, timeout_ms, a, sizeof(*a), text, sizeof(text));
    *ret = a->session;
    if (end != CDI_CHILD_ANSWERED)
        fail(ret, end == CDI_CHILD_LATE ? ETIMEDOUT : ECHILD, "%s", text);
    if (ret->passed < CDI_SESSION_WORKER && ret->code != 0)
        ret->passed = step_of(&a->client, ret->code);
}
