/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a client: a gate before every call by which the plug-in's transport reaches the
 * host, from connect() to the last munmap(). What else the program calls passes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/hostile/faults/gate.h"

static int transport = -1; /* the socket */

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int connect(int fd, const struct sockaddr *addr, socklen_t size)
{
    const char *choice = getenv("APIR_TRANSPORT"), *path = choice ? strchr(choice, ':') : NULL;
    const struct sockaddr_un *to = (const void *)addr;
    if (path && addr->sa_family == AF_UNIX && strcmp(to->sun_path, path + 1) == 0) {
        transport = fd;
        gate_pass(GATE_CLIENT);
    }
    return NEXT(connect)(fd, addr, size);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    if (fd == transport)
        gate_pass(GATE_CLIENT);
    return NEXT(send)(fd, data, size, flags);
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
    if (fd == transport)
        gate_pass(GATE_CLIENT);
    return NEXT(recv)(fd, data, size, flags);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    if (fd == transport)
        gate_pass(GATE_CLIENT);
    return NEXT(recvmsg)(fd, msg, flags);
}

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
    /* The host's shared memory is all that this program maps shared. */
    if (fd >= 0 && (flags & MAP_SHARED) && transport >= 0)
        gate_pass(GATE_CLIENT);
    return NEXT(mmap)(addr, size, prot, flags, fd, offset);
}

int close(int fd)
{
    if (fd == transport && fd >= 0) {
        gate_pass(GATE_CLIENT);
        transport = -1;
    }
    return NEXT(close)(fd);
}
