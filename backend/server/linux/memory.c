/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/server/unnamed.h"
#include "common/cleanup.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

int server_memory_create(const char *name, uint64_t size)
{
    if (size > INT64_MAX)
        return -EFBIG;
    cleanup_fd int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* kernels before 6.3 */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const bool is_memfd = fd >= 0;
    if (fd < 0 && errno != ENOSYS)
        return -errno;
    if (fd < 0)
        fd = server_unnamed_create();
    if (fd < 0)
        return fd;
    if (ftruncate(fd, (off_t)size) < 0)
        return -errno;
    /* Not F_SEAL_SEAL: virglrenderer adds seals of its own and fails if it cannot. */
    if (is_memfd && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return -errno;
    return steal_fd(&fd);
}

bool server_memory_is_sealed(int fd)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW);
}

int server_memory_seal(int fd)
{
    if (!server_memory_is_sealed(fd))
        return 0;
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0 ? -errno : 0;
}

int server_memory_seal_writes(int fd)
{
    return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0 ? -errno : 0;
}

int server_memory_reserve(int fd, uint64_t size)
{
    return fallocate(fd, 0, 0, (off_t)size) < 0 ? -errno : 0;
}

void server_memory_free(int fd, uint64_t size)
{
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size);
}
