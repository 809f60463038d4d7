/* SPDX-License-Identifier: Apache-2.0 */
#include "common/image/rootfs.h"
#include "tests/lib/clock.h"
#include "tests/lib/image_tree.h"
#include "tests/lib/unit.h"

/* The content of a file reached as path, or "" */
static int read_at(const struct tree *t, const char *path, char *text, size_t size)
{
    int fd = image_rootfs_openat(t->root, path, O_RDONLY, 0);

    text[0] = '\0';
    if (fd < 0)
        return fd;
    ssize_t n = read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    return 0;
}

TREE_TEST(links_stay_inside)
{
    static const char *const links[][2] = {
        {"/abs", "/usr/file"}, {"/up", "../../../../../../usr/file"},
        {"/rel", "usr/file"},  {"/folder", "/usr"},
        {"/chain", "/abs"},    {"/usr/back", "../abs"},
    };
    static const char *const paths[] = {
        "/usr/file", "usr/file",     "/../usr/file", "/abs",      "/up",
        "/rel",      "/folder/file", "/chain",       "/usr/back", "/usr/../../../usr/file",
    };
    char text[16];

    tree_file(t, "/usr/file", "inside", 6);
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        tree_link(t, links[i][0], links[i][1]);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (read_at(t, paths[i], text, sizeof(text)) != 0 || strcmp(text, "inside") != 0)
            fail_msg("%s: \"%s\"", paths[i], text);
}

TREE_TEST(host_files_are_out_of_reach)
{
    static const char *const targets[] = {"/etc/passwd", "../../../../etc/passwd",
                                          "../../../../../../../../etc/passwd"};
    char text[16];

    tree_file(t, "/usr/x", "", 0);
    for (size_t i = 0; i < 3; i++) {
        char name[16];

        snprintf(name, sizeof(name), "/usr/l%zu", i);
        tree_link(t, name, targets[i]);
        assert_int_equal(read_at(t, name, text, sizeof(text)), -ENOENT);
        assert_int_equal(read_at(t, targets[i], text, sizeof(text)), -ENOENT);
    }
}

TREE_TEST(loops_end)
{
    char text[16];

    tree_link(t, "/a", "/b");
    tree_link(t, "/b", "a");
    tree_link(t, "/self", "self");
    assert_int_equal(read_at(t, "/a", text, sizeof(text)), -ELOOP);
    assert_int_equal(read_at(t, "/self/x", text, sizeof(text)), -ELOOP);
}

TEST(other_mounts_are_refused)
{
    char text[16];
    int root = image_rootfs_open("/");

    assert_true(root >= 0);
    struct tree host = {.root = root};
    assert_int_equal(read_at(&host, "/proc/self/status", text, sizeof(text)), -EXDEV);
    assert_int_equal(read_at(&host, "/proc/self/root/etc/passwd", text, sizeof(text)), -EXDEV);
    close(root);
}

TEST(magic_links_are_refused)
{
    char text[16];
    int proc = image_rootfs_open("/proc");

    assert_true(proc >= 0);
    struct tree t = {.root = proc};
    int rc = read_at(&t, "/self/root/etc/passwd", text, sizeof(text));
    assert_true(rc == -ELOOP || rc == -EXDEV);
    close(proc);
}

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
