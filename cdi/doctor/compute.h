/* SPDX-License-Identifier: Apache-2.0 */
/* One small computation through the machine's own ggml and our plug-in. */
#pragma once

#include <stddef.h>

enum cdi_compute_result {
    CDI_COMPUTE_OK,
    CDI_COMPUTE_NO_GGML, /* this machine has no libggml; nothing was tried */
    CDI_COMPUTE_FAILED,
};

struct cdi_compute_options {
    const char *plugin;
    const char *transport; /* what APIR_TRANSPORT is to be; NULL: leave it */
};

/*
 * Multiplies two small matrices on APIR0 and compares every element. Runs in a
 * child: a crash, a hang and whatever a ggml prints (shown with APIR_LOG set) are the child's;
 * what went wrong (or which device computed) comes back as one line in text.
 */
enum cdi_compute_result cdi_compute_run(const struct cdi_compute_options *options,
                                        unsigned timeout_ms, char *text, size_t size);
