/* SPDX-License-Identifier: Apache-2.0 */
/* A library that says so when it is loaded: the file /run/apir-trap is there then. */
#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void spring(void)
{
    int fd = open("/run/apir-trap", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    if (fd >= 0)
        close(fd);
}

/* What each way of loading asks for. */
__attribute__((visibility("default"))) unsigned la_version(unsigned version);
unsigned la_version(unsigned version)
{
    return version;
}

__attribute__((visibility("default"))) int gconv_init(void *step);
int gconv_init(void *step)
{
    (void)step;
    return 0;
}
