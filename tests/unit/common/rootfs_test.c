/* SPDX-License-Identifier: Apache-2.0 */
#include "common/image/rootfs.h"
#include "tests/lib/clock.h"
#include "tests/lib/image_tree.h"
#include "tests/lib/unit.h"

TREE_TEST(child_is_never_followed)
{
    tree_file(t, "/real", "", 0);
    tree_link(t, "/link", "real");
    tree_link(t, "/dangling", "made");
    static const char *const bad[] = {"../x", "..", "a/b", "/etc"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(image_rootfs_open_child(t->root, bad[i], O_RDONLY, 0), -EINVAL);
    assert_int_equal(image_rootfs_open_child(t->root, "link", O_RDONLY, 0), -ELOOP);
    assert_int_equal(
        image_rootfs_open_child(t->root, "dangling", O_WRONLY | O_CREAT | O_EXCL, 0644), -EEXIST);
    int fd = image_rootfs_open_child(t->root, "real", O_RDONLY, 0);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(fd);
}

TREE_TEST(fifo_does_not_hold)
{
    char full[128];

    tree_path(t, "/fifo", full, sizeof(full));
    assert_int_equal(mkfifo(full, 0644), 0);
    alarm_patiently(5);
    assert_int_equal(image_rootfs_openat(t->root, "/fifo", O_RDONLY, 0), -EINVAL);
    /* Nobody has opened it to read: */
    assert_int_equal(open(full, O_WRONLY | O_NONBLOCK), -1);
    assert_int_equal(errno, ENXIO);
    alarm(0);
}

static int count(const char *name, unsigned char type, void *user)
{
    (void)type;
    assert_true(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
    ++*(int *)user;
    return 0;
}

static int stop_at_once(const char *name, unsigned char type, void *user)
{
    (void)name;
    (void)type;
    ++*(int *)user;
    return 7;
}

TREE_TEST(each_goes_once_over_all)
{
    int n = 0;

    tree_file(t, "/d/a", "", 0);
    tree_file(t, "/d/b", "", 0);
    tree_link(t, "/d/c", "nowhere");
    int dir = image_rootfs_openat(t->root, "/d", O_RDONLY | O_DIRECTORY, 0);
    assert_true(dir >= 0);
    for (int i = 0; i < 2; i++) {
        n = 0;
        assert_int_equal(image_rootfs_each(dir, count, &n), 0);
        assert_int_equal(n, 3);
    }
    n = 0;
    assert_int_equal(image_rootfs_each(dir, stop_at_once, &n), 7);
    assert_int_equal(n, 1);
    close(dir);
}
