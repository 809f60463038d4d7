/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many workers look for work at once. Looking burns a core, so all workers of
 * a server together take a quarter of the cores at most; who finds the places taken
 * sleeps at once and is woken by a kick. The page that says who looks is shared by
 * the workers: one that was taken over can keep others from looking, which costs
 * them a wake-up each time, or have more of them look at once, which costs
 * processor time, and nothing else. No worker takes a higher limit from the page
 * than its own (backend/worker/spin.h).
 */
#pragma once

#include <stdint.h>

#include "protocol/shm.h"

struct server_spin {
    int fd;
    struct apir_spin_page *page;
    uint8_t used[APIR_SPIN_SLOTS]; /* what the page says of this, workers could change */
};

/* Returns 0 or -errno. */
int server_spin_init(struct server_spin *spin);
void server_spin_fini(struct server_spin *spin);

/*
 * The page for a worker to map: the caller's descriptor, or -errno. Where one worker could cut it
 * off from under the others (memory.h) each gets a page of its own, which lets it never look.
 */
int server_spin_share(const struct server_spin *spin);

/* A worker's slot; APIR_SPIN_SLOTS: none is left, it is not to look at all. */
uint32_t server_spin_take(struct server_spin *spin);
void server_spin_give(struct server_spin *spin, uint32_t slot);
