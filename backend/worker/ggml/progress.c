/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a long computation has got to. ggml's CPU backend asks between two operations whether it is
 * to go on (its abort callback): so a long prompt on a slow CPU shows that it gets on. Backends of
 * GPUs do not ask.
 */
#include <string.h>

#include "backend/worker/ggml/progress.h"
#include "backend/worker/ggml/fns.h"

void host_stream_watch(struct host_ggml *hg, const struct host_device *d, void *stream,
                       bool (*step)(void *user), void *user)
{
    void *reg = hg->fns->ggml_backend_dev_backend_reg(d->dev);
    void *p = hg->fns->ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_abort_callback");
    void (*set)(void *backend, bool (*step)(void *user), void *user);
    memcpy(&set, &p, sizeof(set));
    if (set)
        set(stream, step, user);
}
