/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the image's ggml looks for backends, told from names in its file system
 * alone. Nothing of the image is executed; of its files only libggml's bytes are
 * searched, bounded, for one string.
 */
#ifndef APIR_HOOK_FIND_H
#define APIR_HOOK_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HOOK_DIRS_MAX 32

struct hook_dir {
    int fd;         /* what is placed goes through this, never through the path again */
    char path[200]; /* for the log */
    dev_t dev;
    ino_t ino;
    bool core;     /* libggml.so*, libggml-base.so* */
    bool modules;  /* libggml-cpu*.so as files: ggml loads its backends from here */
    bool programs; /* llama-*: ggml also searches the program's own folder */
    bool vulkan;   /* libggml-vulkan* */
    bool virtgpu;  /* libggml-virtgpu.so, of the image itself */
    char lib[64];  /* a name of libggml here, "" if none */
};

struct hook_image {
    struct hook_dir dirs[HOOK_DIRS_MAX]; /* those with anything of ggml in them */
    size_t n;
    bool truncated;
    bool vulkan;
    bool virtgpu;
    bool knows_virtgpu; /* every libggml found has a slot of that name */
};

void hook_image_init(struct hook_image *image);
void hook_image_fini(struct hook_image *image);
#define cleanup_image __attribute__((cleanup(hook_image_fini)))

/* Looks through the usual places under root. Returns 0 (also where nothing is found) or -errno. */
int hook_image_scan(int root, struct hook_image *image);

/*
 * The file name under which this image's ggml will load the plug-in: a slot that
 * comes before Vulkan's where Vulkan is there ("metal" exists in every ggml and
 * is free on Linux), else "virtgpu" where that ggml has it. Static string.
 */
const char *hook_image_slot(const struct hook_image *image);

/*
 * Whether the plug-in belongs into this folder: where modules are, or beside
 * programs of an image that has no folder of modules.
 */
bool hook_image_wants(const struct hook_image *image, const struct hook_dir *dir);

#endif
