/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/config/config.h"
#include "backend/server/closer.h"
#include "backend/server/machine.h"
#include "common/cleanup.h"
#include "common/file.h"

#define MOUNT "/sys/fs/cgroup"

static int file_write(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* Our group's folder: of the one hierarchy of version 2. Returns 0 or -errno. */
static int own_folder(char *folder, size_t size)
{
    char text[PATH_MAX];
    const ssize_t n = apir_file_begin("/proc/self/cgroup", text, sizeof(text));
    if (n < 0)
        return (int)n;
    char *path = strncmp(text, "0::/", 4) == 0 ? text + 3 : NULL;
    if (!path)
        return -ENOENT;
    path[strcspn(path, "\n")] = '\0';
    return snprintf(folder, size, "%s%s", MOUNT, path) >= (int)size ? -ENAMETOOLONG : 0;
}

/* The one that is handed over: ours, or the one above where the manager has put us into `server`
 * itself, so that a service that is started anew need not wait for the last one's workers. The
 * path becomes the one that is looked at last. */
static bool find_delegated(char *folder)
{
    if (server_folder_is_delegated(folder))
        return true;
    char *last = strrchr(folder, '/');
    if (strcmp(last, "/server") != 0)
        return false;
    *last = '\0';
    return server_folder_is_delegated(folder);
}

/* Processes live in the leaves: ours goes into one, before the controllers are handed down. */
static int divide(const char *folder)
{
    char server[PATH_MAX];
    if (snprintf(server, sizeof(server), "%s/server", folder) >= (int)sizeof(server))
        return -ENAMETOOLONG;
    if (mkdir(server, 0755) < 0 && errno != EEXIST)
        return -errno;
    int rc = file_write(server, "cgroup.procs", "0");
    return rc < 0 ? rc : file_write(folder, "cgroup.subtree_control", "+memory +pids");
}

/* The least limit of what a context may have of a device; 0: there is none. */
static uint32_t device_mib(const struct apir_config *config)
{
    const uint32_t own = config->context_device_memory_mib, all = config->device_memory_mib;
    return own && (!all || own < all) ? own : all;
}

/*
 * All that a context may have of the main memory by its limits, and what drivers need. What a GPU
 * without memory of its own has is main memory, and the kernel counts it as the worker's; so is
 * that of a driver that computes on the CPU. A machine has one such device.
 */
static void memory_max(const struct apir_config *config, char *text, size_t size)
{
    const uint64_t mib = (uint64_t)config->context_host_memory_mib + config->context_graph_mib +
                         config->context_queue_mib + device_mib(config) + SERVER_CGROUP_DRIVERS_MIB;
    if (config->context_host_memory_mib && device_mib(config))
        snprintf(text, size, "%llu", (unsigned long long)mib << 20);
    else
        snprintf(text, size, "max");
}

void server_cgroups_init(struct server_cgroups *groups, const struct apir_config *config,
                         char *ret_text, size_t size)
{
    *groups = (struct server_cgroups){0};
    memory_max(config, groups->memory_max, sizeof(groups->memory_max));
    snprintf(groups->pids_max, sizeof(groups->pids_max), "%u", apir_config_worker_threads(config));
    char folder[PATH_MAX];
    int rc = own_folder(folder, sizeof(folder));
    const bool ours = rc == 0 && find_delegated(folder);
    if (ours)
        rc = divide(folder);
    if (ours && rc == 0) {
        memcpy(groups->folder, folder, sizeof(folder));
        snprintf(ret_text, size, "each worker has a control group below %.200s, memory.max %s",
                 folder, groups->memory_max);
    } else if (ours) {
        snprintf(ret_text, size, "workers have no control groups: %.200s: %s", folder,
                 strerror(-rc));
    } else {
        snprintf(ret_text, size,
                 "workers have no control groups, since nobody has handed one over to this server "
                 "(Delegate=memory pids)");
    }
}

/* ---- of one worker --------------------------------------------------------------- */

static int worker_folder(const struct server_cgroups *groups, pid_t pid, char *folder, size_t size)
{
    return snprintf(folder, size, "%s/worker-%d", groups->folder, (int)pid) >= (int)size
               ? -ENAMETOOLONG
               : 0;
}

int server_cgroups_enter(const struct server_cgroups *groups)
{
    char folder[PATH_MAX];
    if (!groups->folder[0])
        return 0;
    int rc = worker_folder(groups, getpid(), folder, sizeof(folder));
    if (rc == 0 && mkdir(folder, 0755) < 0 && errno != EEXIST)
        rc = -errno;
    if (rc == 0)
        rc = file_write(folder, "memory.max", groups->memory_max);
    if (rc == 0)
        rc = file_write(folder, "pids.max", groups->pids_max);
    /* What is limited is not to go on in the swap. Not every kernel counts that. */
    if (rc == 0 && strcmp(groups->memory_max, "max") != 0)
        (void)file_write(folder, "memory.swap.max", "0");
    return rc < 0 ? rc : file_write(folder, "cgroup.procs", "0");
}

bool server_cgroups_starved(const struct server_cgroups *groups, pid_t pid)
{
    char folder[PATH_MAX], path[PATH_MAX], text[512];
    if (!groups->folder[0] || worker_folder(groups, pid, folder, sizeof(folder)) < 0 ||
        snprintf(path, sizeof(path), "%s/memory.events", folder) >= (int)sizeof(path) ||
        apir_file_begin(path, text, sizeof(text)) < 0)
        return false;
    const char *kills = strstr(text, "\noom_kill ");
    return kills && atoi(kills + strlen("\noom_kill ")) > 0;
}

void server_cgroups_leave(const struct server_cgroups *groups, pid_t pid)
{
    char folder[PATH_MAX];
    if (groups->folder[0] && worker_folder(groups, pid, folder, sizeof(folder)) == 0)
        server_remove_later(folder);
}
