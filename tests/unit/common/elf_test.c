/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "common/image/elf.h"
#include "common/image/ggml.h"
#include "tests/lib/clock.h"
#include "tests/lib/elf_write.h"
#include "tests/lib/unit.h"

static const char *const functions[] = {"first", "second", "third", NULL};

static struct elf_spec sample(bool gnu_hash)
{
    return (struct elf_spec){
        .machine = EM_X86_64,
        .type = ET_DYN,
        .interp = "/lib64/ld-linux-x86-64.so.2",
        .needed = {"libggml.so.0", "libc.so.6"},
        .defined = functions,
        .undefined = {"wanted", "also_wanted"},
        .data = "\0constant",
        .data_size = 10,
        .gnu_hash = gnu_hash,
    };
}

static int file_of(const void *data, size_t size)
{
    int fd = memfd_create("elf", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    return fd;
}

/* The sample, and a file of it. */
static int sample_file(bool gnu_hash, struct elf_out *out)
{
    const struct elf_spec spec = sample(gnu_hash);

    elf_write(&spec, out);
    return file_of(out->bytes, out->n);
}

static struct image_budget plenty(void)
{
    return (struct image_budget){.bytes = 64u << 20};
}

struct seen {
    int defined, undefined;
    char names[256];
};

static int note(const char *name, bool defined, void *user)
{
    struct seen *seen = user;

    *(defined ? &seen->defined : &seen->undefined) += 1;
    size_t n = strlen(seen->names);
    if (n + strlen(name) + 2 <= sizeof(seen->names))
        sprintf(seen->names + n, "%s ", name);
    return 0;
}

TEST(reads_what_a_linker_wrote)
{
    for (int gnu = 0; gnu < 2; gnu++) {
        struct image_budget budget = plenty();
        struct seen seen = {0};
        struct image_elf elf;
        struct elf_out out;
        char name[32];

        int fd = sample_file(gnu, &out);
        assert_int_equal(image_elf_open(fd, &budget, &elf), 0);
        assert_int_equal(elf.machine, EM_X86_64);
        assert_true(elf.wide && elf.dynamic && !elf.pie);
        assert_string_equal(elf.interp, "/lib64/ld-linux-x86-64.so.2");
        assert_int_equal(elf.n_needed, 2);
        assert_int_equal(image_elf_needed(&elf, 0, name, sizeof(name)), 0);
        assert_string_equal(name, "libggml.so.0");
        assert_int_equal(image_elf_needed(&elf, 2, name, sizeof(name)), -EINVAL);
        assert_int_equal(image_elf_symbols(&elf, note, &seen), 0);
        assert_string_equal(seen.names, "wanted also_wanted first second third ");
        assert_int_equal(seen.defined, 3);
        assert_int_equal(seen.undefined, 2);
        close(fd);
    }
}

/* This very program: what a real linker wrote. */
TEST(reads_itself)
{
    struct image_budget budget = plenty();
    struct seen seen = {0};
    struct image_elf elf;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    assert_int_equal(image_elf_open(fd, &budget, &elf), 0);
    assert_true(elf.dynamic && elf.n_needed > 0 && elf.interp[0] == '/');
    assert_int_equal(image_elf_symbols(&elf, note, &seen), 0);
    assert_true(seen.undefined > 3);
    close(fd);
}

static int nothing(const char *data, size_t size, void *user)
{
    /* Under a sanitizer every byte of the window must be there. */
    for (size_t i = 0; i < size; i++)
        *(unsigned *)user += (unsigned char)data[i];
    return 0;
}

/* A sparse file may be as large as it likes: what is read of it is not. */
TEST(a_huge_file_costs_no_more_than_the_budget)
{
    struct elf_spec spec = sample(false);
    struct image_ggml_file file;
    struct elf_out out;

    elf_write(&spec, &out);
    Elf64_Phdr *load = (Elf64_Phdr *)(void *)(out.bytes + sizeof(Elf64_Ehdr));
    load->p_filesz = 1ull << 40;
    int fd = file_of(out.bytes, out.n);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    struct image_budget budget = {.bytes = 1u << 20};
    struct image_elf elf;
    unsigned sum = 0;
    assert_int_equal(image_elf_open(fd, &budget, &elf), 0);
    assert_int_equal(image_elf_contents(&elf, false, nothing, &sum), -ENOBUFS);
    budget = (struct image_budget){.bytes = UINT64_MAX, .deadline_ms = apir_now_ms() + 100};
    const int64_t start = cpu_ms();
    assert_int_equal(image_elf_contents(&elf, false, nothing, &sum), -ENOBUFS);
    assert_true(cpu_ms() - start < 5000);
    budget = (struct image_budget){.bytes = 10};
    assert_int_equal(image_ggml_look(fd, IMAGE_BYTES, &budget, &file), -ENOBUFS);
    close(fd);
}

TEST(other_files_are_none)
{
    static const char script[] =
        "#!/bin/sh\nexec /usr/bin/llama-server; this is longer than a header\n";
    struct image_budget budget = plenty();
    struct image_elf elf;

    const int fds[] = {file_of(script, sizeof(script)), file_of("\177ELF", 4),
                       open("/tmp", O_RDONLY | O_CLOEXEC)};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        assert_int_equal(image_elf_open(fds[i], &budget, &elf), -ENOEXEC);
        close(fds[i]);
    }
}

TEST(machines_of_every_class_and_order_are_told)
{
    struct image_budget budget = plenty();
    struct elf_spec spec = sample(false);
    struct image_ggml_file file;
    struct elf_out out;

    elf_write(&spec, &out);
    out.bytes[EI_CLASS] = ELFCLASS32;
    out.bytes[18] = EM_ARM;
    int fd = file_of(out.bytes, out.n);
    assert_int_equal(image_ggml_look(fd, IMAGE_BYTES, &budget, &file), 0);
    assert_false(file.wide);
    assert_int_equal(file.machine, EM_ARM);
    assert_string_equal(image_elf_machine_name(file.machine), "arm");
    close(fd);
    out.bytes[EI_CLASS] = ELFCLASS64;
    out.bytes[EI_DATA] = ELFDATA2MSB;
    out.bytes[18] = 0;
    out.bytes[19] = EM_S390;
    fd = file_of(out.bytes, out.n);
    assert_int_equal(image_ggml_look(fd, IMAGE_BYTES, &budget, &file), 0);
    assert_false(file.wide);
    assert_int_equal(file.machine, EM_S390);
    close(fd);
}

/* Wherever the string lies, some window has it whole; a longer word is another word. */
TEST(strings_across_windows_are_found)
{
    size_t size = 200000;
    char *data = malloc(size);

    assert_non_null(data);
    for (size_t at = 65280 - 300; at < 65280 + 300; at += 7) {
        struct image_budget budget = plenty();
        struct image_ggml_file file;
        struct elf_spec spec = sample(false);
        struct elf_out out;

        elf_write(&spec, &out);
        memset(data, 'a', size);
        Elf64_Phdr *load = (Elf64_Phdr *)(void *)(out.bytes + sizeof(Elf64_Ehdr));
        load->p_filesz = size;
        memcpy(data, out.bytes, out.n);
        memcpy(data + out.n + at, "\0GGML_BACKEND_PATH\0metal\0xvirtgpu", 34);
        /* Nothing of ggml's is linked: the bytes alone tell. */
        char *name = memmem(data, out.n, "libggml.so.0", 12);
        name[0] = 'x';
        int fd = file_of(data, size);
        assert_int_equal(image_ggml_look(fd, IMAGE_BYTES, &budget, &file), 0);
        assert_true(file.loader);
        assert_int_equal(file.slots, 1u << IMAGE_SLOT_METAL);
        close(fd);
    }
    free(data);
}

/* gcc keeps but "/usr/lib/x86_64-linux-gnu/ggml/b" of it, and the rest in the code. */
TEST(a_path_in_pieces_is_recognised)
{
    static const char data[] = "123456789abcdef/usr/lib/x86_64-linux-gnu/ggml/b\0xxxxackends0yyyy";
    struct image_budget budget = plenty();
    struct elf_spec spec = sample(false);
    struct elf_out out;

    spec.data = data;
    spec.data_size = sizeof(data);
    elf_write(&spec, &out);
    int fd = file_of(out.bytes, out.n);
    assert_true(image_ggml_has_path(fd, "/usr/lib/x86_64-linux-gnu/ggml/backends0", &budget));
    assert_false(image_ggml_has_path(fd, "/usr/lib/x86_64-linux-gnu/ggml/backends1", &budget));
    assert_false(image_ggml_has_path(fd, "/usr/lib/aarch64-linux-gnu/ggml/backends0", &budget));
    assert_false(image_ggml_has_path(fd, "/usr", &budget));
    close(fd);
}
