/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/host/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cdi/child.h"
#include "frontend/link/client.h"
#include "common/error.h"
#include "protocol/messages.h"

/* The host's text goes to a terminal: printable characters only. */
static void copy_text(char *to, size_t size, const char *from, size_t from_size)
{
    size_t i = 0;

    for (; i + 1 < size && i < from_size && from[i] != '\0'; i++)
        to[i] = from[i] >= 0x20 && from[i] < 0x7f ? from[i] : '?';
    to[i] = '\0';
}

static void work(void *answer, const void *arg)
{
    /* The process has one session, as every process with the plug-in. */
    static struct client client;
    struct cdi_session *s = answer;
    struct apir_error err = {0};
    int r = client_open(&client, arg, &err);

    if (r < 0) {
        snprintf(s->text, sizeof(s->text), "%.390s", err.msg[0] != '\0' ? err.msg : strerror(-r));
        return;
    }
    s->major = client.hello.major;
    s->minor = client.hello.minor;
    copy_text(s->host_ggml, sizeof(s->host_ggml), client.hello.host_ggml,
              sizeof(client.hello.host_ggml));
    uint32_t n = client.hello.n_devices;
    for (uint32_t i = 0; i < n && i < sizeof(s->devices) / sizeof(s->devices[0]); i++) {
        struct apir_reply_device_info info;
        struct apir_msg msg = {.code = APIR_MSG_DEVICE_INFO, .u.device_info = {.device = i}};

        r = client_call(&client, &msg, &msg.u.device_info.reply, &info, sizeof(info));
        if (r < 0 || info.status != APIR_OK) {
            snprintf(s->text, sizeof(s->text), "the host does not say what its device %u is", i);
            return;
        }
        copy_text(s->devices[i].name, sizeof(s->devices[i].name), info.name, sizeof(info.name));
        copy_text(s->devices[i].description, sizeof(s->devices[i].description), info.description,
                  sizeof(info.description));
        s->devices[i].memory_free = info.memory_free;
        s->devices[i].memory_total = info.memory_total;
        s->n_devices = i + 1;
    }
    s->ok = true;
}

void cdi_session_run(const char *transport, unsigned timeout_ms, struct cdi_session *ret)
{
    char text[sizeof(ret->text)] = "";

    if (cdi_child_run(work, transport, timeout_ms, ret, sizeof(*ret), text, sizeof(text)) !=
        CDI_CHILD_ANSWERED) {
        memset(ret, 0, sizeof(*ret));
        memcpy(ret->text, text, sizeof(text));
    }
}
