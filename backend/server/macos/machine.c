/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/machine.h"

#include <errno.h>
#include <libproc.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <unistd.h>

int server_self_path(char *path, size_t size)
{
    char own[PROC_PIDPATHINFO_MAXSIZE];
    if (proc_pidpath(getpid(), own, sizeof(own)) <= 0)
        return -errno;
    return strlcpy(path, own, size) >= size ? -ENAMETOOLONG : 0;
}

bool server_self_is(const char *path)
{
    char own[PATH_MAX];
    struct stat theirs;
    struct stat ours;
    return server_self_path(own, sizeof(own)) == 0 && stat(path, &theirs) == 0 &&
           stat(own, &ours) == 0 && theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

bool server_memory_is_scarce(void)
{
    int percent = 100;
    size_t size = sizeof(percent);
    return sysctlbyname("kern.memorystatus_level", &percent, &size, NULL, 0) == 0 && percent < 25;
}

/* There are no control groups. */
bool server_folder_is_delegated(const char *folder)
{
    (void)folder;
    return false;
}

/* The system chooses by itself, and there is no call that tells it whom. */
void server_self_goes_first(void)
{
}
