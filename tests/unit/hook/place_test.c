/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>

#include <cmocka.h>

#include "hook/place.h"
#include "common/image/rootfs.h"
#include "common/error.h"
#include "tests/lib/image_tree.h"
#include "tests/lib/unit.h"

/* A mount namespace of our own, so that nothing shows outside and all goes with us. */
static int enter_namespace(void **state)
{
    (void)state;
    if (unshare(CLONE_NEWNS) != 0) {
        print_message("[  SKIP  ] no right to make a mount namespace\n");
        return 0;
    }
    *state = (void *)(uintptr_t)1;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

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

static void source_must_be_a_sound_file(void **state)
{
    char full[256];
    struct tree t;

    (void)state;
    tree_init(&t);
    tree_file(&t, "/good", "x", 1);
    tree_file(&t, "/empty", "", 0);
    tree_file(&t, "/loose", "x", 1);
    tree_path(&t, "/loose", full, sizeof(full));
    assert_int_equal(chmod(full, 0666), 0);
    int fd = source_of(&t, "/good");
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(source_of(&t, "/empty"), -EINVAL);
    assert_int_equal(source_of(&t, "/loose"), -EPERM);
    assert_int_equal(source_of(&t, "/none"), -ENOENT);
    assert_int_equal(source_of(&t, ""), -EINVAL);
    assert_int_equal(hook_place_open_source("good", NULL), -EINVAL);
    tree_fini(&t);
}

static void placed_file_is_the_hosts_and_read_only(void **state)
{
    char text[16], full[256];
    struct tree t;

    if (*state == NULL)
        unit_skip("no mounts of its own here");
    tree_init(&t);
    tree_file(&t, "/plugin", "plugin", 6);
    tree_file(&t, "/root/x", "", 0);
    tree_path(&t, "/root", full, sizeof(full));
    int source = source_of(&t, "/plugin");
    int dir = image_rootfs_open(full);
    assert_int_equal(hook_place_is_shared(dir), 0);
    assert_int_equal(hook_place_file(dir, "libggml-metal.so", source, false, NULL), 0);
    content(&t, "/root/libggml-metal.so", text, sizeof(text));
    assert_string_equal(text, "plugin");
    tree_path(&t, "/root/libggml-metal.so", full, sizeof(full));
    assert_int_equal(open(full, O_WRONLY | O_CLOEXEC), -1);
    assert_int_equal(errno, EROFS);
    /* A second hook for the same container finds it done. */
    assert_int_equal(hook_place_file(dir, "libggml-metal.so", source, false, NULL), -EALREADY);
    /* Below the mount there is but an empty file; a restart takes it again. */
    assert_int_equal(umount2(full, MNT_DETACH), 0);
    content(&t, "/root/libggml-metal.so", text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(hook_place_file(dir, "libggml-metal.so", source, false, NULL), 0);
    umount2(full, MNT_DETACH);
    close(source);
    close(dir);
    tree_fini(&t);
}

static void files_of_the_image_are_left_alone(void **state)
{
    static const char *const names[] = {"full", "link", "folder", "fifo"};
    char text[16], full[256];
    struct tree t;

    if (*state == NULL)
        unit_skip("no mounts of its own here");
    tree_init(&t);
    tree_file(&t, "/plugin", "plugin", 6);
    tree_file(&t, "/outside", "", 0);
    tree_file(&t, "/root/full", "image", 5);
    tree_link(&t, "/root/link", "../outside");
    tree_file(&t, "/root/folder/x", "", 0);
    tree_path(&t, "/root/fifo", full, sizeof(full));
    assert_int_equal(mkfifo(full, 0644), 0);
    tree_path(&t, "/root", full, sizeof(full));
    int source = source_of(&t, "/plugin");
    int dir = image_rootfs_open(full);
    for (size_t i = 0; i < 4; i++) {
        struct apir_error err = {0};
        int r = hook_place_file(dir, names[i], source, false, &err);

        if (r != -EEXIST)
            fail_msg("%s: %d (%s)", names[i], r, err.msg);
    }
    content(&t, "/outside", text, sizeof(text));
    assert_string_equal(text, "");
    /* Only the image's own client of the same device is covered, on request. */
    assert_int_equal(hook_place_file(dir, "link", source, true, NULL), -EEXIST);
    assert_int_equal(hook_place_file(dir, "full", source, true, NULL), 0);
    content(&t, "/root/full", text, sizeof(text));
    assert_string_equal(text, "plugin");
    tree_path(&t, "/root/full", full, sizeof(full));
    umount2(full, MNT_DETACH);
    content(&t, "/root/full", text, sizeof(text));
    assert_string_equal(text, "image");
    close(source);
    close(dir);
    tree_fini(&t);
}

static void shared_and_read_only_roots_are_seen(void **state)
{
    char full[256];
    struct tree t;

    if (*state == NULL)
        unit_skip("no mounts of its own here");
    tree_init(&t);
    tree_file(&t, "/plugin", "plugin", 6);
    tree_file(&t, "/root/x", "", 0);
    tree_path(&t, "/root", full, sizeof(full));
    int source = source_of(&t, "/plugin");
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
    tree_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_must_be_a_sound_file),
        cmocka_unit_test(placed_file_is_the_hosts_and_read_only),
        cmocka_unit_test(files_of_the_image_are_left_alone),
        cmocka_unit_test(shared_and_read_only_roots_are_seen),
    };

    return cmocka_run_group_tests_name("place", tests, enter_namespace, NULL);
}
