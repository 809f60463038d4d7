/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/rootfs.h"
#include "protocol/cleanup.h"

#define VISITS_MAX   256
#define DEPTH_MAX    3
#define LIB_SIZE_MAX (64u << 20)
#define SLOT_VIRTGPU "libggml-virtgpu.so"
#define SLOT_METAL   "libggml-metal.so"

/* What to do with sub-folders: follow those of ggml, or (under /opt) each product's. */
enum visit_kind { VISIT_LEAF, VISIT_LIB, VISIT_OPT };

struct visit {
    char path[200];
    enum visit_kind kind;
    int depth;
};

struct scan {
    int root;
    struct hook_image *image;
    struct visit queue[VISITS_MAX];
    size_t n, next;
    bool truncated;
    const struct visit *now;
    struct hook_dir dir; /* the one being read */
};

static const struct {
    const char *path;
    enum visit_kind kind;
} places[] = {
    {"/app", VISIT_LIB},
    {"/app/lib", VISIT_LIB},
    {"/app/bin", VISIT_LIB},
    {"/usr/lib/x86_64-linux-gnu", VISIT_LIB},
    {"/usr/lib/aarch64-linux-gnu", VISIT_LIB},
    {"/usr/lib", VISIT_LIB},
    {"/usr/lib64", VISIT_LIB},
    {"/usr/local/lib/x86_64-linux-gnu", VISIT_LIB},
    {"/usr/local/lib/aarch64-linux-gnu", VISIT_LIB},
    {"/usr/local/lib", VISIT_LIB},
    {"/usr/local/lib64", VISIT_LIB},
    {"/lib", VISIT_LIB},
    {"/lib64", VISIT_LIB},
    {"/usr/bin", VISIT_LEAF},
    {"/usr/local/bin", VISIT_LEAF},
    {"/usr/libexec", VISIT_LIB},
    {"/opt", VISIT_OPT},
};

void hook_image_init(struct hook_image *image)
{
    memset(image, 0, sizeof(*image));
}

void hook_image_fini(struct hook_image *image)
{
    for (size_t i = 0; i < image->n; i++)
        apir_close_fd(&image->dirs[i].fd);
    hook_image_init(image);
}

static void enqueue(struct scan *s, const char *dir, const char *name, enum visit_kind kind,
                    int depth)
{
    struct visit *v = &s->queue[s->n];

    if (s->n == VISITS_MAX) {
        s->truncated = true;
        return;
    }
    const char *slash = name[0] == '\0' ? "" : "/";
    if ((size_t)snprintf(v->path, sizeof(v->path), "%s%s%s", dir, slash, name) >= sizeof(v->path))
        return;
    v->kind = kind;
    v->depth = depth;
    s->n++;
}

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), m = strlen(with);
    return n >= m && strcmp(s + n - m, with) == 0;
}

static void enter_folder(struct scan *s, const char *name)
{
    const struct visit *v = s->now;

    if (v->depth >= DEPTH_MAX)
        return;
    if (v->kind == VISIT_OPT && v->depth == 0)
        enqueue(s, v->path, name, VISIT_OPT, 1);
    else if (v->kind == VISIT_OPT &&
             (strcmp(name, "lib") == 0 || strcmp(name, "lib64") == 0 || strcmp(name, "bin") == 0))
        enqueue(s, v->path, name, VISIT_LIB, v->depth + 1);
    else if (v->kind != VISIT_LEAF && (starts(name, "ggml") || starts(name, "llama") ||
                                       starts(name, "backends") || starts(name, "whisper")))
        enqueue(s, v->path, name, VISIT_LIB, v->depth + 1);
}

static int classify(const char *name, unsigned char type, void *user)
{
    struct scan *s = user;
    struct hook_dir *d = &s->dir;
    bool file = type == DT_REG || type == DT_UNKNOWN;

    if (type == DT_DIR) {
        enter_folder(s, name);
    } else if (starts(name, "libggml.so")) {
        d->core = true;
        if (strlen(name) < sizeof(d->lib))
            memcpy(d->lib, name, strlen(name) + 1);
    } else if (starts(name, "libggml-base.so")) {
        d->core = true;
    } else if (starts(name, "libggml-vulkan") && strstr(name, ".so") != NULL) {
        d->vulkan = true;
    } else if (strcmp(name, SLOT_VIRTGPU) == 0) {
        d->virtgpu = true;
    } else if (starts(name, "libggml-cpu") && ends(name, ".so") && file) {
        /* As a link it is what one compiles against, and the library is linked in. */
        d->modules = true;
    } else if (starts(name, "llama-") && file) {
        d->programs = true;
    }
    return 0;
}

static void visit(struct scan *s)
{
    struct hook_dir *d = &s->dir;
    struct stat st;
    cleanup_fd int fd = hook_rootfs_openat(s->root, s->now->path, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    memset(d, 0, sizeof(*d));
    memcpy(d->path, s->now->path, sizeof(d->path));
    d->dev = st.st_dev;
    d->ino = st.st_ino;
    for (size_t i = 0; i < s->image->n; i++)
        if (s->image->dirs[i].dev == d->dev && s->image->dirs[i].ino == d->ino)
            return;
    if (hook_rootfs_each(fd, classify, s) == -E2BIG)
        s->truncated = true;
    /* An empty placeholder of an earlier start is not the image's own backend. */
    if (d->virtgpu) {
        cleanup_fd int own = hook_rootfs_open_child(fd, SLOT_VIRTGPU, O_PATH, 0);
        d->virtgpu = own == -EXDEV ||
                     (own >= 0 && fstat(own, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0);
    }
    if (!(d->core || d->modules || d->programs || d->vulkan || d->virtgpu))
        return;
    if (s->image->n == HOOK_DIRS_MAX) {
        s->truncated = true;
        return;
    }
    d->fd = steal_fd(&fd);
    s->image->dirs[s->image->n++] = *d;
}

/* Whether the regular file holds the string, with its NUL, in its first LIB_SIZE_MAX bytes. */
static bool file_has_string(int fd, const char *string)
{
    char buffer[65536];
    size_t kept = 0, total = 0, length = strlen(string) + 1;

    while (total < LIB_SIZE_MAX) {
        ssize_t n = read(fd, buffer + kept, sizeof(buffer) - kept);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        total += (size_t)n;
        size_t have = kept + (size_t)n;
        if (memmem(buffer, have, string, length) != NULL)
            return true;
        kept = have < length - 1 ? have : length - 1;
        memmove(buffer, buffer + have - kept, kept);
    }
    return false;
}

static bool library_knows(int root, const struct hook_dir *d, const char *slot)
{
    char path[300];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", d->path, d->lib);
    cleanup_fd int fd = hook_rootfs_openat(root, path, O_RDONLY, 0);
    /* A fifo opens at once (O_NONBLOCK) and is refused here, before any read. */
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && file_has_string(fd, slot);
}

static void conclude(int root, struct hook_image *image)
{
    size_t libraries = 0, knowing = 0;

    for (size_t i = 0; i < image->n; i++) {
        const struct hook_dir *d = &image->dirs[i];

        image->vulkan = image->vulkan || d->vulkan;
        image->virtgpu = image->virtgpu || d->virtgpu;
        if (d->lib[0] != '\0') {
            libraries++;
            knowing += library_knows(root, d, "virtgpu");
        }
    }
    image->knows_virtgpu = libraries > 0 && knowing == libraries;
}

int hook_image_scan(int root, struct hook_image *image)
{
    cleanup_free struct scan *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return -ENOMEM;
    s->root = root;
    s->image = image;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        enqueue(s, places[i].path, "", places[i].kind, 0);
    while (s->next < s->n) {
        s->now = &s->queue[s->next++];
        visit(s);
    }
    image->truncated = s->truncated;
    conclude(root, image);
    return 0;
}

const char *hook_image_slot(const struct hook_image *image)
{
    if (image->vulkan || image->virtgpu || !image->knows_virtgpu)
        return SLOT_METAL;
    return SLOT_VIRTGPU;
}

bool hook_image_wants(const struct hook_image *image, const struct hook_dir *dir)
{
    bool any_modules = false;

    if (dir->modules)
        return true;
    for (size_t i = 0; i < image->n; i++)
        any_modules = any_modules || image->dirs[i].modules;
    return dir->programs && !any_modules;
}
