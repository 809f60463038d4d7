/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APIR_FRONTEND_NEEDS_H
#define APIR_FRONTEND_NEEDS_H

#include "common/error.h"

/*
 * Whether the host has what programs with this ggml take for granted of every device: llama.cpp
 * writes its cache by SET_ROWS since ggml has that op, without asking, and where the cache lies on
 * a device that cannot do it ggml aborts the process. 0, or -ENOTSUP and what the host lacks.
 *
 * handle is the ggml that is served, for dlsym. Called once, when plugin.devices are known.
 */
int needs_check(void *handle, struct apir_error *err);

#endif
