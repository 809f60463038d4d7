/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled shaders. A worker that writes into a cache which other workers read gives
 * them code for the GPU; a worker without any compiles for seconds what the host's own
 * programs have compiled long ago. So: each worker reads the user's caches, and what it
 * adds lies in a layer of its own, in memory, that ends with it. Only what the host's
 * own programs compile is kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/worker/sandbox/cache.h"
#include "common/cleanup.h"

/* Where a driver looks: the variable that names the place, and the folder in it. */
static const struct {
    const char *variable, *folder;
} places[] = {
    {"XDG_CACHE_HOME", "mesa_shader_cache"},
    {"XDG_CACHE_HOME", "mesa_shader_cache_db"},
    {"XDG_CACHE_HOME", "nvidia"},
    {"HOME", ".cache/mesa_shader_cache"},
    {"HOME", ".cache/mesa_shader_cache_db"},
    {"HOME", ".cache/nvidia"},
    {"HOME", ".nv"},
    {"MESA_SHADER_CACHE_DIR", ""},
    {"__GL_SHADER_DISK_CACHE_PATH", ""},
    {"CUDA_CACHE_PATH", ""},
};

/* The operator lets all workers share this one. */
static bool cache_is_shared(const struct apir_config *config, const char *path)
{
    for (size_t i = 0; i < config->sandbox_write.n; i++) {
        const char *shared = config->sandbox_write.names[i];
        size_t n = strlen(shared);
        while (n > 1 && shared[n - 1] == '/')
            n--;
        if (strncmp(path, shared, n) == 0 && (path[n] == '/' || path[n] == '\0'))
            return true;
    }
    return false;
}

void worker_caches_find(struct worker_caches *caches, const struct apir_config *config)
{
    caches->n = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const char *base = getenv(places[i].variable);
        char *path = caches->path[caches->n];
        if (caches->n == WORKER_CACHES_MAX || !base || base[0] != '/')
            continue;
        int n = snprintf(path, sizeof(caches->path[0]), "%s/%s", base, places[i].folder);
        struct stat st;
        if (n < 0 || (size_t)n >= sizeof(caches->path[0]) || stat(path, &st) < 0 ||
            !S_ISDIR(st.st_mode) || cache_is_shared(config, path))
            continue;
        /* Nobody else's: it is to be ours, and to be believed. */
        if (st.st_uid == geteuid() && !(st.st_mode & S_IWOTH))
            caches->n++;
    }
}

void worker_caches_forsake(void)
{
    /* A folder can be made in none of these. Mesa goes by the user's entry in passwd, as well. */
    static const char *const variables[][2] = {
        {"HOME", "/dev/null"},
        {"XDG_CACHE_HOME", "/dev/null"},
        {"XDG_CONFIG_HOME", "/dev/null"},
        {"XDG_DATA_HOME", "/dev/null"},
        {"MESA_SHADER_CACHE_DISABLE", "true"},
        {"__GL_SHADER_DISK_CACHE", "0"},
        {"CUDA_CACHE_DISABLE", "1"},
    };
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        (void)setenv(variables[i][0], variables[i][1], 1);
}

/* Lays an empty, writable layer over `path`. */
static int cache_cover(const char *path)
{
    cleanup_fd int below = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (below < 0)
        return -errno;
    if (mount("apir", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "size=256m,nr_inodes=64k,mode=0700") < 0)
        return -errno;
    /* By relative names: a path may hold what overlayfs takes for a separator. */
    char options[96];
    snprintf(options, sizeof(options),
             "lowerdir=/proc/self/fd/%d,upperdir=upper,workdir=work,userxattr", below);
    if (chdir(path) < 0 || mkdir("upper", 0700) < 0 || mkdir("work", 0700) < 0 ||
        mount("apir", path, "overlay", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0) {
        /* The empty layer alone: nothing to read, and nothing of the host's to write. */
        return -errno;
    }
    return 0;
}

void worker_caches_cover(struct worker_caches *caches)
{
    cleanup_fd int home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t kept = 0;
    for (size_t i = 0; i < caches->n; i++) {
        if (cache_cover(caches->path[i]) == 0)
            memmove(caches->path[kept++], caches->path[i], sizeof(caches->path[0]));
    }
    caches->n = kept;
    /* Nothing of ours depends on where we are; ggml looks for backends there as well. */
    if ((home < 0 || fchdir(home) < 0) && chdir("/") < 0)
        caches->n = 0;
}
