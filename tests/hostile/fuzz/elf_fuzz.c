/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image's author can do to the hook's reader of ELF files: the input is a
 * file of the image, and all that the hook ever asks about a file is asked.
 */
#include "tests/hostile/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/image/ggml.h"

const char fuzz_corpus[] = "elf";

#define BUDGET (1u << 20)

static int on_symbol(const char *name, bool defined, void *user)
{
    *(size_t *)user += strlen(name);
    return 0;
}

static int on_contents(const char *data, size_t size, void *user)
{
    for (size_t i = 0; i < size; i++)
        *(size_t *)user += (unsigned char)data[i];
    return 0;
}

static void check_elf(int fd, size_t size)
{
    struct image_budget budget = {.bytes = BUDGET};
    struct image_elf elf;
    char name[16];
    size_t sum = 0;

    if (image_elf_open(fd, &budget, &elf) < 0)
        return;
    FUZZ_CHECK(elf.size == size && elf.n_loads <= IMAGE_ELF_LOADS_MAX);
    FUZZ_CHECK(strnlen(elf.interp, sizeof(elf.interp)) < sizeof(elf.interp));
    for (size_t i = 0; i < elf.n_loads; i++)
        FUZZ_CHECK(elf.loads[i].offset < size && elf.loads[i].size <= size - elf.loads[i].offset);
    for (size_t i = 0; i < elf.n_needed; i++) {
        (void)image_elf_needed(&elf, i, name, sizeof(name));
        FUZZ_CHECK(strnlen(name, sizeof(name)) < sizeof(name));
    }
    (void)image_elf_symbols(&elf, on_symbol, &sum);
    (void)image_elf_contents(&elf, false, on_contents, &sum);
    (void)image_elf_contents(&elf, true, on_contents, &sum);
    FUZZ_CHECK(budget.bytes <= BUDGET);
}

static void check_ggml(int fd, enum image_depth depth)
{
    struct image_budget budget = {.bytes = BUDGET};
    struct image_ggml_file file;

    if (image_ggml_look(fd, depth, &budget, &file) < 0)
        return;
    FUZZ_CHECK((file.functions & ~image_ggml_functions_all()) == 0);
    FUZZ_CHECK(file.slots < 1u << IMAGE_SLOTS);
    FUZZ_CHECK(file.n_hints <= IMAGE_HINTS_MAX);
    for (size_t i = 0; i < file.n_hints; i++)
        FUZZ_CHECK(file.hints[i][0] == '/' && strlen(file.hints[i]) < IMAGE_HINT_SIZE);
    FUZZ_CHECK(file.wide || (!file.loader && file.functions == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct image_budget budget = {.bytes = BUDGET};

    if (fd < 0)
        fd = memfd_create("elf", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, data, size, 0) == (ssize_t)size);
    check_elf(fd, size);
    for (enum image_depth depth = IMAGE_LINKS; depth <= IMAGE_BYTES; depth++)
        check_ggml(fd, depth);
    (void)image_ggml_has_path(fd, "/usr/lib/ggml/backends0", &budget);
    return 0;
}
