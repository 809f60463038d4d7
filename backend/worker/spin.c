/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/spin.h"

#include <unistd.h>

#include "protocol/atomic.h"

void worker_spin_init(struct worker_spin *spin, struct apir_spin_page *page, uint32_t slot)
{
    *spin = (struct worker_spin){
        .page = page, .slot = slot, .most = apir_spin_most(sysconf(_SC_NPROCESSORS_ONLN))};
}

bool worker_spin_begin(const struct worker_spin *spin)
{
    struct apir_spin_page *page = spin->page;
    uint32_t limit = apir_load_acquire32(&page->limit);
    uint32_t n = apir_load_acquire32(&page->n_slots), others = 0;
    if (spin->slot >= APIR_SPIN_SLOTS)
        return false;
    if (limit > spin->most)
        limit = spin->most;
    /* Ours has been used, and those below it before. */
    if (n <= spin->slot)
        n = spin->slot + 1;
    if (n > APIR_SPIN_SLOTS)
        n = APIR_SPIN_SLOTS;
    for (uint32_t i = 0; i < n; i++)
        others += __atomic_load_n(&page->looking[i], __ATOMIC_RELAXED) != 0;
    if (others >= limit)
        return false;
    /* Two at the same moment may be one too many: nothing depends on the number. */
    __atomic_store_n(&page->looking[spin->slot], 1, __ATOMIC_RELAXED);
    return true;
}

void worker_spin_end(const struct worker_spin *spin)
{
    __atomic_store_n(&spin->page->looking[spin->slot], 0, __ATOMIC_RELAXED);
}
