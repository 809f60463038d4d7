/* SPDX-License-Identifier: Apache-2.0 */
#include "common/image/places.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/image/rootfs.h"
#include "common/cleanup.h"

/* Folders that are looked into: of an application's packages, each scope is one. */
#define PLACES_MAX 4096
#define HINTS_MAX  32
#define DEPTH_MAX  6         /* below a place, or a package */
#define DEPTH_HINT DEPTH_MAX /* nothing below a hint */

struct image_places {
    struct image_place queue[PLACES_MAX];
    size_t n, next;
    char hints[HINTS_MAX][IMAGE_PATH_SIZE];
    size_t n_hints, next_hint;
    struct {
        dev_t dev;
        ino_t ino;
    } seen[PLACES_MAX];
    size_t n_seen;
    bool overflown;
};

/* The usual ones first: where an image has too much, the end of the list is cut. */
static const struct {
    const char *path;
    enum image_place_kind kind;
} known[] = {
    {"/app", IMAGE_PLACE_APP},
    {"/usr/bin", IMAGE_PLACE_BIN},
    {"/usr/local/bin", IMAGE_PLACE_APP},
    {"/usr/lib/x86_64-linux-gnu", IMAGE_PLACE_LIB},
    {"/usr/lib/aarch64-linux-gnu", IMAGE_PLACE_LIB},
    {"/usr/lib", IMAGE_PLACE_LIB},
    {"/usr/lib64", IMAGE_PLACE_LIB},
    {"/usr/local/lib/x86_64-linux-gnu", IMAGE_PLACE_LIB},
    {"/usr/local/lib/aarch64-linux-gnu", IMAGE_PLACE_LIB},
    {"/usr/local/lib", IMAGE_PLACE_LIB},
    {"/usr/local/lib64", IMAGE_PLACE_LIB},
    {"/lib", IMAGE_PLACE_LIB},
    {"/lib64", IMAGE_PLACE_LIB},
    {"/usr/libexec", IMAGE_PLACE_LIB},
    {"/usr/src/app", IMAGE_PLACE_APP},
    {"/opt", IMAGE_PLACE_HOMES},
    {"/", IMAGE_PLACE_ROOT},
    {"/workspace", IMAGE_PLACE_APP},
    {"/srv", IMAGE_PLACE_APP},
    {"/venv", IMAGE_PLACE_APP},
    {"/root", IMAGE_PLACE_APP},
    {"/home", IMAGE_PLACE_HOMES},
};

bool image_places_speaks_of_ggml(const char *name)
{
    static const char *const words[] = {"ggml",   "llama",   "whisper",         "fugood",
                                        "kobold", "gpt4all", "stable-diffusion"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

static void add(struct image_places *p, const char *dir, const char *name,
                enum image_place_kind kind, int depth)
{
    struct image_place *place = &p->queue[p->n];
    size_t n = strlen(dir);

    if (p->n == PLACES_MAX) {
        p->overflown = true;
        return;
    }
    const char *slash = name[0] == '\0' || (n > 0 && dir[n - 1] == '/') ? "" : "/";
    if ((size_t)snprintf(place->path, sizeof(place->path), "%s%s%s", dir, slash, name) >=
        sizeof(place->path))
        return;
    place->kind = kind;
    place->depth = depth;
    p->n++;
}

struct image_places *image_places_create(char *const *also, size_t n_also)
{
    struct image_places *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    for (size_t i = 0; i < n_also; i++)
        if (also[i][0] == '/' && also[i][1] != '\0')
            add(p, also[i], "", IMAGE_PLACE_APP, 0);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        add(p, known[i].path, "", known[i].kind, 0);
    return p;
}

/* ---- hints: what a compiler left of a path ---------------------------------------- */

struct completion {
    struct image_places *places;
    const char *dir, *begin;
    int n;
};

static int complete(const char *name, unsigned char type, void *user)
{
    struct completion *c = user;

    if (type != DT_DIR || strncmp(name, c->begin, strlen(c->begin)) != 0)
        return 0;
    add(c->places, c->dir, name, IMAGE_PLACE_BIN, DEPTH_HINT);
    return ++c->n == 8;
}

static void follow_hint(struct image_places *p, int root, const char *hint)
{
    char dir[IMAGE_PATH_SIZE];

    snprintf(dir, sizeof(dir), "%s", hint);
    char *slash = strrchr(dir, '/');
    struct completion c = {.places = p, .dir = dir, .begin = hint + (slash - dir) + 1};
    add(p, hint, "", IMAGE_PLACE_BIN, DEPTH_HINT);
    if (slash == dir || *c.begin == '\0')
        return;
    *slash = '\0';
    cleanup_fd int fd = image_rootfs_openat(root, dir, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0)
        (void)image_rootfs_each(fd, complete, &c);
}

void image_places_add_hint(struct image_places *p, const char *path)
{
    for (size_t i = 0; i < p->n_hints; i++)
        if (strcmp(p->hints[i], path) == 0)
            return;
    if (p->n_hints < HINTS_MAX)
        snprintf(p->hints[p->n_hints++], sizeof(p->hints[0]), "%s", path);
}

bool image_places_next(struct image_places *p, int root, struct image_place *ret)
{
    while (p->next_hint < p->n_hints)
        follow_hint(p, root, p->hints[p->next_hint++]);
    if (p->next == p->n)
        return false;
    *ret = p->queue[p->next++];
    return true;
}

/* ---- sub-folders ------------------------------------------------------------------ */

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* What an application's folder may have below; IMAGE_PLACE_ROOT: not to be entered. */
static enum image_place_kind below_app(const char *name)
{
    static const char *const libs[] = {"lib", "lib64", "libexec", "backends", NULL};
    static const char *const apps[] = {"app",    "build", "dist", "release", "Release", "venv",
                                       ".venv",  "env",   ".env", "server",  "src",     "node",
                                       ".local", "conda", "out",  "install", NULL};

    if (strcmp(name, "node_modules") == 0)
        return IMAGE_PLACE_PACKAGES;
    if (image_places_speaks_of_ggml(name))
        return IMAGE_PLACE_TREE;
    if (strcmp(name, "bin") == 0)
        return IMAGE_PLACE_APP;
    if (is_one_of(name, libs))
        return IMAGE_PLACE_LIB;
    return is_one_of(name, apps) ? IMAGE_PLACE_APP : IMAGE_PLACE_ROOT;
}

static enum image_place_kind below_lib(const char *name)
{
    if (strcmp(name, "node_modules") == 0 || strcmp(name, "site-packages") == 0 ||
        strcmp(name, "dist-packages") == 0)
        return IMAGE_PLACE_PACKAGES;
    if (begins(name, "python3"))
        return IMAGE_PLACE_LIB;
    if (image_places_speaks_of_ggml(name) || begins(name, "backends"))
        return IMAGE_PLACE_TREE;
    return IMAGE_PLACE_ROOT;
}

/* A scope ("@vendor"), and where pnpm, yarn and bun keep what node_modules has links to. */
static bool has_packages(const char *name)
{
    static const char *const stores[] = {".pnpm", ".store", ".bun", NULL};

    return name[0] == '@' || is_one_of(name, stores);
}

/*
 * What a package of another name brings in its own node_modules. It is looked for at once: of a
 * thousand packages few have one.
 */
static void add_brought(struct image_places *p, const struct image_place *in, int dir,
                        const char *name)
{
    static const char modules[] = "node_modules";
    char path[IMAGE_PATH_SIZE];
    cleanup_fd int package = image_rootfs_open_child(dir, name, O_PATH | O_DIRECTORY, 0);

    if (package < 0)
        return;
    cleanup_fd int brought = image_rootfs_open_child(package, modules, O_PATH | O_DIRECTORY, 0);
    if (brought >= 0 && (size_t)snprintf(path, sizeof(path), "%s/%s", name, modules) < sizeof(path))
        add(p, in->path, path, IMAGE_PLACE_PACKAGES, in->depth + 1);
}

void image_places_enter(struct image_places *p, const struct image_place *in, int dir,
                        const char *name)
{
    static const char *const never[] = {"proc", "sys",   "dev",     "models", ".git",
                                        "docs", "tests", "include", "share",  NULL};
    enum image_place_kind kind = IMAGE_PLACE_ROOT;
    int depth = in->depth + 1;

    if (in->depth >= DEPTH_MAX || is_one_of(name, never))
        return;
    switch (in->kind) {
    case IMAGE_PLACE_BIN:
        break;
    case IMAGE_PLACE_ROOT:
        kind = image_places_speaks_of_ggml(name) ? IMAGE_PLACE_APP : IMAGE_PLACE_ROOT;
        break;
    case IMAGE_PLACE_HOMES:
        kind = IMAGE_PLACE_APP;
        break;
    case IMAGE_PLACE_APP:
        kind = below_app(name);
        break;
    case IMAGE_PLACE_LIB:
        kind = below_lib(name);
        break;
    case IMAGE_PLACE_PACKAGES:
        if (image_places_speaks_of_ggml(name)) {
            kind = IMAGE_PLACE_TREE;
            depth = 0; /* however deep it lies itself */
        } else if (has_packages(name)) {
            kind = IMAGE_PLACE_PACKAGES;
        } else {
            add_brought(p, in, dir, name);
        }
        break;
    case IMAGE_PLACE_TREE:
        kind = IMAGE_PLACE_TREE;
        break;
    }
    if (kind != IMAGE_PLACE_ROOT)
        add(p, in->path, name, kind, depth);
}

void image_places_add_link(struct image_places *p, const struct image_place *in, const char *folder)
{
    if (in->depth >= DEPTH_MAX)
        return;
    if (folder[0] == '/')
        add(p, folder, "", IMAGE_PLACE_APP, DEPTH_HINT);
    else
        add(p, in->path, folder, IMAGE_PLACE_APP, DEPTH_HINT);
}

bool image_places_first_time(struct image_places *p, dev_t dev, ino_t ino)
{
    for (size_t i = 0; i < p->n_seen; i++)
        if (p->seen[i].dev == dev && p->seen[i].ino == ino)
            return false;
    if (p->n_seen == PLACES_MAX)
        return false;
    p->seen[p->n_seen].dev = dev;
    p->seen[p->n_seen++].ino = ino;
    return true;
}

bool image_places_overflown(const struct image_places *p)
{
    return p->overflown;
}

bool image_places_any_program(const struct image_place *place)
{
    return place->kind == IMAGE_PLACE_APP || place->kind == IMAGE_PLACE_TREE;
}
