/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session with the host as the plug-in has one, without any ggml on this side: who is there,
 * which versions it has, and what it offers.
 */
#ifndef APIR_CDI_SESSION_H
#define APIR_CDI_SESSION_H

#include <stdbool.h>
#include <stdint.h>

struct cdi_session_device {
    char name[64]; /* the host's: "Vulkan0" */
    char description[128];
    uint64_t memory_free, memory_total;
};

struct cdi_session {
    bool ok;
    char text[400];        /* what went wrong */
    uint32_t major, minor; /* of the host's protocol */
    char host_ggml[128];
    uint32_t n_devices;
    struct cdi_session_device devices[16];
};

/*
 * Opens a session over `transport` (as APIR_TRANSPORT names it), asks, and ends it; in a child
 * process, for at most timeout_ms. ret->ok says whether it came about.
 */
void cdi_session_run(const char *transport, unsigned timeout_ms, struct cdi_session *ret);

#endif
