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
#ifndef APIR_WORKER_SANDBOX_H
#define APIR_WORKER_SANDBOX_H

#include <stddef.h>

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

/* ---- the parts ---- */

/* Adds to s->text, with a comma where something is there. */
void worker_sandbox_note(struct worker_sandbox *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* backend/worker/sandbox/cache.c: the directories where drivers keep compiled shaders. */
#define WORKER_CACHES_MAX 8u

struct worker_caches {
    char path[WORKER_CACHES_MAX][256];
    size_t n;
};

/* Those that exist, by the names that this environment gives them, without what workers share. */
void worker_caches_find(struct worker_caches *caches, const struct apir_config *config);

/*
 * In a mount namespace of our own: what is written to them from now on is seen by
 * this process only and ends with it. Keeps in the list those where that worked.
 */
void worker_caches_cover(struct worker_caches *caches);

/*
 * backend/worker/sandbox/files.c: nothing but the listed paths can be opened from now on.
 * `caches` may be written. Returns the version of Landlock, 0 where the kernel has
 * none, or -errno.
 */
int worker_files_restrict(const struct apir_config *config, const struct worker_caches *caches,
                          struct apir_error *err);

/* backend/worker/sandbox/calls.c: returns 0, -ENOSYS where the kernel has no filters, or -errno. */
int worker_calls_restrict(bool may_lock, struct apir_error *err);

#endif
