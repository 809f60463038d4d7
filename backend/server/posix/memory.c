/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/memory.h"

#include <errno.h>
#include <unistd.h>

#include "backend/server/unnamed.h"
#include "common/cleanup.h"

int server_memory_create(const char *name, uint64_t size)
{
    (void)name;
    if (size > INT64_MAX)
        return -EFBIG;
    cleanup_fd int fd = server_unnamed_create();
    if (fd >= 0 && ftruncate(fd, (off_t)size) < 0)
        return -errno;
    return steal_fd(&fd);
}

bool server_memory_is_sealed(int fd)
{
    (void)fd;
    return false;
}

int server_memory_seal(int fd)
{
    (void)fd;
    return 0;
}

int server_memory_seal_writes(int fd)
{
    (void)fd;
    return -EOPNOTSUPP;
}

/* Nothing reserves shared memory here: where there is none left the system ends who touches it. */
int server_memory_reserve(int fd, uint64_t size)
{
    (void)fd;
    (void)size;
    return 0;
}

/* It goes with the last descriptor and the last map. */
void server_memory_free(int fd, uint64_t size)
{
    (void)fd;
    (void)size;
}
