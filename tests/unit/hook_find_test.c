/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hook/find.h"
#include "tests/unit/hook_tree.h"

#define NEW "\0metal\0virtgpu\0"
#define OLD "\0metal\0vulkan\0xvirtgpux\0"

/*
 * Each image is a list of "path" (a file), "path>target" (a link), "path!" (a
 * libggml that knows the slot virtgpu) or "path?" (one that does not). wants
 * lists the folders that get the plug-in, in any order.
 */
static const struct {
    const char *name;
    const char *files[10];
    const char *slot;
    const char *wants[4];
} images[] = {
    {"debian",
     {"/usr/lib/x86_64-linux-gnu/libggml.so.0.27.0!",
      "/usr/lib/x86_64-linux-gnu/libggml.so.0>libggml.so.0.27.0",
      "/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-cpu-x64.so",
      "/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-cpu-haswell.so", "/usr/bin/llama-bench"},
     "libggml-virtgpu.so",
     {"/usr/lib/x86_64-linux-gnu/ggml/backends0"}},
    {"debian with vulkan",
     {"/usr/lib/aarch64-linux-gnu/libggml.so.0!",
      "/usr/lib/aarch64-linux-gnu/ggml/backends0/libggml-cpu.so",
      "/usr/lib/aarch64-linux-gnu/ggml/backends0/libggml-vulkan.so"},
     "libggml-metal.so",
     {"/usr/lib/aarch64-linux-gnu/ggml/backends0"}},
    {"upstream",
     {"/app/libggml.so!", "/app/libggml-base.so", "/app/libggml-cpu-haswell.so",
      "/app/llama-server"},
     "libggml-virtgpu.so",
     {"/app"}},
    {"before virtgpu",
     {"/app/libggml.so?", "/app/libggml-cpu-haswell.so"},
     "libggml-metal.so",
     {"/app"}},
    {"linked in",
     {"/usr/local/lib/libggml.so.0!", "/usr/local/lib/libggml-cpu.so>libggml-cpu.so.0",
      "/usr/local/lib/libggml-cpu.so.0", "/usr/local/bin/llama-server"},
     "libggml-virtgpu.so",
     {"/usr/local/bin"}},
    {"static", {"/usr/bin/llama-cli"}, "libggml-metal.so", {"/usr/bin"}},
    {"own virtgpu",
     {"/app/libggml.so!", "/app/libggml-cpu.so", "/app/libggml-virtgpu.so?"},
     "libggml-metal.so",
     {"/app"}},
    {"product under /opt",
     {"/opt/llama/lib/libggml.so!", "/opt/llama/lib/libggml-cpu-x64.so",
      "/opt/llama/bin/llama-cli"},
     "libggml-virtgpu.so",
     {"/opt/llama/lib"}},
    {"merged lib",
     {"/usr/lib/libggml-cpu.so", "/lib>usr/lib", "/usr/lib/libggml.so!"},
     "libggml-virtgpu.so",
     {"/usr/lib"}},
    {"one of two old",
     {"/app/libggml.so!", "/app/libggml-cpu.so", "/usr/lib/libggml.so.0?"},
     "libggml-metal.so",
     {"/app"}},
    {"nothing", {"/usr/bin/sh", "/usr/lib/libc.so.6"}, "libggml-metal.so", {NULL}},
};

static void make(const struct tree *t, const char *entry)
{
    char path[256];
    size_t n = strlen(entry);

    snprintf(path, sizeof(path), "%s", entry);
    char *arrow = strchr(path, '>');
    if (arrow != NULL) {
        *arrow = '\0';
        tree_link(t, path, arrow + 1);
    } else if (entry[n - 1] == '!' || entry[n - 1] == '?') {
        path[n - 1] = '\0';
        if (entry[n - 1] == '!')
            tree_file(t, path, NEW, sizeof(NEW));
        else
            tree_file(t, path, OLD, sizeof(OLD));
    } else {
        tree_file(t, path, "x", 1);
    }
}

static void each_image_is_understood(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        cleanup_image struct hook_image image;
        size_t want = 0, got = 0;
        struct tree t;

        hook_image_init(&image);
        tree_init(&t);
        for (size_t k = 0; k < 10 && images[i].files[k] != NULL; k++)
            make(&t, images[i].files[k]);
        assert_int_equal(hook_image_scan(t.root, &image), 0);
        if (strcmp(hook_image_slot(&image), images[i].slot) != 0)
            fail_msg("%s: slot %s", images[i].name, hook_image_slot(&image));
        for (size_t k = 0; k < 4 && images[i].wants[k] != NULL; k++)
            want++;
        for (size_t k = 0; k < image.n; k++) {
            bool listed = false;

            if (!hook_image_wants(&image, &image.dirs[k]))
                continue;
            got++;
            for (size_t m = 0; m < want; m++)
                listed = listed || strcmp(images[i].wants[m], image.dirs[k].path) == 0;
            if (!listed)
                fail_msg("%s: wants %s", images[i].name, image.dirs[k].path);
        }
        if (got != want)
            fail_msg("%s: %zu folders", images[i].name, got);
        tree_fini(&t);
    }
}

static void scan_survives_hostile_trees(void **state)
{
    cleanup_image struct hook_image image;
    char full[128], path[128];
    struct tree t;

    (void)state;
    hook_image_init(&image);
    tree_init(&t);
    tree_link(&t, "/usr", "/");
    tree_link(&t, "/lib", "lib64");
    tree_link(&t, "/lib64", "lib");
    tree_link(&t, "/app", "/../../../../../../etc");
    tree_path(&t, "/opt", full, sizeof(full));
    assert_int_equal(mkfifo(full, 0644), 0);
    tree_file(&t, "/local/lib/libggml-cpu.so", "x", 1);
    tree_path(&t, "/local/lib/libggml.so", full, sizeof(full));
    assert_int_equal(mkfifo(full, 0644), 0);
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof(path), "/local/lib/ggml%d/libggml-cpu.so", i);
        tree_file(&t, path, "", 0);
    }
    alarm(20);
    assert_int_equal(hook_image_scan(t.root, &image), 0);
    alarm(0);
    assert_true(image.truncated);
    assert_int_equal(image.n, HOOK_DIRS_MAX);
    assert_false(image.knows_virtgpu);
    tree_fini(&t);
}

static void string_across_reads_is_found(void **state)
{
    size_t size = 200000;
    char *text = calloc(1, size);

    (void)state;
    assert_non_null(text);
    for (size_t at = 65536 - 10; at <= 65536 + 2; at++) {
        cleanup_image struct hook_image image;
        struct tree t;

        hook_image_init(&image);
        tree_init(&t);
        memset(text, 'a', size);
        memcpy(text + at, "virtgpu", 8);
        tree_file(&t, "/app/libggml.so", text, size);
        assert_int_equal(hook_image_scan(t.root, &image), 0);
        assert_true(image.knows_virtgpu);
        tree_fini(&t);
    }
    free(text);
}

static void empty_placeholder_is_not_the_images(void **state)
{
    cleanup_image struct hook_image image;
    struct tree t;

    (void)state;
    hook_image_init(&image);
    tree_init(&t);
    make(&t, "/app/libggml.so!");
    make(&t, "/app/libggml-cpu.so");
    tree_file(&t, "/app/libggml-virtgpu.so", "", 0);
    assert_int_equal(hook_image_scan(t.root, &image), 0);
    assert_false(image.virtgpu);
    assert_string_equal(hook_image_slot(&image), "libggml-virtgpu.so");
    tree_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_image_is_understood),
        cmocka_unit_test(scan_survives_hostile_trees),
        cmocka_unit_test(string_across_reads_is_found),
        cmocka_unit_test(empty_placeholder_is_not_the_images),
    };

    return cmocka_run_group_tests_name("hook_find", tests, NULL, NULL);
}
