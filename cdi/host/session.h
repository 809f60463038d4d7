/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session with the host as the plug-in has one, without any ggml on this side: how far it came,
 * who is there, which versions it has, and what it offers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/messages.h"
#include "protocol/shm.h"

struct client;

/* Each step was passed if `passed` is it or a later one. */
enum cdi_session_step {
    CDI_SESSION_NONE,
    CDI_SESSION_CONTEXT, /* the VMM, or the server, took the context */
    CDI_SESSION_MEMORY,  /* the host made the shared memory, and it is mapped here */
    CDI_SESSION_HOST,    /* it is an apir host of our major version */
    CDI_SESSION_WORKER,  /* its worker has loaded the host's ggml, and answers */
    CDI_SESSION_DEVICES, /* it has told which devices there are */
};

struct cdi_session_device {
    char id[APIR_ID_SIZE]; /* stable; "" where the host tells none that can be used */
    char name[64];         /* the host's: "Vulkan0" */
    char description[128];
    uint64_t memory_free, memory_total;
    bool is_own_cpu; /* client_has_own_cpu() */
};

/* All texts are fit for a terminal. */
struct cdi_session {
    enum cdi_session_step passed;
    int code;              /* errno of the step that failed */
    char text[400];        /* what went wrong */
    uint32_t major, minor; /* of the host's protocol; 0 before CDI_SESSION_HOST */
    char host_ggml[128];
    char left_out[APIR_REASON_MAX]; /* which of the host's devices it does not offer, and why */
    uint32_t n_devices;
    struct cdi_session_device devices[APIR_DEVICES_MAX];
};

/*
 * Opens a session over `transport` (as APIR_TRANSPORT names it), asks, and ends it; in a child
 * process, for at most timeout_ms. *ret says how far it came.
 */
void cdi_session_run(const char *transport, unsigned timeout_ms, struct cdi_session *ret);

/* Asks an open session for its devices: ret->passed, or why it does not get there. */
void cdi_session_ask(struct client *c, struct cdi_session *ret);
