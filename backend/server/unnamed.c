/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/unnamed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* Others of this user could open it while it has its name: they could as well trace us. Others of
 * the machine cannot, and cannot guess the name to take it before us. */
int server_unnamed_create(void)
{
    uint64_t random;
    char name[32];
    if (getentropy(&random, sizeof(random)) < 0)
        return -errno;
    snprintf(name, sizeof(name), "/apir-%016llx", (unsigned long long)random);
    /* Close-on-exec by POSIX. */
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return -errno;
    (void)shm_unlink(name);
    return fd;
}
