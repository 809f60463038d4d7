/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/spin.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "backend/server/memory.h"
#include "backend/server/page.h"
#include "protocol/atomic.h"
#include "common/cleanup.h"

_Static_assert(sizeof(struct apir_spin_page) == SERVER_PAGE_SIZE, "one page");

int server_spin_init(struct server_spin *spin)
{
    *spin = (struct server_spin){.fd = -1};
    cleanup_fd int fd = server_memory_create("apir-spin", sizeof(*spin->page));
    if (fd < 0)
        return fd;
    void *page = NULL;
    int rc = server_page_map(fd, &page);
    if (rc < 0)
        return rc;
    spin->page = page;
    spin->fd = steal_fd(&fd);
    apir_store_release32(&spin->page->limit, apir_spin_most(sysconf(_SC_NPROCESSORS_ONLN)));
    return 0;
}

void server_spin_fini(struct server_spin *spin)
{
    server_page_unmap(spin->page);
    apir_close_fd(&spin->fd);
    spin->page = NULL;
}

int server_spin_share(const struct server_spin *spin)
{
    if (server_memory_is_sealed(spin->fd)) {
        int fd = fcntl(spin->fd, F_DUPFD_CLOEXEC, 0);
        return fd < 0 ? -errno : fd;
    }
    return server_memory_create("apir-spin", sizeof(*spin->page)); /* of zeros: nobody may look */
}

uint32_t server_spin_take(struct server_spin *spin)
{
    for (uint32_t i = 0; i < APIR_SPIN_SLOTS; i++) {
        if (spin->used[i])
            continue;
        spin->used[i] = 1;
        /* Whoever had it before may have been killed while it looked. */
        __atomic_store_n(&spin->page->looking[i], 0, __ATOMIC_RELEASE);
        if (i >= apir_load_acquire32(&spin->page->n_slots))
            apir_store_release32(&spin->page->n_slots, i + 1);
        return i;
    }
    return APIR_SPIN_SLOTS;
}

void server_spin_give(struct server_spin *spin, uint32_t slot)
{
    if (slot >= APIR_SPIN_SLOTS)
        return;
    spin->used[slot] = 0;
    __atomic_store_n(&spin->page->looking[slot], 0, __ATOMIC_RELEASE);
}
