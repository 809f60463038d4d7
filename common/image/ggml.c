/* SPDX-License-Identifier: Apache-2.0 */
#include "common/image/ggml.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <string.h>

/* Read by ggml's loader since it exists (November 2024), and by nothing else. */
#define MARKER "GGML_BACKEND_PATH"

#define HINT_MIN      8
#define SHARED_MAX    (8u << 20) /* libggml has but the registry in it: tens of KiB */
#define FUNCTIONS_MAX 32

static const struct {
    const char *name, *file;
} slots[IMAGE_SLOTS] = {
    [IMAGE_SLOT_METAL] = {"metal", "libggml-metal.so"},
    [IMAGE_SLOT_SYCL] = {"sycl", "libggml-sycl.so"},
    [IMAGE_SLOT_VIRTGPU] = {"virtgpu", "libggml-virtgpu.so"},
};

const char *const image_ggml_functions[] = {
    "ggml_backend_buffer_init",
    "ggml_op_name",
    "ggml_unary_op_name",
    "ggml_nbytes",
    "ggml_backend_buft_get_alignment",
    "ggml_backend_buft_get_alloc_size",
    "ggml_backend_buft_is_host",
    "ggml_backend_buft_get_device",
    "ggml_backend_buffer_get_type",
    "ggml_backend_buffer_clear",
    "ggml_backend_buffer_reset",
    "ggml_backend_synchronize",
    "ggml_backend_graph_compute_async",
    "ggml_backend_get_device",
    "ggml_backend_dev_get_props",
    NULL,
};

_Static_assert(sizeof(image_ggml_functions) / sizeof(image_ggml_functions[0]) <= FUNCTIONS_MAX,
               "one bit each");

const char *image_slot_file(enum image_slot slot)
{
    return slots[slot].file;
}

const char *image_slot_name(enum image_slot slot)
{
    return slots[slot].name;
}

uint32_t image_ggml_functions_all(void)
{
    return (1u << (sizeof(image_ggml_functions) / sizeof(image_ggml_functions[0]) - 1)) - 1;
}

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* ---- what it links with ---------------------------------------------------------- */

static int look_at_needed(const struct image_elf *elf, struct image_ggml_file *f)
{
    static const char *const families[] = {"libggml", "libllama", "libwhisper", "libmtmd",
                                           "libstable-diffusion"};
    char name[96];

    for (size_t i = 0; i < elf->n_needed; i++) {
        int rc = image_elf_needed(elf, i, name, sizeof(name));

        if (rc < 0)
            return rc;
        for (size_t k = 0; k < sizeof(families) / sizeof(families[0]); k++)
            f->links = f->links || starts(name, families[k]);
        f->links_base = f->links_base || starts(name, "libggml-base");
        f->links_cpu = f->links_cpu || starts(name, "libggml-cpu");
        f->musl = f->musl || starts(name, "libc.musl-") || strcmp(name, "libc.so") == 0;
    }
    return 0;
}

static int look_at_symbol(const char *name, bool defined, void *user)
{
    struct image_ggml_file *f = user;

    if (!starts(name, "ggml_"))
        return 0;
    if (strcmp(name, "ggml_backend_load_all") == 0 ||
        strcmp(name, "ggml_backend_load_all_from_path") == 0) {
        f->registry = f->registry || defined;
        f->calls = f->calls || !defined;
    }
    f->cpu = f->cpu || (defined && strcmp(name, "ggml_backend_cpu_reg") == 0);
    f->module = f->module || (defined && strcmp(name, "ggml_backend_init") == 0);
    for (size_t i = 0; defined && image_ggml_functions[i]; i++)
        if (strcmp(name, image_ggml_functions[i]) == 0)
            f->functions |= 1u << i;
    return 0;
}

/* ---- what it holds --------------------------------------------------------------- */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The string with its NUL, and not as the end of a longer word. */
static bool holds_word(const char *data, size_t size, const char *word)
{
    size_t length = strlen(word) + 1;

    for (const char *at = data; (at = memmem(at, size - (size_t)(at - data), word, length)); at++)
        if (at == data || !is_word(at[-1]))
            return true;
    return false;
}

static bool is_path_char(char c)
{
    return is_word(c) || (c != '\0' && strchr("/.-+@:~", c));
}

static void add_hint(struct image_ggml_file *f, const char *path, size_t size)
{
    static const char *const never[] = {"/proc/", "/sys/", "/dev/", "/tmp/", "/etc/"};
    char *hint = f->hints[f->n_hints];

    if (size < HINT_MIN || size >= IMAGE_HINT_SIZE || f->n_hints == IMAGE_HINTS_MAX)
        return;
    memcpy(hint, path, size);
    hint[size] = '\0';
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        if (starts(hint, never[i]))
            return;
    for (size_t i = 0; i < f->n_hints; i++)
        if (strcmp(f->hints[i], hint) == 0)
            return;
    f->n_hints++;
}

/*
 * A path may stand behind a NUL like any string, or at the start of a 16-byte
 * constant with another constant before it.
 */
static void find_hints(struct image_ggml_file *f, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (data[i] != '/' || (i > 0 && is_path_char(data[i - 1]) && i % 16 != 0))
            continue;
        size_t end = i;
        while (end < size && is_path_char(data[end]))
            end++;
        add_hint(f, data + i, end - i);
        i = end;
    }
}

struct contents {
    struct image_ggml_file *file;
    bool hints;
};

static int look_at_contents(const char *data, size_t size, void *user)
{
    const struct contents *c = user;
    struct image_ggml_file *f = c->file;

    f->loader = f->loader || holds_word(data, size, MARKER);
    for (size_t i = 0; i < IMAGE_SLOTS; i++)
        if ((f->slots & (1u << i)) == 0 && holds_word(data, size, slots[i].name))
            f->slots |= 1u << i;
    if (c->hints)
        find_hints(f, data, size);
    /* Without hints to look for, all may be known before the end. */
    return !c->hints && f->loader && f->slots == (1u << IMAGE_SLOTS) - 1;
}

int image_ggml_look(int fd, enum image_depth depth, struct image_budget *budget,
                    struct image_ggml_file *ret)
{
    struct image_elf elf;

    memset(ret, 0, sizeof(*ret));
    int rc = image_elf_open(fd, budget, &elf);
    if (rc < 0)
        return rc;
    ret->machine = elf.machine;
    ret->wide = elf.wide;
    if (!elf.wide || (elf.type != ET_EXEC && elf.type != ET_DYN))
        return elf.wide ? -ENOEXEC : 0;
    ret->program = elf.interp[0] != '\0' || elf.type == ET_EXEC || elf.pie;
    ret->dynamic = elf.interp[0] != '\0' || (elf.dynamic && !ret->program);
    ret->musl = strstr(elf.interp, "ld-musl");
    rc = look_at_needed(&elf, ret);
    if (rc < 0)
        return rc;
    if (ret->links || depth >= IMAGE_SYMBOLS) {
        rc = image_elf_symbols(&elf, look_at_symbol, ret);
        if (rc < 0 && rc != -ENOEXEC && rc != -E2BIG)
            return rc;
    }
    ret->loader = ret->registry;
    /* What links with ggml's own libraries has no loader but an exported one. */
    if (!ret->registry && (depth < IMAGE_BYTES || ret->links))
        return 0;
    struct contents c = {.file = ret, .hints = ret->links_base && elf.size <= SHARED_MAX};
    rc = image_elf_contents(&elf, false, look_at_contents, &c);
    /* Linked without -z separate-code, constants are in the segment of the code. */
    if (rc == 0 && (c.hints || !ret->loader))
        rc = image_elf_contents(&elf, true, look_at_contents, &c);
    return rc < 0 ? rc : 0;
}

/* ---- a path in it ---------------------------------------------------------------- */

#define PIECE      8
#define PIECES_MAX 32

struct pieces {
    const char *path;
    size_t length, n;
    uint64_t found; /* a bit for each piece; the last one may overlap */
};

static int look_for_pieces(const char *data, size_t size, void *user)
{
    struct pieces *p = user;

    for (size_t i = 0; i < p->n; i++) {
        size_t at = i * PIECE;
        size_t length = p->length - at < PIECE ? p->length - at : PIECE;

        if ((p->found & (1ull << i)) == 0 && memmem(data, size, p->path + at, length))
            p->found |= 1ull << i;
    }
    return 0;
}

bool image_ggml_has_path(int fd, const char *path, struct image_budget *budget)
{
    struct pieces p = {.path = path, .length = strlen(path)};
    struct image_elf elf;

    p.n = (p.length + PIECE - 1) / PIECE;
    if (p.length < PIECE || p.n > PIECES_MAX || image_elf_open(fd, budget, &elf) < 0 ||
        elf.size > SHARED_MAX)
        return false;
    if (image_elf_contents(&elf, false, look_for_pieces, &p) < 0 ||
        image_elf_contents(&elf, true, look_for_pieces, &p) < 0)
        return false;
    return p.found == (1ull << p.n) - 1;
}
