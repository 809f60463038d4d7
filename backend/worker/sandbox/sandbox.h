/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a worker that a guest has taken over from everything else. Two
 * stages, because GPU drivers must be loaded and opened in between:
 *
 *   enter   while we have one thread and none of ggml's or a driver's code:
 *           no privileges, namespaces, limits, files (Landlock)
 *   filter  once the drivers are loaded, before the guest's first message:
 *           system calls (seccomp), on every thread
 *
 * docs/threat-model.md says what each of them keeps out, and what they do not.
 */
#pragma once

#include <stdbool.h>

#include "backend/config/config.h"
#include "common/error.h"

/* What this kernel gave us; the text is for the log. */
struct worker_sandbox {
    bool required;  /* what is missing is an error, where it can be one */
    bool has_cache; /* of shaders, which drivers lock */
    char text[256];
};

/*
 * Stage 1, single-threaded. Returns 0 or -errno; with "sandbox": "required" also
 * where the kernel has no Landlock, or where we are root. The process may have lost rights either
 * way.
 */
int worker_sandbox_enter(struct worker_sandbox *s, const struct apir_config *config,
                         struct apir_error *err);

/* Stage 2: all threads, those of libraries too. Returns 0 or -errno, as above for seccomp. */
int worker_sandbox_filter(struct worker_sandbox *s, struct apir_error *err);
