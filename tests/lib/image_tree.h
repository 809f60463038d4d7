/* SPDX-License-Identifier: Apache-2.0 */
/* A throw-away folder that plays a container's root. For tests only. */
#ifndef APIR_TEST_HOOK_TREE_H
#define APIR_TEST_HOOK_TREE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/folder.h"

struct tree {
    char dir[64];
    int root;
};

static inline void tree_path(const struct tree *t, const char *path, char *full, size_t size)
{
    snprintf(full, size, "%s%s", t->dir, path);
}

static inline void tree_parents(const struct tree *t, const char *path)
{
    char full[512];

    tree_path(t, path, full, sizeof(full));
    for (char *p = full + strlen(t->dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        (void)mkdir(full, 0755);
        *p = '/';
    }
}

static inline void tree_file(const struct tree *t, const char *path, const char *text, size_t size)
{
    char full[512];

    tree_parents(t, path);
    tree_path(t, path, full, sizeof(full));
    FILE *f = fopen(full, "we");
    if (!f || fwrite(text, 1, size, f) != size || fclose(f) != 0)
        abort();
}

static inline void tree_link(const struct tree *t, const char *path, const char *target)
{
    char full[512];

    tree_parents(t, path);
    tree_path(t, path, full, sizeof(full));
    if (symlink(target, full) != 0)
        abort();
}

static inline void tree_init(struct tree *t)
{
    strcpy(t->dir, "/tmp/hook_test.XXXXXX");
    if (!mkdtemp(t->dir))
        abort();
    t->root = open(t->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static inline void tree_fini(struct tree *t)
{
    close(t->root);
    (void)folder_remove(t->dir);
}

/* A test (unit.h) with a tree of its own, t. */
#define TREE_TEST(name)                                                                            \
    static void name##_in(struct tree *t);                                                         \
    TEST(name)                                                                                     \
    {                                                                                              \
        struct tree t;                                                                             \
        tree_init(&t);                                                                             \
        name##_in(&t);                                                                             \
        tree_fini(&t);                                                                             \
    }                                                                                              \
    static void name##_in(struct tree *t)

#endif
