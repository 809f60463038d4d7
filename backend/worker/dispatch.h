/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APIR_WORKER_DISPATCH_H
#define APIR_WORKER_DISPATCH_H

#include "backend/worker/worker.h"

/*
 * Handles the decoded message. Returns NULL, or the static reason why the
 * context must become FATAL.
 */
const char *worker_dispatch(struct worker *w, const struct apir_msg *msg);

#endif
