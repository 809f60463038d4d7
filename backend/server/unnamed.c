/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/unnamed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define TRIES 16 /* at a name that nobody has */

/* Others of this user could open it while it has its name: they could as well trace us. Others of
 * the machine cannot, and cannot guess the name to take it before us. */
int server_unnamed_create(void)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t random;
        char name[32];
        if (getentropy(&random, sizeof(random)) < 0)
            return -errno;
        snprintf(name, sizeof(name), "/apir-%016llx", (unsigned long long)random);
        /* Close-on-exec by POSIX. */
        int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0) {
            (void)shm_unlink(name);
            return fd;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}
