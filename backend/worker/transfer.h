/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that move bytes between shared memory and buffers. */
#ifndef APIR_WORKER_TRANSFER_H
#define APIR_WORKER_TRANSFER_H

#include "backend/worker/worker.h"

const char *worker_set(struct worker *w, const struct apir_msg_set *m);
const char *worker_set_inline(struct worker *w, const struct apir_msg_set_inline *m,
                              const uint8_t *data);
const char *worker_get(struct worker *w, const struct apir_msg_get *m);
const char *worker_set_2d(struct worker *w, const struct apir_msg_set_2d *m);
const char *worker_get_2d(struct worker *w, const struct apir_msg_get_2d *m);
const char *worker_memset(struct worker *w, const struct apir_msg_memset *m);
const char *worker_copy(struct worker *w, const struct apir_msg_copy *m);

#endif
