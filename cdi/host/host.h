/* SPDX-License-Identifier: Apache-2.0 */
/* What a host says of its devices, over the ring of a context that is ready. */
#ifndef APIR_CDI_HOST_H
#define APIR_CDI_HOST_H

#include <stdint.h>

#include "protocol/messages.h"
#include "protocol/ring.h"

struct cdi_host_device {
    char id[APIR_ID_SIZE]; /* stable; "" where the host tells none that can be used */
    char name[64];         /* ggml's, such as Vulkan0; printable, as the next */
    char description[APIR_NAME_SIZE];
};

struct cdi_host_link {
    struct apir_ring_guest ring;
    int (*kick)(void *user); /* wakes the worker; 0 or -errno */
    void *user;
};

/*
 * Says HELLO and asks for every device; devices has room for APIR_DEVICES_MAX.
 * Returns how many there are; -ETIMEDOUT where an answer takes longer than
 * timeout_ms, -EPIPE where the context has ended, -EPROTO where the answers make
 * no sense, or what kick returned.
 */
int cdi_host_ask(struct cdi_host_link *link, unsigned timeout_ms, struct cdi_host_device *devices);

#endif
