/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/page.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * One range of addresses holds them all, so that the signal handler needs nothing
 * but its bounds, which are constant once there are pages. The process has one
 * such range because it has one such handler.
 */
static struct {
    uint8_t *base; /* NULL: nothing was ever mapped */
    size_t stride; /* the machine's page, which may be larger than ours */
    uint8_t used[SERVER_PAGES_MAX];
} pages;

static void server_page_lost(int sig, siginfo_t *info, void *context)
{
    (void)context;
    const int saved = errno;
    const uintptr_t at = (uintptr_t)info->si_addr;
    const uintptr_t base = (uintptr_t)pages.base;
    const size_t size = pages.stride * SERVER_PAGES_MAX;
    if (at >= base && at - base < size) {
        void *page = pages.base + (at - base) / pages.stride * pages.stride;
        if (mmap(page, pages.stride, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
            errno = saved;
            return;
        }
    }
    /* Not ours to survive: the same fault again, without us. */
    (void)signal(sig, SIG_DFL);
    errno = saved;
}

static int server_pages_init(void)
{
    const long stride = sysconf(_SC_PAGESIZE);
    if (stride < (long)SERVER_PAGE_SIZE)
        return -EINVAL;
    const struct sigaction action = {.sa_sigaction = server_page_lost, .sa_flags = SA_SIGINFO};
    void *base = mmap(NULL, (size_t)stride * SERVER_PAGES_MAX, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return -errno;
    pages.stride = (size_t)stride;
    pages.base = base;
    return sigaction(SIGBUS, &action, NULL) < 0 ? -errno : 0;
}

int server_page_map(int fd, void **ret_page)
{
    int rc = pages.base ? 0 : server_pages_init();
    if (rc < 0)
        return rc;
    const uint8_t *unused = memchr(pages.used, 0, sizeof(pages.used));
    if (!unused)
        return -ENOSPC;
    const size_t i = (size_t)(unused - pages.used);
    void *page = mmap(pages.base + i * pages.stride, SERVER_PAGE_SIZE, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED, fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    pages.used[i] = 1;
    *ret_page = page;
    return 0;
}

void server_page_unmap(void *page)
{
    if (!page)
        return;
    const size_t i = (size_t)((uint8_t *)page - pages.base) / pages.stride;
    assert(i < SERVER_PAGES_MAX && pages.used[i]);
    /* Keeps the place: nobody else's map is to end up in our range. */
    (void)mmap(page, pages.stride, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    pages.used[i] = 0;
}
