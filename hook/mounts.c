/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "common/cleanup.h"

void hook_file_close(FILE **file)
{
    if (*file)
        fclose(*file);
}

FILE *hook_proc_open(const char *path)
{
    struct statfs fs;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return NULL;
    if (fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC) {
        errno = ENOTSUP;
        return NULL;
    }
    FILE *file = fdopen(fd, "re");
    if (file)
        steal_fd(&fd);
    return file;
}

static int mount_id(int fd)
{
    char path[64];
    cleanup_free char *line = NULL;
    size_t size = 0;
    int id;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    cleanup_file FILE *file = hook_proc_open(path);
    if (!file)
        return -errno;
    while (getline(&line, &size, file) > 0)
        if (sscanf(line, "mnt_id: %d", &id) == 1)
            return id;
    return -ENODATA;
}

/* "36 35 98:0 /root /point options [optional fields] - …": names have no spaces in it. */
static bool parse_line(char *line, struct hook_mount *ret)
{
    unsigned major, minor;

    if (sscanf(line, "%d %*d %u:%u ", &ret->id, &major, &minor) != 3)
        return false;
    ret->device = (uint64_t)major << 32 | minor;
    char *end = strstr(line, " - ");
    if (end)
        *end = '\0';
    ret->shared = strstr(line, " shared:");
    return true;
}

int hook_mount_of(int fd, struct hook_mount *ret)
{
    cleanup_free char *line = NULL;
    size_t size = 0;
    struct hook_mount one;
    int id = mount_id(fd);

    if (id < 0)
        return id;
    cleanup_file FILE *file = hook_proc_open("/proc/self/mountinfo");
    if (!file)
        return -errno;
    while (getline(&line, &size, file) > 0) {
        if (!parse_line(line, &one) || one.id != id)
            continue;
        *ret = one;
        return 0;
    }
    return -ENODATA;
}

int hook_devices_read(struct hook_devices *ret)
{
    cleanup_free char *line = NULL;
    cleanup_free uint64_t *list = NULL;
    size_t size = 0, n = 0, room = 0;
    struct hook_mount one;

    cleanup_file FILE *file = hook_proc_open("/proc/self/mountinfo");
    if (!file)
        return -errno;
    while (getline(&line, &size, file) > 0) {
        if (!parse_line(line, &one))
            continue;
        if (n == room) {
            room = room == 0 ? 64 : room * 2;
            uint64_t *grown = reallocarray(list, room, sizeof(*list));
            if (!grown)
                return -ENOMEM;
            list = grown;
        }
        list[n++] = one.device;
    }
    if (n == 0)
        return -ENODATA;
    ret->list = steal_pointer(&list);
    ret->n = n;
    return 0;
}

bool hook_devices_have(const struct hook_devices *devices, uint64_t device)
{
    for (size_t i = 0; i < devices->n; i++)
        if (devices->list[i] == device)
            return true;
    return false;
}

void hook_devices_fini(struct hook_devices *devices)
{
    free(devices->list);
    memset(devices, 0, sizeof(*devices));
}
