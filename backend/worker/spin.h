/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who of the server's workers may look for work now. The page says who looks
 * (backend/server/spin.h); any of the workers may write all of it, so what it says decides no more
 * than whether this one looks or sleeps.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/shm.h"

struct worker_spin {
    struct apir_spin_page *page;
    uint32_t slot; /* our byte of it; APIR_SPIN_SLOTS or more: none, we may not look */
    uint32_t most; /* of those who look at once, whatever the page says */
};

void worker_spin_init(struct worker_spin *spin, struct apir_spin_page *page, uint32_t slot);

/* Takes one of the places of those who look for work; false: all are taken. */
bool worker_spin_begin(const struct worker_spin *spin);
void worker_spin_end(const struct worker_spin *spin);
