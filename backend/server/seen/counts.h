/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker says that it has done (struct apir_worker_counts), as it may be shown. A worker
 * under foreign control can write anything there: nothing that was said once is taken back, nothing
 * is more than the time since the context began allows, and who says otherwise is marked for good.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/shm.h"

/* {0}: of a worker that has done nothing. */
struct server_counts {
    uint64_t busy_ns; /* at work, up to now */
    uint64_t graphs_ns;
    uint64_t longest_ns;
    uint64_t turns_ns;
    uint64_t messages;
    uint64_t graphs;
    uint64_t set_bytes;
    uint64_t got_bytes;
    bool odd; /* it has said what cannot be */
};

/*
 * Brings *counts, of the last look, up to now_ns (apir_now_ns(), asked before the page is read:
 * what began in between has not begun yet). The worker may write anything to the page: what goes
 * back, or is more than the time since began_ns (the context's begin) has room for, is cut off, and
 * `odd`.
 */
void server_counts_read(struct server_counts *counts, const struct apir_worker_counts *page,
                        uint64_t now_ns, uint64_t began_ns);
