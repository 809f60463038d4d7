/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-bound ownership: `cleanup_fd int fd = -1;`, `return steal_fd(&fd);` */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* p points to a pointer of any type: read as bytes, for the compiler takes it that a char * is
 * never read, or written, as a void *. */
static inline void apir_cleanup_free(void *p)
{
    void *memory;
    memcpy(&memory, p, sizeof(memory));
    free(memory);
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

static inline void apir_close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* The folder behind fd, to be read by a descriptor of its own. NULL: not to be had; see errno. */
static inline DIR *apir_dir_open(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    if (!dir)
        apir_close_fd(&own);
    return dir;
}

static inline int steal_fd(int *fd)
{
    int out = *fd;
    *fd = -1;
    return out;
}

#define cleanup_free __attribute__((cleanup(apir_cleanup_free)))
#define cleanup_fd   __attribute__((cleanup(apir_close_fd)))
#define cleanup_dir  __attribute__((cleanup(apir_close_dir)))
#define steal_pointer(pp)                                                                          \
    ({                                                                                             \
        __typeof__(*(pp)) *steal_from_ = (pp), steal_out_ = *steal_from_;                          \
        *steal_from_ = NULL;                                                                       \
        steal_out_;                                                                                \
    })
