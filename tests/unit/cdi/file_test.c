/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "cdi/file.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "tests/lib/folder.h"

static const char *in(const char *name)
{
    static char paths[4][128];
    static unsigned i;
    char *path = paths[i++ % 4];

    snprintf(path, 128, "%s/%s", unit_folder, name);
    return path;
}

static void make(const char *name, const char *text, mode_t mode)
{
    FILE *f = fopen(in(name), "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(in(name), mode), 0);
}

FOLDER_TEST(a_written_file_keeps_mode_and_owner)
{
    struct stat st;
    cleanup_free char *text = NULL;

    make("conf", "old", 0640);
    /* Only root may give files away; others keep their own. */
    if (geteuid() == 0)
        assert_int_equal(chown(in("conf"), 12, 34), 0);
    assert_int_equal(cdi_file_write(in("conf"), "new\n", NULL), 0);
    assert_int_equal(stat(in("conf"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    if (geteuid() == 0)
        assert_true(st.st_uid == 12 && st.st_gid == 34);
    assert_int_equal(cdi_file_read(in("conf"), &text, NULL, NULL), 0);
    assert_string_equal(text, "new\n");
    assert_int_equal(folder_entries(unit_folder), 1);
}

FOLDER_TEST(a_written_file_keeps_its_access_list_and_attributes)
{
    /* u::rw-,u:1234:r--,g::r--,m::r--,o::--- as the kernel has it. */
    static const unsigned char list[] = {
        2, 0,    0,    0,    0x01, 0,    6,    0, 0xff, 0xff, 0xff, 0xff, 0x02, 0,    4,
        0, 0xd2, 4,    0,    0,    0x04, 0,    4, 0,    0xff, 0xff, 0xff, 0xff, 0x10, 0,
        4, 0,    0xff, 0xff, 0xff, 0xff, 0x20, 0, 0,    0,    0xff, 0xff, 0xff, 0xff};
    static const char access_list[] = "system.posix_acl_access";
    static const struct {
        const char *name;
        const void *value;
        size_t size;
    } kept[] = {{access_list, list, sizeof(list)}, {"user.apir", "x\0y", 3}};
    char value[64];
    struct stat st;

    make("conf", "old", 0640);
    for (size_t i = 0; i < 2; i++)
        if (setxattr(in("conf"), kept[i].name, kept[i].value, kept[i].size, 0) < 0) {
            /* Not on every file system: then there is nothing to be kept. */
            assert_int_equal(errno, ENOTSUP);
            skip();
        }
    assert_int_equal(cdi_file_write(in("conf"), "new\n", NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(getxattr(in("conf"), kept[i].name, value, sizeof(value)), kept[i].size);
        assert_memory_equal(value, kept[i].value, kept[i].size);
    }
    assert_int_equal(stat(in("conf"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

FOLDER_TEST(a_new_file_gets_its_folders)
{
    struct stat st;

    mode_t mask = umask(077);
    assert_int_equal(cdi_file_write(in("a/b/conf"), "x", NULL), 0);
    umask(mask);
    assert_int_equal(stat(in("a/b/conf"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
}

FOLDER_TEST(a_link_is_neither_read_nor_replaced)
{
    struct apir_error err = {0};
    struct stat st;
    cleanup_free char *text = NULL;

    make("target", "precious", 0600);
    assert_int_equal(symlink("target", in("link")), 0);
    assert_int_equal(cdi_file_read(in("link"), &text, NULL, &err), -ELOOP);
    assert_null(text);
    assert_non_null(strstr(err.msg, "symbolic link"));
    assert_int_equal(cdi_file_write(in("link"), "gone", &err), -ELOOP);
    assert_int_equal(lstat(in("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(cdi_file_load(in("link"), &text, NULL), 0);
    assert_string_equal(text, "precious");
    assert_int_equal(folder_entries(unit_folder), 2);
}

FOLDER_TEST(what_is_no_plain_text_is_an_error)
{
    struct apir_error err = {0};
    char *text = NULL;
    cleanup_free char *big = malloc(CDI_FILE_SIZE_MAX + 2);

    assert_int_equal(mkfifo(in("fifo"), 0600), 0);
    assert_int_equal(cdi_file_read(in("fifo"), &text, NULL, &err), -EINVAL);
    assert_int_equal(cdi_file_read(unit_folder, &text, NULL, &err), -EINVAL);
    int fd = open(in("nul"), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "a\0b", 3), 3);
    close(fd);
    assert_int_equal(cdi_file_read(in("nul"), &text, NULL, &err), -EBADMSG);
    assert_non_null(big);
    memset(big, 'x', CDI_FILE_SIZE_MAX + 1);
    big[CDI_FILE_SIZE_MAX + 1] = '\0';
    make("big", big, 0600);
    assert_int_equal(cdi_file_read(in("big"), &text, NULL, &err), -EFBIG);
    assert_int_equal(cdi_file_read(in("absent"), &text, NULL, NULL), 0);
    assert_int_equal(cdi_file_read(in("no/folder"), &text, NULL, NULL), 0);
    assert_null(text);
}

FOLDER_TEST(what_cannot_be_written_leaves_nothing_behind)
{
    struct apir_error err = {0};

    assert_int_equal(mkdir(in("conf"), 0700), 0);
    assert_int_equal(cdi_file_write(in("conf"), "x", &err), -EINVAL);
    assert_int_equal(cdi_file_write("relative", "x", &err), -EINVAL);
    assert_int_equal(folder_entries(unit_folder), 1);
    make("file", "x", 0600);
    assert_int_equal(cdi_file_write(in("file/conf"), "x", &err), -ENOTDIR);
    assert_int_equal(cdi_file_remove(in("file"), &err), 0);
    assert_int_equal(cdi_file_remove(in("file"), &err), 0);
    assert_int_equal(cdi_file_remove(in("no/folder"), &err), 0);
    assert_int_equal(folder_entries(unit_folder), 1);
}

static int write_in(const char *path)
{
    return cdi_file_write(path, "x", NULL);
}

static int replace_in(const char *path)
{
    return cdi_file_replace(path, "x", 0600, 0700, NULL);
}

static int remove_in(const char *path)
{
    return cdi_file_remove(path, NULL);
}

static int read_in(const char *path)
{
    cleanup_free char *text = NULL;
    return cdi_file_read(path, &text, NULL, NULL);
}

/* A user's folder, and a link of that user's, lead root nowhere but to what is that user's. */
FOLDER_TEST(a_users_links_are_not_followed_out_of_what_is_the_users)
{
    static int (*const ways[])(const char *) = {write_in, replace_in, remove_in, read_in};
    static const char *const refused[] = {
        "theirs/link/conf",     "theirs/absolute/conf", "theirs/link/new/conf", "theirs/up/conf",
        "theirs/root/new/conf", "theirs/far/conf",      "theirs/twice/conf",    "sticky/link/conf",
    };
    struct stat st;

    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(in("ours"), 0755), 0);
    make("ours/conf", "precious", 0600);
    assert_int_equal(mkdir(in("theirs"), 0755), 0);
    assert_int_equal(mkdir(in("sticky"), 01777), 0);
    assert_int_equal(mkdir(in("theirs/own"), 0755), 0);
    assert_int_equal(symlink("../ours", in("theirs/link")), 0);
    assert_int_equal(symlink(in("ours"), in("theirs/absolute")), 0);
    assert_int_equal(symlink("..", in("theirs/up")), 0);
    assert_int_equal(symlink("/", in("theirs/root")), 0);
    assert_int_equal(symlink("own/../../ours", in("theirs/far")), 0);
    assert_int_equal(symlink("inside/../link//", in("theirs/twice")), 0);
    assert_int_equal(symlink("own//", in("theirs/inside")), 0);
    assert_int_equal(symlink(in("theirs/own"), in("theirs/home")), 0);
    assert_int_equal(symlink("../ours", in("sticky/link")), 0);
    assert_int_equal(symlink("ours", in("of_root")), 0);
    static const char *const given[] = {"theirs",          "theirs/own",   "theirs/link",
                                        "theirs/absolute", "theirs/up",    "theirs/root",
                                        "theirs/far",      "theirs/twice", "theirs/inside",
                                        "theirs/home",     "sticky/link"};
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
        assert_int_equal(lchown(in(given[i]), 4321, 4321), 0);

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++)
            assert_int_equal(ways[k](in(refused[i])), -EPERM);
    assert_int_equal(stat(in("ours/conf"), &st), 0);
    assert_int_equal(st.st_size, strlen("precious"));
    assert_int_equal(folder_entries(in("ours")), 1);
    /* What is the user's is the user's to move, and root's own links are as good as folders. */
    for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++) {
        assert_int_equal(ways[k](in("theirs/inside/conf")), 0);
        assert_int_equal(ways[k](in("theirs/own/conf")), 0);
        assert_int_equal(ways[k](in("theirs/home/conf")), 0);
        assert_int_equal(ways[k](in("of_root/conf")), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(replace_in(in("theirs/inside//new/conf")), 0);
    assert_int_equal(stat(in("theirs/own/new"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

TEST(changes_are_shown_with_what_is_around_them)
{
    static const struct {
        const char *before, *after, *shown;
    } cases[] = {
        {NULL, "a\nb\n", "--- /dev/null\n+++ F\n+a\n+b\n"},
        {"a\n", NULL, "--- F\n+++ /dev/null\n-a\n"},
        {"1\n2\n3\n4\nx\n5\n6\n7\n8\n", "1\n2\n3\n4\ny\nz\n5\n6\n7\n8\n",
         "--- F\n+++ F\n 2\n 3\n 4\n-x\n+y\n+z\n 5\n 6\n 7\n"},
        {"a\nb", "a\nb\nc\n", "--- F\n+++ F\n a\n-b\n+b\n+c\n"},
        {"a\na\n", "a\n", "--- F\n+++ F\n a\n-a\n"},
        {"a\n", "a\n", "--- F\n+++ F\n a\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *shown = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&shown, &size);

        assert_non_null(out);
        cdi_file_print_change(out, "F", cases[i].before, cases[i].after);
        fclose(out);
        assert_string_equal(shown, cases[i].shown);
        free(shown);
    }
}
