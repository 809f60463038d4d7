/* SPDX-License-Identifier: Apache-2.0 */
/* At most `limit` times per period: log lines and restarts that a guest can cause. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct server_quota {
    int64_t since_ms; /* start of the current period */
    uint32_t used;
};

static inline bool server_quota_take(struct server_quota *quota, uint32_t limit, int64_t period_ms,
                                     int64_t now_ms)
{
    if (quota->used == 0 || now_ms - quota->since_ms >= period_ms) {
        quota->since_ms = now_ms;
        quota->used = 0;
    }
    if (quota->used >= limit)
        return false;
    quota->used++;
    return true;
}
