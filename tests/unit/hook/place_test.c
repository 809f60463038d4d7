/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/place.h"
#include "common/image/rootfs.h"
#include "common/error.h"
#include "tests/lib/elf_write.h"
#include "tests/lib/folder.h"
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

/* What is known as a plug-in of ours, with this in it. */
static void plugin_file(const struct tree *t, const char *path, const char *data)
{
    const struct elf_spec spec = {.machine = EM_X86_64,
                                  .type = ET_DYN,
                                  .soname = "libggml-apir.so",
                                  .data = data,
                                  .data_size = strlen(data)};
    struct elf_out out;

    elf_write(&spec, &out);
    tree_file(t, path, (const char *)out.bytes, out.n);
}

static bool same(const struct tree *t, const char *a, const char *b)
{
    static char one[ELF_WRITE_MAX], other[ELF_WRITE_MAX];
    size_t sizes[2];
    const char *paths[] = {a, b};
    char *into[] = {one, other};

    for (int i = 0; i < 2; i++) {
        char full[256];
        tree_path(t, paths[i], full, sizeof(full));
        FILE *f = fopen(full, "re");
        sizes[i] = f ? fread(into[i], 1, sizeof(one), f) : 0;
        if (f)
            fclose(f);
    }
    return sizes[0] == sizes[1] && memcmp(one, other, sizes[0]) == 0;
}

TREE_TEST(placed_file_is_a_copy_and_the_folders_own)
{
    char full[256];
    struct stat st;

    plugin_file(t, "/plugin", "new");
    tree_file(t, "/root/x", "", 0);
    tree_path(t, "/root", full, sizeof(full));
    int source = source_of(t, "/plugin");
    int dir = image_rootfs_open(full);
    assert_int_equal(hook_place_copy(dir, "libggml-metal.so", source, NULL), 0);
    assert_true(same(t, "/plugin", "/root/libggml-metal.so"));
    /* What a container does with it outlives a start that changes nothing. */
    tree_path(t, "/root/libggml-metal.so", full, sizeof(full));
    assert_int_equal(chmod(full, 0600), 0);
    assert_int_equal(hook_place_copy(dir, "libggml-metal.so", source, NULL), 0);
    assert_int_equal(stat(full, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* One of another version, an empty file, and what a hook that was ended has left. */
    plugin_file(t, "/root/libggml-metal.so", "older and longer");
    tree_file(t, "/root/libggml-sycl.so", "", 0);
    tree_file(t, "/root/.libggml-apir.new", "half of", 7);
    assert_int_equal(hook_place_copy(dir, "libggml-metal.so", source, NULL), 0);
    assert_true(same(t, "/plugin", "/root/libggml-metal.so"));
    assert_int_equal(hook_place_copy(dir, "libggml-sycl.so", source, NULL), 0);
    assert_true(same(t, "/plugin", "/root/libggml-sycl.so"));
    tree_path(t, "/root", full, sizeof(full));
    assert_int_equal(folder_entries(full), 3);
    close(source);
    close(dir);
}

/* Another name of the same file may be one that the image must not write to. */
TREE_TEST(no_file_that_is_there_is_written_to)
{
    char full[256], other[256], text[16];

    plugin_file(t, "/plugin", "new");
    tree_file(t, "/outside", "", 0);
    tree_file(t, "/root/x", "", 0);
    tree_path(t, "/outside", full, sizeof(full));
    tree_path(t, "/root/libggml-metal.so", other, sizeof(other));
    assert_int_equal(link(full, other), 0);
    tree_path(t, "/root/.libggml-apir.new", other, sizeof(other));
    assert_int_equal(link(full, other), 0);
    tree_path(t, "/root", full, sizeof(full));
    int source = source_of(t, "/plugin");
    int dir = image_rootfs_open(full);
    assert_int_equal(hook_place_copy(dir, "libggml-metal.so", source, NULL), 0);
    assert_true(same(t, "/plugin", "/root/libggml-metal.so"));
    content(t, "/outside", text, sizeof(text));
    assert_string_equal(text, "");
    close(source);
    close(dir);
}

TREE_TEST(covered_file_is_the_containers_to_change_and_the_images_own_below)
{
    char text[16], full[256];
    struct stat st;

    skip_unless_mounts_are_own();
    plugin_file(t, "/plugin", "");
    tree_file(t, "/outside", "", 0);
    tree_file(t, "/root/full", "image", 5);
    tree_link(t, "/root/link", "../outside");
    tree_path(t, "/root", full, sizeof(full));
    int source = source_of(t, "/plugin");
    int dir = image_rootfs_open(full);
    assert_int_equal(hook_place_over(dir, "link", source, NULL), -EEXIST);
    assert_int_equal(hook_place_over(dir, "full", source, NULL), 0);
    assert_true(same(t, "/plugin", "/root/full"));
    /* A second hook for the same container finds it done. */
    assert_int_equal(hook_place_over(dir, "full", source, NULL), -EALREADY);
    assert_int_equal(hook_place_copy(dir, "full", source, NULL), -EALREADY);
    assert_int_equal(folder_entries(full), 2);
    tree_path(t, "/root/full", full, sizeof(full));
    assert_int_equal(chown(full, 1234, 1234), 0);
    umount2(full, MNT_DETACH);
    assert_int_equal(stat(full, &st), 0);
    assert_int_equal(st.st_uid, geteuid());
    content(t, "/root/full", text, sizeof(text));
    assert_string_equal(text, "image");
    close(source);
    close(dir);
}
