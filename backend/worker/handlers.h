/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handler for each message of APIR_MESSAGES, worker_NAME: it has the decoded message, in a state
 * that allows it, a place for its answer, and, where the message has one, its payload. It returns
 * NULL, or the static reason why the context becomes FATAL. Each is in the file of what it is
 * about.
 */
#pragma once

#include "backend/worker/worker.h"

#define WORKER_PAYLOAD_FLAT
#define WORKER_PAYLOAD_ASKS
#define WORKER_PAYLOAD_TAIL , const uint8_t *payload
#define M(NAME, name, code, states, tail)                                                          \
    const char *worker_##name(struct worker *w,                                                    \
                              const struct apir_msg_##name *m WORKER_PAYLOAD_##tail);
APIR_MESSAGES(M)
#undef M
