/* SPDX-License-Identifier: Apache-2.0 */
/* What only podman has: hooks.d. */
#pragma once

#include "cdi/engine/engine.h"

/*
 * Whether that version of podman keeps to itself what annotations an image has. Before 4.5.1 those
 * became the container's, so that an image alone could ask for a device by our hooks.d files.
 */
static inline bool cdi_podman_has_safe_annotations(struct cdi_version v)
{
    return cdi_version_at_least(v, 4, 6) || (v.major == 4 && v.minor == 5 && v.patch >= 1);
}

/*
 * The folders podman reads, as its configuration says: of hooks, and of CDI specs. Either
 * may be NULL. `except`: a file to leave out, or NULL.
 */
int cdi_podman_dirs(const struct cdi_engine_where *where, const char *except,
                    struct cdi_strings *ret_hooks, struct cdi_strings *ret_specs,
                    struct apir_error *err);
