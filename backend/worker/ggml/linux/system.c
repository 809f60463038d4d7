/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/ggml/system.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

const char host_library_name[] = "libggml.so.0";

struct query {
    uintptr_t inside;
    struct host_range range;
};

static int range_visit(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct query *q = data;
    uintptr_t lo = UINTPTR_MAX, hi = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type != PT_LOAD)
            continue;
        uintptr_t a = info->dlpi_addr + ph->p_vaddr;
        if (a < lo)
            lo = a;
        if (a + ph->p_memsz > hi)
            hi = a + ph->p_memsz;
    }
    if (q->inside < lo || q->inside >= hi)
        return 0;
    q->range.lo = lo;
    q->range.hi = hi;
    return 1;
}

bool host_range_find(const void *inside, struct host_range *ret_range)
{
    struct query q = {.inside = (uintptr_t)inside};
    if (!dl_iterate_phdr(range_visit, &q))
        return false;
    *ret_range = q.range;
    return true;
}

uint64_t host_machine_memory(void)
{
    struct sysinfo s;
    return sysinfo(&s) < 0 ? 0 : ((uint64_t)s.totalram + s.totalswap) * s.mem_unit;
}

bool host_pages_renew(void *data, size_t size)
{
    return madvise(data, size, MADV_DONTNEED) == 0;
}
