/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "backend/worker/worker.h"

/*
 * Handles the decoded message. Returns NULL, or the static reason why the
 * context must become FATAL.
 */
const char *worker_dispatch(struct worker *w, const struct apir_msg *msg);
