/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/soak/class.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/server/limits/claims.h"
#include "tests/lib/clock.h"
#include "tests/lib/folder.h"
#include "tests/lib/processes.h"

#define START_MS patient_ms(20000)
#define LEAKS_MS patient_ms(15000)
#define LAVAPIPE "/usr/share/vulkan/icd.d/lvp_icd.json"

enum { FDS_MAX = 16384 };

/* ---- which there are ------------------------------------------------------------------ */

static const char *const kinds_shm[] = {"compute", "bulk", "grab", "events", "churn", NULL};
static const char *const kinds_device[] = {"hoard", NULL};
static const char *const kinds_any[] = {"compute", "churn", "events", "bulk", "killed", NULL};

static const struct {
    const char *name;
    const char *const *kinds;
    bool lavapipe;
    uint64_t contexts, shm_mib, device_mib;
} classes[] = {
    {"shm", kinds_shm, false, 0, 96, 0},
    {"device", kinds_device, false, 0, 0, 64},
    {"contexts", kinds_any, false, 8, 0, 0},
    {"gpu", kinds_any, true, 0, 200, 0},
};
enum { N_CLASSES = sizeof(classes) / sizeof(classes[0]) };

void class_init(struct class *c, uint32_t number)
{
    const size_t i = number % N_CLASSES;
    *c = (struct class){
        .name = classes[i].name,
        .kinds = classes[i].kinds,
        .lavapipe = classes[i].lavapipe && access(LAVAPIPE, R_OK) == 0,
        .limits =
            {
                [CLASS_CONTEXTS] = {.key = "max_contexts", .most = classes[i].contexts},
                [CLASS_SHM] = {.key = "class_shm_mib", .most = classes[i].shm_mib},
                [CLASS_DEVICE] = {.key = "class_device_memory_mib", .most = classes[i].device_mib},
                [CLASS_BOOKS] = {.key = "class_device_memory_mib", .most = classes[i].device_mib},
            },
    };
}

/* ---- life ----------------------------------------------------------------------------- */

static void config_write(const struct class *c, const char *path)
{
    const struct class_limit *l = c->limits;
    FILE *f = fopen(path, "we");
    if (!f)
        die("%s: %s", path, strerror(errno));
    fprintf(f,
            "{\"threads\": 1, \"devices\": [\"%s\"], \"limits_dir\": \"%s\", \"max_contexts\": %u, "
            "\"max_contexts_per_user\": 128, \"class_shm_mib\": %u, "
            "\"class_device_memory_mib\": %u}\n",
            c->lavapipe ? "Vulkan0" : "CPU", c->limits_dir,
            l[CLASS_CONTEXTS].most ? (unsigned)l[CLASS_CONTEXTS].most : 128,
            (unsigned)l[CLASS_SHM].most, (unsigned)l[CLASS_DEVICE].most);
    if (fclose(f) != 0)
        die("%s: %s", path, strerror(errno));
}

void class_start(struct class *c)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(c->dir, sizeof(c->dir), "%s/class.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(c->dir))
        die("%s: %s", c->dir, strerror(errno));
    snprintf(c->socket, sizeof(c->socket), "%s/socket", c->dir);
    snprintf(c->transport, sizeof(c->transport), "APIR_TRANSPORT=unix:%s", c->socket);
    snprintf(c->log, sizeof(c->log), "%s/log", c->dir);
    snprintf(c->limits_dir, sizeof(c->limits_dir), "%s/limits", c->dir);
    char file[96], config[128];
    snprintf(file, sizeof(file), "%s/backend.json", c->dir);
    snprintf(config, sizeof(config), "APIR_CONFIG=%s", file);
    if (mkdir(c->limits_dir, 0700) < 0)
        die("%s: %s", c->limits_dir, strerror(errno));
    config_write(c, file);
    const char *const argv[] = {process_built("backend/apir-render-server"), "--listen", c->socket,
                                NULL};
    const char *const cpu[] = {config, "GGML_VK_VISIBLE_DEVICES=", NULL};
    const char *const gpu[] = {config, "GGML_VK_VISIBLE_DEVICES=0", "VK_DRIVER_FILES=" LAVAPIPE,
                               "LP_NUM_THREADS=1", NULL};
    c->server = process_start(argv, c->lavapipe ? gpu : cpu, c->log);
    /* It is renamed to this once it listens. */
    WAIT_FOR(access(c->socket, F_OK) == 0, START_MS);
    if (access(c->socket, F_OK) < 0)
        die("the server of class %s does not listen; its log is %s", c->name, c->log);
}

void class_stop(struct class *c)
{
    process_kill(c->server);
    folder_remove(c->dir);
}

/* ---- what is seen --------------------------------------------------------------------- */

/* Nothing changes while it is looked at. */
static void class_hold(const struct class *c)
{
    int status;
    if (kill(c->server, SIGSTOP) < 0 || waitpid(c->server, &status, WUNTRACED) != c->server ||
        !WIFSTOPPED(status))
        die("the server of class %s has ended; its log is %s", c->name, c->log);
}

/* Of memory that the server has open: each once, however often. */
static uint64_t shm_bytes(pid_t server)
{
    static ino_t seen[FDS_MAX];
    char path[64], target[64];
    uint64_t bytes = 0;
    size_t n = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", server);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        const ssize_t size = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);
        struct stat st;
        target[size > 0 ? size : 0] = '\0';
        if ((!strstr(target, "memfd:apir-ring") && !strstr(target, "memfd:apir-arena")) ||
            fstatat(dirfd(dir), e->d_name, &st, 0) < 0)
            continue;
        size_t i = 0;
        while (i < n && seen[i] != st.st_ino)
            i++;
        if (i < n || n == FDS_MAX)
            continue;
        seen[n++] = st.st_ino;
        bytes += (uint64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
    return bytes;
}

static uint64_t rings(pid_t server)
{
    char path[64], line[512];
    uint64_t n = 0;
    snprintf(path, sizeof(path), "/proc/%d/maps", server);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        n += !!strstr(line, "memfd:apir-ring");
    if (f)
        fclose(f);
    return n;
}

/* The highest of any device. */
static uint64_t books_bytes(const struct class *c)
{
    uint64_t most = 0;
    DIR *dir = opendir(c->limits_dir);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        struct server_claims_head head;
        struct server_claim row;
        const int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (read(fd, &head, sizeof(head)) == sizeof(head) && head.magic == SERVER_CLAIMS_MAGIC) {
            for (uint32_t i = 0; i < head.n_rows && read(fd, &row, sizeof(row)) == sizeof(row); i++)
                most = row.bytes > most ? row.bytes : most;
        }
        close(fd);
    }
    if (dir)
        closedir(dir);
    return most;
}

static void look(struct class *c, uint64_t seen[CLASS_LIMITS])
{
    class_hold(c);
    seen[CLASS_CONTEXTS] = rings(c->server);
    seen[CLASS_SHM] = shm_bytes(c->server);
    seen[CLASS_BOOKS] = books_bytes(c);
    kill(c->server, SIGCONT);
}

void class_sample(struct class *c, uint64_t held)
{
    uint64_t seen[CLASS_LIMITS] = {[CLASS_DEVICE] = held};
    look(c, seen);
    c->samples++;
    for (int i = 0; i < CLASS_LIMITS; i++) {
        struct class_limit *l = &c->limits[i];
        const uint64_t most = i == CLASS_CONTEXTS ? l->most : l->most << 20;
        if (seen[i] > l->peak)
            l->peak = seen[i];
        if (l->most == 0 || seen[i] <= most)
            continue;
        l->over++;
        fprintf(stderr, "soak: class %s has %llu, above %s: %llu\n", c->name,
                (unsigned long long)seen[i], l->key, (unsigned long long)l->most);
    }
}

static uint64_t left(struct class *c, uint64_t seen[CLASS_LIMITS])
{
    look(c, seen);
    return seen[CLASS_CONTEXTS] + seen[CLASS_SHM] + seen[CLASS_BOOKS];
}

long class_leaks(struct class *c)
{
    uint64_t seen[CLASS_LIMITS] = {0};
    WAIT_FOR(left(c, seen) == 0, LEAKS_MS);
    if (left(c, seen) == 0)
        return 0;
    fprintf(stderr, "soak: class %s still has %llu rings, %llu bytes shared, %llu of a device\n",
            c->name, (unsigned long long)seen[CLASS_CONTEXTS], (unsigned long long)seen[CLASS_SHM],
            (unsigned long long)seen[CLASS_BOOKS]);
    return 1;
}
