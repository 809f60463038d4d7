/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the context's shared memory: known to a device, or given back. */
#ifndef APIR_WORKER_BLOB_H
#define APIR_WORKER_BLOB_H

#include "backend/worker/worker.h"

const char *worker_blob_register(struct worker *w, const struct apir_msg_blob_register *m);
const char *worker_blob_forget(struct worker *w, const struct apir_msg_blob_forget *m);

/* Gives back what the server has taken away (worker_control_drain). Waits for all streams where a
 * device may be copying from it. */
void worker_blobs_reap(struct worker *w);

#endif
