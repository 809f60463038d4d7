/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"

int server_self_path(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n < 0)
        return -errno;
    path[n] = '\0';
    return 0;
}

bool server_self_is(const char *path)
{
    struct stat theirs;
    struct stat ours;
    return stat(path, &theirs) == 0 && stat("/proc/self/exe", &ours) == 0 &&
           theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

/* In KiB; 0: it does not say. */
static unsigned long long meminfo(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

bool server_meminfo_is_scarce(const char *text)
{
    const unsigned long long available = meminfo(text, "MemAvailable:");
    return available && available < meminfo(text, "MemTotal:") / 4;
}

bool server_memory_is_scarce(void)
{
    char text[4096];
    (void)apir_file_begin("/proc/meminfo", text, sizeof(text));
    return server_meminfo_is_scarce(text);
}

bool server_folder_is_delegated(const char *folder)
{
    char value[8] = "";
    return getxattr(folder, "user.delegate", value, sizeof(value) - 1) == 1 && value[0] == '1';
}

void server_self_goes_first(void)
{
    static const char score[] = "500";
    cleanup_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    /* Where an operator has set a higher one that stays. */
    ssize_t ignored = fd < 0 ? 0 : write(fd, score, sizeof(score) - 1);
    (void)ignored;
}
