/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/sysmacros.h>

#include "hook/inject.h"
#include "hook/mounts.h"
#include "common/image/rootfs.h"
#include "tests/lib/image_tree.h"
#include "tests/lib/mount_namespace.h"

/* What an image has in the way: tests/system/hook/rootfs.bats (attacks hook-links, hook-odd-files,
 * hook-bind-mounts). */
#define NODE "/dev/dri/renderD128"

/* A container's root, in a mount namespace of our own that goes with us. */
struct ground {
    struct tree tree;
    struct hook_devices host;
    struct hook_site site;
    int null; /* /dev/null stands for a render node: it is there everywhere */
    dev_t device;
};

static void full_path(const struct ground *g, const char *path, char full[256])
{
    tree_path(&g->tree, path, full, 256);
}

static void ground_init(struct ground *g)
{
    char full[256];
    struct stat st;

    tree_init(&g->tree);
    tree_file(&g->tree, "/root/x", "", 0);
    assert_int_equal(hook_devices_read(&g->host), 0);
    full_path(g, "/root", full);
    g->site.root = image_rootfs_open(full);
    g->site.host = &g->host;
    g->null = open("/dev/null", O_PATH | O_CLOEXEC);
    assert_int_equal(fstat(g->null, &st), 0);
    g->device = st.st_rdev;
}

static void ground_fini(struct ground *g)
{
    char full[256];

    full_path(g, "/root", full);
    close(g->site.root);
    close(g->null);
    hook_devices_fini(&g->host);
    (void)umount2(full, MNT_DETACH);
    tree_fini(&g->tree);
}

#define GROUND_TEST(name)                                                                          \
    static void name##_on(struct ground *g);                                                       \
    TEST(name)                                                                                     \
    {                                                                                              \
        struct ground g = {0};                                                                     \
        skip_unless_mounts_are_own();                                                              \
        ground_init(&g);                                                                           \
        name##_on(&g);                                                                             \
        ground_fini(&g);                                                                           \
    }                                                                                              \
    static void name##_on(struct ground *g)

static int put_node(struct ground *g, const char *path)
{
    int tree = hook_place_detach(g->null, HOOK_NODE);
    assert_true(tree >= 0);
    int rc = hook_inject_mount(&g->site, path, tree, HOOK_NODE, g->device, NULL);
    close(tree);
    return rc;
}

/* The root gets a /dev of its own, as runtimes mount one. */
static void mount_dev(struct ground *g)
{
    char full[256];

    full_path(g, "/root/dev", full);
    (void)mkdir(full, 0755);
    assert_int_equal(mount("tmpfs", full, "tmpfs", 0, "mode=0755"), 0);
}

static void unmount(struct ground *g, const char *path)
{
    char full[256];

    full_path(g, path, full);
    while (umount2(full, MNT_DETACH) == 0)
        ;
}

GROUND_TEST(node_works_and_cannot_be_changed)
{
    struct stat st;
    char full[256];

    mount_dev(g);
    assert_int_equal(put_node(g, NODE), 0);
    full_path(g, "/root" NODE, full);
    assert_int_equal(stat(full, &st), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == g->device);
    int fd = open(full, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    /* It is the host's inode: its mode and owner are not the container's to change. */
    assert_int_equal(chmod(full, st.st_mode & 07777), -1);
    assert_int_equal(errno, EROFS);
    assert_int_equal(chown(full, st.st_uid, st.st_gid), -1);
    assert_int_equal(errno, EROFS);
    /* Asked for again, it is there already. */
    assert_int_equal(put_node(g, NODE), -EALREADY);
    unmount(g, "/root" NODE);
    unmount(g, "/root/dev");
}

GROUND_TEST(node_of_the_engine_is_left_alone)
{
    char full[256];

    mount_dev(g);
    full_path(g, "/root/dev/dri", full);
    assert_int_equal(mkdir(full, 0755), 0);
    full_path(g, "/root" NODE, full);
    assert_int_equal(mknod(full, S_IFCHR | 0600, g->device), 0);
    assert_int_equal(put_node(g, NODE), -EALREADY);
    assert_int_equal(unlink(full), 0);
    assert_int_equal(mknod(full, S_IFCHR | 0600, makedev(1, 5)), 0);
    assert_int_equal(put_node(g, NODE), -EEXIST);
    unmount(g, "/root/dev");
}

GROUND_TEST(paths_that_lead_up_are_refused)
{
    static const char *const bad[] = {"", "/", "//", "/..", "/dev/../x", "/dev/./x", "/dev/.."};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (put_node(g, bad[i]) != -EINVAL)
            fail_msg("taken: %s", bad[i]);
}
