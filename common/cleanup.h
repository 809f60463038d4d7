/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-bound ownership: `cleanup_fd int fd = -1;`, `return steal_fd(&fd);` */
#ifndef APIR_CLEANUP_H
#define APIR_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void apir_cleanup_free(void *p)
{
    free(*(void **)p);
}

static inline void apir_close_fd(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
        *fd = -1;
    }
}

static inline int steal_fd(int *fd)
{
    int out = *fd;
    *fd = -1;
    return out;
}

static inline void *apir_steal_pointer(void *pp)
{
    void **p = pp;
    void *out = *p;
    *p = NULL;
    return out;
}

#define cleanup_free      __attribute__((cleanup(apir_cleanup_free)))
#define cleanup_fd        __attribute__((cleanup(apir_close_fd)))
#define steal_pointer(pp) ((__typeof__(*(pp)))apir_steal_pointer(pp))

#endif
