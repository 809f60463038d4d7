/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/host/host.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "protocol/atomic.h"

/* The one place for answers: one question at a time. Offsets count from the reply area. */
#define REPLY 0u

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

/* The host's text goes to terminals: printable characters only. */
static void copy_text(char *to, const char *from, size_t size)
{
    size_t n = strnlen(from, size - 1);

    for (size_t i = 0; i < n; i++)
        to[i] = from[i] >= 0x20 && from[i] < 0x7f ? from[i] : '?';
    to[n] = '\0';
}

/* It becomes a variable's value in a file that engines read: nothing else may be in it. */
static void copy_id(char *to, const char *from)
{
    size_t n = strnlen(from, APIR_ID_SIZE);

    to[0] = '\0';
    if (n == APIR_ID_SIZE || strspn(from, "abcdefghijklmnopqrstuvwxyz0123456789.:@_-") < n)
        return;
    memcpy(to, from, n + 1);
}

static int ask(struct cdi_host_link *link, const struct apir_msg *msg, unsigned timeout_ms,
               void *answer, size_t size)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    uint8_t *reply = (uint8_t *)link->ring.header + APIR_RING_HEADER_SIZE + REPLY;
    const struct timespec pause = {.tv_nsec = 1000 * 1000};
    uint64_t deadline = now_ms() + timeout_ms;
    int64_t n = apir_msg_encode(msg, buf, sizeof(buf));

    if (n < 0)
        return (int)n;
    memset(reply, 0, APIR_REPLY_SIZE);
    uint64_t end = apir_ring_guest_put(&link->ring, buf, (size_t)n);
    if (apir_ring_guest_publish(&link->ring)) {
        int r = link->kick(link->user);
        if (r < 0)
            return r;
    }
    /* Acquire: with the head comes the answer. */
    while (apir_load_acquire64(&link->ring.header->head) != end) {
        uint32_t state = apir_load_acquire32(&link->ring.header->state);
        if (state == APIR_STATE_FATAL || state == APIR_STATE_LOST)
            return -EPIPE;
        if (now_ms() >= deadline)
            return -ETIMEDOUT;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    memcpy(answer, reply, size);
    return 0;
}

static int ask_device(struct cdi_host_link *link, uint32_t device, bool with_id,
                      unsigned timeout_ms, struct cdi_host_device *ret)
{
    struct apir_msg msg = {.code = APIR_MSG_DEVICE_INFO,
                           .u.device_info = {.device = device, .reply = REPLY}};
    struct apir_reply_device_info info;
    int r = ask(link, &msg, timeout_ms, &info, sizeof(info));

    if (r < 0)
        return r;
    if (info.status != APIR_OK)
        return -EPROTO;
    *ret = (struct cdi_host_device){0};
    copy_text(ret->name, info.name, sizeof(ret->name));
    copy_text(ret->description, info.description, sizeof(ret->description));
    if (with_id)
        copy_id(ret->id, info.id);
    return 0;
}

int cdi_host_ask(struct cdi_host_link *link, unsigned timeout_ms, struct cdi_host_device *devices)
{
    struct apir_msg msg = {.code = APIR_MSG_HELLO,
                           .u.hello = {.magic = APIR_HELLO_MAGIC,
                                       .major = APIR_PROTOCOL_MAJOR,
                                       .minor = APIR_PROTOCOL_MINOR,
                                       .reply = REPLY}};
    struct apir_reply_hello hello;
    int r = ask(link, &msg, timeout_ms, &hello, sizeof(hello));

    if (r < 0)
        return r;
    if (hello.status != APIR_OK || hello.n_devices == 0 || hello.n_devices > APIR_DEVICES_MAX)
        return -EPROTO;
    for (uint32_t i = 0; i < hello.n_devices; i++) {
        r = ask_device(link, i, hello.minor >= 1, timeout_ms, &devices[i]);
        if (r < 0)
            return r;
        for (uint32_t k = 0; k < i; k++)
            if (devices[i].id[0] != '\0' && strcmp(devices[i].id, devices[k].id) == 0)
                return -EPROTO;
    }
    return (int)hello.n_devices;
}
