/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/transport.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int transport_open(struct transport *t, const char *choice, struct apir_error *err)
{
    memset(t, 0, sizeof(*t));
    t->fd = -1;
    if (!choice || !*choice || strcmp(choice, "auto") == 0 || strcmp(choice, "virtgpu") == 0)
        return transport_virtgpu_open(t, NULL, err);
    if (strncmp(choice, "virtgpu:", 8) == 0)
        return transport_virtgpu_open(t, choice + 8, err);
    if (strncmp(choice, "vtest:", 6) == 0)
        return transport_vtest_open(t, choice + 6, err);
    return apir_error_set(err, EINVAL,
                          "APIR_TRANSPORT=%s is not one of auto, virtgpu, virtgpu:PATH, vtest:PATH",
                          choice);
}

void transport_close(struct transport *t)
{
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}
