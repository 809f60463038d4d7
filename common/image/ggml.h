/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one ELF file tells of ggml: whether it holds ggml's loader of backends,
 * which names that loader knows, whether a plug-in would find the functions that
 * it needs, and where the loader was told to search when it was compiled.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/image/elf.h"

/*
 * Names under which ggml looks for a backend that nothing else on Linux uses, or
 * that is upstream's client of the same device. In ggml's own order; Vulkan comes
 * before the last one.
 */
enum image_slot { IMAGE_SLOT_METAL, IMAGE_SLOT_SYCL, IMAGE_SLOT_VIRTGPU, IMAGE_SLOTS };

/* "libggml-metal.so", …; static. */
const char *image_slot_file(enum image_slot slot);
/* "metal", …; static. */
const char *image_slot_name(enum image_slot slot);

#define IMAGE_HINTS_MAX 12
#define IMAGE_HINT_SIZE 160

struct image_ggml_file {
    uint16_t machine;
    bool wide;          /* 64 bits, little-endian; else nothing below is known */
    bool musl;          /* linked against musl; else glibc, or no C library at all */
    bool program;       /* has an interpreter, or is not dynamic at all */
    bool dynamic;       /* can load libraries */
    bool links;         /* needs libggml, libllama or the like */
    bool links_base;    /* needs libggml-base, so that not all of ggml is in here */
    bool links_cpu;     /* needs libggml-cpu: built without GGML_BACKEND_DL */
    bool calls;         /* calls the loader, which is in another file */
    bool registry;      /* exports the loader */
    bool cpu;           /* exports the CPU backend: that is in here, too */
    bool module;        /* exports ggml_backend_init: a backend to be loaded */
    bool loader;        /* has the loader in it, exported or not */
    uint32_t functions; /* a bit for each of image_ggml_functions that it exports */
    uint32_t slots;     /* a bit for each image_slot that the loader knows */
    /* Beginnings of absolute paths: the compiler may keep but a part in one piece. */
    char hints[IMAGE_HINTS_MAX][IMAGE_HINT_SIZE];
    size_t n_hints;
};

/* What the plug-in calls. NULL-terminated. */
extern const char *const image_ggml_functions[];
/* All of them. */
uint32_t image_ggml_functions_all(void);

/* How far to look where a file does not link with ggml or llama. */
enum image_depth {
    IMAGE_LINKS,   /* not further */
    IMAGE_SYMBOLS, /* whether it exports the loader */
    IMAGE_BYTES,   /* whether the loader is in it, exported or not: its bytes are searched */
};

/*
 * Looks at the file. Returns 0, -ENOEXEC for no (sensible) ELF file, or another
 * -errno; what could be found out until then is in *ret.
 */
int image_ggml_look(int fd, enum image_depth depth, struct image_budget *budget,
                    struct image_ggml_file *ret);

/*
 * Whether path (a folder) was compiled into the file: whole, or in the pieces of
 * eight bytes into which compilers cut the copying of a constant.
 */
bool image_ggml_has_path(int fd, const char *path, struct image_budget *budget);
