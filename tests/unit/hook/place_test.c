/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/place.h"
#include "common/image/rootfs.h"
#include "common/error.h"
#include "tests/lib/image_tree.h"
#include "tests/lib/mount_namespace.h"

static int source_of(const struct tree *t, const char *path)
{
    char full[256];

    tree_path(t, path, full, sizeof(full));
    return hook_place_open_source(full, NULL);
}

static void content(const struct tree *t, const char *path, char *text, size_t size)
{
    char full[256];

    tree_path(t, path, full, sizeof(full));
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

TREE_TEST(source_must_be_a_sound_file)
{
    char full[256];

    tree_file(t, "/good", "x", 1);
    tree_file(t, "/empty", "", 0);
    tree_file(t, "/loose", "x", 1);
    tree_path(t, "/loose", full, sizeof(full));
    assert_int_equal(chmod(full, 0666), 0);
    int fd = source_of(t, "/good");
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(source_of(t, "/empty"), -EINVAL);
    assert_int_equal(source_of(t, "/loose"), -EPERM);
    assert_int_equal(source_of(t, "/none"), -ENOENT);
    assert_int_equal(source_of(t, ""), -EINVAL);
    assert_int_equal(hook_place_open_source("good", NULL), -EINVAL);
}

TREE_TEST(placed_file_is_the_hosts_and_read_only)
{
    char text[16], full[256];

    skip_unless_mounts_are_own();
    tree_file(t, "/plugin", "plugin", 6);
    tree_file(t, "/root/x", "", 0);
    tree_path(t, "/root", full, sizeof(full));
    int source = source_of(t, "/plugin");
    int dir = image_rootfs_open(full);
    assert_int_equal(hook_place_is_shared(dir), 0);
    assert_int_equal(hook_place_file(dir, "libggml-metal.so", source, false, NULL), 0);
    content(t, "/root/libggml-metal.so", text, sizeof(text));
    assert_string_equal(text, "plugin");
    tree_path(t, "/root/libggml-metal.so", full, sizeof(full));
    assert_int_equal(open(full, O_WRONLY | O_CLOEXEC), -1);
    assert_int_equal(errno, EROFS);
    /* A second hook for the same container finds it done. */
    assert_int_equal(hook_place_file(dir, "libggml-metal.so", source, false, NULL), -EALREADY);
    /* Below the mount there is but an empty file; a restart takes it again. */
    assert_int_equal(umount2(full, MNT_DETACH), 0);
    content(t, "/root/libggml-metal.so", text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(hook_place_file(dir, "libggml-metal.so", source, false, NULL), 0);
    umount2(full, MNT_DETACH);
    close(source);
    close(dir);
}

TREE_TEST(files_of_the_image_are_left_alone)
{
    static const char *const names[] = {"full", "link", "folder", "fifo"};
    char text[16], full[256];

    skip_unless_mounts_are_own();
    tree_file(t, "/plugin", "plugin", 6);
    tree_file(t, "/outside", "", 0);
    tree_file(t, "/root/full", "image", 5);
    tree_link(t, "/root/link", "../outside");
    tree_file(t, "/root/folder/x", "", 0);
    tree_path(t, "/root/fifo", full, sizeof(full));
    assert_int_equal(mkfifo(full, 0644), 0);
    tree_path(t, "/root", full, sizeof(full));
    int source = source_of(t, "/plugin");
    int dir = image_rootfs_open(full);
    for (size_t i = 0; i < 4; i++) {
        struct apir_error err = {0};
        int rc = hook_place_file(dir, names[i], source, false, &err);

        if (rc != -EEXIST)
            fail_msg("%s: %d (%s)", names[i], rc, err.msg);
    }
    content(t, "/outside", text, sizeof(text));
    assert_string_equal(text, "");
    /* Only the image's own client of the same device is covered, on request. */
    assert_int_equal(hook_place_file(dir, "link", source, true, NULL), -EEXIST);
    assert_int_equal(hook_place_file(dir, "full", source, true, NULL), 0);
    content(t, "/root/full", text, sizeof(text));
    assert_string_equal(text, "plugin");
    tree_path(t, "/root/full", full, sizeof(full));
    umount2(full, MNT_DETACH);
    content(t, "/root/full", text, sizeof(text));
    assert_string_equal(text, "image");
    close(source);
    close(dir);
}

TREE_TEST(shared_and_read_only_roots_are_seen)
{
    char full[256];

    skip_unless_mounts_are_own();
    tree_file(t, "/plugin", "plugin", 6);
    tree_file(t, "/root/x", "", 0);
    tree_path(t, "/root", full, sizeof(full));
    int source = source_of(t, "/plugin");
    assert_int_equal(mount(full, full, NULL, MS_BIND, NULL), 0);
    assert_int_equal(mount(NULL, full, NULL, MS_SHARED, NULL), 0);
    int dir = image_rootfs_open(full);
    assert_int_equal(hook_place_is_shared(dir), 1);
    assert_int_equal(mount(NULL, full, NULL, MS_PRIVATE, NULL), 0);
    assert_int_equal(hook_place_is_shared(dir), 0);
    assert_int_equal(mount(NULL, full, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(hook_place_file(dir, "libggml-metal.so", source, false, NULL), -EROFS);
    close(dir);
    umount2(full, MNT_DETACH);
    close(source);
}
