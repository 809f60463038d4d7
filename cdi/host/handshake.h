/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real handshake with the host over a render node, without ggml: a context
 * under our name, the ring blob, its header, the worker's word that it is
 * ready, and what it says of its devices. Leaves nothing behind: closing the node ends context and
 * worker.
 */
#ifndef APIR_CDI_HANDSHAKE_H
#define APIR_CDI_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "cdi/host/host.h"
#include "protocol/shm.h"

/* Each step was passed if `passed` is it or a later one. */
enum cdi_handshake_step {
    CDI_HANDSHAKE_NONE,
    CDI_HANDSHAKE_OPENED,
    CDI_HANDSHAKE_CONTEXT, /* the kernel and the VMM took the context */
    CDI_HANDSHAKE_BLOB,    /* the host made the ring blob and the guest mapped it */
    CDI_HANDSHAKE_MAGIC,   /* it is an apir host of our major version */
    CDI_HANDSHAKE_READY,   /* the worker has loaded the host's ggml */
    CDI_HANDSHAKE_DEVICES, /* it has told which devices there are */
};

struct cdi_handshake {
    enum cdi_handshake_step passed;
    int code;              /* errno of the step that failed; 0 where it is no system call's */
    uint32_t major, minor; /* from CDI_HANDSHAKE_MAGIC on, or where the major differs */
    uint32_t state;        /* enum apir_state, the last one read */
    char reason[APIR_REASON_MAX]; /* the host's, printable; "" if none */
    uint32_t n_devices;           /* with CDI_HANDSHAKE_DEVICES; else 0 */
    struct cdi_host_device devices[APIR_DEVICES_MAX];
};

/* Waits at most timeout_ms for each step of the worker. Returns 0 where all passed. */
int cdi_handshake_run(const char *node_path, unsigned timeout_ms, struct cdi_handshake *ret);

/* One line on what came out, into text. */
void cdi_handshake_describe(const struct cdi_handshake *handshake, char *text, size_t size);

#endif
