/* SPDX-License-Identifier: Apache-2.0 */
#include "common/image/find.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/image/places.h"
#include "common/image/rootfs.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/regular.h"

#define IMAGE_PLUGIN_SONAME "libggml-apir.so"

#define SUSPECTS_MAX 6   /* of one folder, searched byte for byte without success */
#define FILES_MAX    64  /* of one folder, opened only for what they link with */
#define TELLING_MAX  256 /* of one folder, with a telling name */

struct scan {
    int root;
    struct image *image;
    struct image_budget budget;
    uint64_t entries; /* that may still be read */
    struct image_places *places;
    struct image_place now;        /* the folder being read */
    struct image_dir *dir;         /* the same, as it will be kept */
    size_t ggmls_before;           /* of other folders */
    int modules_asked;             /* files asked whether they are modules, in this folder */
    int searched, others, telling; /* files looked at in this folder */
};

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), m = strlen(with);
    return n >= m && strcmp(s + n - m, with) == 0;
}

/* ---- one file -------------------------------------------------------------------- */

static int look_behind(struct scan *s, int fd, enum image_depth depth, struct image_ggml_file *ret)
{
    s->image->files++;
    int rc = image_ggml_look(fd, depth, &s->budget, ret);
    if (rc == -ENOBUFS)
        s->image->truncated = true;
    return rc;
}

/* -ENOEXEC for what is no ELF file. */
static int look(struct scan *s, const char *name, enum image_depth depth,
                struct image_ggml_file *ret)
{
    cleanup_fd int fd = image_rootfs_open_child(s->dir->fd, name, O_RDONLY, 0);

    return fd < 0 ? fd : look_behind(s, fd, depth, ret);
}

static void add_ggml(struct scan *s, const char *name, enum image_ggml_kind kind,
                     const struct image_ggml_file *file)
{
    struct image *image = s->image;

    if (image->n_ggmls == IMAGE_GGMLS_MAX) {
        image->truncated = true;
        return;
    }
    struct image_ggml *g = &image->ggmls[image->n_ggmls];
    const char *slash = ends(s->dir->path, "/") ? "" : "/";
    if ((size_t)snprintf(g->path, sizeof(g->path), "%s%s%s", s->dir->path, slash, name) >=
        sizeof(g->path))
        return;
    g->dir = image->n; /* the folder is added right behind, since it has a ggml */
    g->kind = kind;
    g->file = *file;
    image->n_ggmls++;
    for (size_t i = 0; i < file->n_hints; i++)
        image_places_add_hint(s->places, file->hints[i]);
}

static void look_at_core(struct scan *s, const char *name)
{
    struct image_ggml_file file;

    if (look(s, name, IMAGE_BYTES, &file) < 0)
        return;
    if (starts(name, "libggml-base"))
        s->dir->functions |= file.functions;
    else
        add_ggml(s, name, IMAGE_SHARED, &file);
}

static void set_virtgpu(struct image_dir *dir, const char *file)
{
    if (strlen(file) < sizeof(dir->virtgpu))
        memcpy(dir->virtgpu, file, strlen(file) + 1);
}

static void look_at_backend(struct scan *s, const char *name)
{
    struct image_ggml_file file;

    if (starts(name, "libggml-vulkan"))
        s->dir->vulkan = true;
    for (int i = 0; i < IMAGE_SLOTS; i++)
        if (strcmp(name, image_slot_file((enum image_slot)i)) == 0) {
            struct stat st;
            cleanup_fd int own = image_rootfs_open_child(s->dir->fd, name, O_RDONLY, 0);
            /* What an earlier start has left is not the image's own backend: a plug-in of ours, or
             * an empty file, on which others have mounted one. */
            bool ours = own >= 0 && image_find_is_plugin(own);
            bool is_own = own < 0 || (!ours && fstat(own, &st) == 0 && st.st_size > 0);
            if (ours)
                s->dir->ours |= 1u << i;
            if (is_own)
                s->dir->taken |= 1u << i;
            if (is_own && i == IMAGE_SLOT_VIRTGPU)
                set_virtgpu(s->dir, name);
            return;
        }
    /* One that says so is enough; some that do not may be linked with. */
    if (!s->dir->modules && s->modules_asked++ < SUSPECTS_MAX &&
        look(s, name, IMAGE_SYMBOLS, &file) == 0)
        s->dir->modules = file.module;
}

static void look_at_other(struct scan *s, const char *name, enum image_depth depth,
                          enum image_ggml_kind kind)
{
    struct image_ggml_file file;
    bool tells = depth == IMAGE_BYTES;

    if (tells ? s->telling++ >= TELLING_MAX : s->others++ >= FILES_MAX) {
        s->image->truncated = true;
        return;
    }
    /* One program with ggml in it leads to the folder: the others need no search. */
    if (s->searched >= SUSPECTS_MAX ||
        (s->image->n_ggmls > s->ggmls_before && kind == IMAGE_IN_PROGRAM))
        depth = IMAGE_LINKS;
    if (look(s, name, depth, &file) < 0)
        return;
    s->searched += depth == IMAGE_BYTES && !file.links && !file.loader;
    s->image->calls = s->image->calls || (file.links && file.calls);
    s->dir->programs = s->dir->programs || (file.program && file.links);
    s->dir->launchers =
        s->dir->launchers || (tells && file.program && file.dynamic && !file.links && !file.loader);
    s->image->launched =
        s->image->launched || (!file.program && file.links && ends(name, "-impl.so"));
    if (file.registry || file.loader)
        add_ggml(s, name, file.program ? IMAGE_IN_PROGRAM : kind, &file);
}

static void on_file(struct scan *s, const char *name)
{
    bool library = strstr(name, ".so"), tells = image_places_speaks_of_ggml(name);
    bool tree = s->now.kind == IMAGE_PLACE_TREE;

    if (library && (starts(name, "libggml.") || starts(name, "libggml-base")))
        look_at_core(s, name);
    else if (library && starts(name, "libggml-"))
        look_at_backend(s, name);
    else if (library && (tells || tree))
        look_at_other(s, name, tells || !starts(name, "lib") ? IMAGE_BYTES : IMAGE_LINKS,
                      IMAGE_IN_LIBRARY);
    else if (ends(name, ".node") && tree)
        look_at_other(s, name, IMAGE_BYTES, IMAGE_IN_ADDON);
    else if (strcmp(name, "node") == 0 || starts(name, "python3"))
        s->dir->interpreter = true;
    else if (!strchr(name, '.') && tells)
        look_at_other(s, name, IMAGE_BYTES, IMAGE_IN_PROGRAM);
    else if (!strchr(name, '.') && image_places_any_program(&s->now))
        look_at_other(s, name, IMAGE_SYMBOLS, IMAGE_IN_PROGRAM);
}

/* ---- one folder ------------------------------------------------------------------ */

/* ggml follows a link to a backend; here it is followed inside the root. */
static void look_at_linked_backend(struct scan *s, const char *name)
{
    char path[IMAGE_PATH_SIZE + 256];
    struct image_ggml_file file;

    if (starts(name, "libggml-vulkan"))
        s->dir->vulkan = true;
    if (s->dir->modules || starts(name, "libggml-base") || s->modules_asked++ >= SUSPECTS_MAX)
        return;
    snprintf(path, sizeof(path), "%s/%s", s->dir->path, name);
    cleanup_fd int fd = image_rootfs_openat(s->root, path, O_RDONLY, 0);
    if (fd >= 0 && look_behind(s, fd, IMAGE_SYMBOLS, &file) == 0)
        s->dir->modules = file.module;
}

static void on_link(struct scan *s, const char *name)
{
    char target[IMAGE_PATH_SIZE];

    if (!image_places_speaks_of_ggml(name) && strcmp(name, "node") != 0 &&
        strcmp(name, "python3") != 0)
        return;
    ssize_t n = readlinkat(s->dir->fd, name, target, sizeof(target) - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    char *slash = strrchr(target, '/');
    for (int i = 0; i < IMAGE_SLOTS; i++)
        if (strcmp(name, image_slot_file((enum image_slot)i)) == 0)
            s->dir->taken |= 1u << i;
    /* The mount goes over the file that the link of this name leads to. */
    if (strcmp(name, image_slot_file(IMAGE_SLOT_VIRTGPU)) == 0)
        set_virtgpu(s->dir, slash ? name : target);
    /* A link within the folder: what it leads to is looked at by its own name. */
    if (!slash)
        return;
    if (starts(name, "libggml-") && ends(name, ".so"))
        look_at_linked_backend(s, name);
    /* ggml looks in the folder of the program itself, and a library may have others beside it. */
    slash[slash == target] = '\0';
    image_places_add_link(s->places, &s->now, target);
}

/* Whether nothing more is looked at: time is over, or there is more than any image has. */
static bool is_over(struct scan *s)
{
    bool left = image_budget_left(&s->budget);

    s->image->early = s->image->early || s->entries == 0 || apir_now_ms() >= s->budget.deadline_ms;
    s->image->truncated = s->image->truncated || s->image->early || !left;
    return s->image->early || !left;
}

static int on_entry(const char *name, unsigned char type, void *user)
{
    struct scan *s = user;
    struct stat st;

    if (is_over(s))
        return 1;
    s->entries--;
    if (type == DT_UNKNOWN && fstatat(s->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        type = (unsigned char)IFTODT(st.st_mode);
    if (type == DT_DIR)
        image_places_enter(s->places, &s->now, s->dir->fd, name);
    else if (type == DT_LNK)
        on_link(s, name);
    else if (type == DT_REG)
        on_file(s, name);
    return 0;
}

static void visit(struct scan *s, struct image_dir *dir)
{
    struct stat st;
    cleanup_fd int fd = image_rootfs_openat(s->root, s->now.path, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0 || fstat(fd, &st) < 0 || !image_places_first_time(s->places, st.st_dev, st.st_ino))
        return;
    memset(dir, 0, sizeof(*dir));
    memcpy(dir->path, s->now.path, sizeof(dir->path));
    dir->dev = st.st_dev;
    dir->ino = st.st_ino;
    dir->fd = fd;
    s->dir = dir;
    s->modules_asked = s->searched = s->others = s->telling = 0;
    s->ggmls_before = s->image->n_ggmls;
    /* With no room left a ggml in here could not be told where it is. */
    if (s->image->n == IMAGE_DIRS_MAX) {
        s->image->truncated = true;
        return;
    }
    if (image_rootfs_each(fd, on_entry, s) == -E2BIG)
        s->image->truncated = true;
    if (dir->modules || dir->programs || dir->launchers || dir->interpreter || dir->vulkan ||
        dir->virtgpu[0] != '\0' || dir->functions != 0 || s->image->n_ggmls > s->ggmls_before) {
        steal_fd(&fd);
        s->image->dirs[s->image->n++] = *dir;
    }
}

/* ---- the folder that was compiled in --------------------------------------------- */

/* Without modules it counts if the whole path is there; a part of one could be any folder. */
static void find_compiled(struct scan *s, struct image_ggml *g)
{
    size_t longest = 0;
    const char *name = strrchr(g->path, '/') + 1;
    /* Whatever was read before: it decides where all modules are searched. */
    struct image_budget budget = {.bytes = IMAGE_FIND_BYTES, .deadline_ms = s->budget.deadline_ms};
    cleanup_fd int fd = image_rootfs_open_child(s->image->dirs[g->dir].fd, name, O_RDONLY, 0);

    for (size_t i = 0; fd >= 0 && i < s->image->n; i++) {
        const struct image_dir *d = &s->image->dirs[i];

        if (d->modules && strlen(d->path) > longest && image_ggml_has_path(fd, d->path, &budget)) {
            longest = strlen(d->path);
            g->has_compiled = true;
            g->compiled = i;
        }
    }
}

int image_scan(int root, char *const *also, size_t n_also, uint16_t machine, struct image *image)
{
    cleanup_free struct image_dir *dir = calloc(1, sizeof(*dir));
    cleanup_free struct image_places *places = image_places_create(also, n_also);
    uint64_t start = apir_now_ms();
    struct scan s = {
        .root = root,
        .image = image,
        .places = places,
        .budget = {.bytes = IMAGE_FIND_BYTES, .deadline_ms = start + image->limit_ms},
        .entries = image->limit_entries,
    };

    if (!dir || !places)
        return -ENOMEM;
    while (image_places_next(places, root, &s.now) && !is_over(&s))
        visit(&s, dir);
    image->truncated = image->truncated || image_places_overflown(places);
    for (size_t i = 0; i < image->n_ggmls; i++)
        if (image->ggmls[i].kind == IMAGE_SHARED && !image->ggmls[i].file.links_cpu)
            find_compiled(&s, &image->ggmls[i]);
    /* What it was just doing may have been cut short. */
    image->early = image->early || apir_now_ms() >= s.budget.deadline_ms;
    image->bytes = IMAGE_FIND_BYTES - s.budget.bytes;
    image->ms = apir_now_ms() - start;
    image_conclude(image, machine);
    return 0;
}

bool image_find_is_plugin(int fd)
{
    struct image_budget budget = {.bytes = 1u << 20};
    struct image_elf elf;
    char name[sizeof(IMAGE_PLUGIN_SONAME) + 1];

    return image_elf_open(fd, &budget, &elf) == 0 &&
           image_elf_soname(&elf, name, sizeof(name)) == 0 &&
           strcmp(name, IMAGE_PLUGIN_SONAME) == 0;
}

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

uint16_t image_find_machine(int fd)
{
    struct image_budget budget = {.bytes = 1u << 20};
    struct image_elf elf;

    /* Opened anew: the descriptor may be one that cannot be read from (O_PATH). */
    cleanup_fd int file = apir_regular_reopen(fd, O_RDONLY);
    if (file < 0 || image_elf_open(file, &budget, &elf) < 0)
        return OWN_MACHINE;
    return elf.machine;
}
