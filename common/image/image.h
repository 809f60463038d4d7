/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of an image: folders, the ggml in it, and what follows from both:
 * into which folders the plug-in goes, under which names, and why some ggml
 * will not take it. common/image/find.h fills the first half, hook_image_conclude the
 * second; nothing here touches a file.
 */
#ifndef APIR_HOOK_IMAGE_H
#define APIR_HOOK_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/ggml.h"

#define HOOK_DIRS_MAX  48
#define HOOK_GGMLS_MAX 16
#define HOOK_PATH_SIZE 256

struct hook_dir {
    int fd;                    /* what is placed goes through this, never through the path again */
    char path[HOOK_PATH_SIZE]; /* for the log */
    dev_t dev;
    ino_t ino;
    bool modules;       /* backends as files, made to be loaded */
    bool programs;      /* that use a ggml of another file */
    bool interpreter;   /* node, python: what loads addons and wheels */
    bool vulkan;        /* libggml-vulkan* */
    char virtgpu[64];   /* libggml-virtgpu.so, or what it is a link to; "": the image has none */
    uint32_t taken;     /* a bit for each hook_slot whose file is the image's own */
    uint32_t functions; /* of its libggml-base */
};

enum hook_ggml_kind { HOOK_SHARED, HOOK_IN_PROGRAM, HOOK_IN_LIBRARY, HOOK_IN_ADDON };

enum hook_verdict {
    HOOK_FITS,
    HOOK_FOREIGN,    /* another machine than the plug-in's */
    HOOK_NO_LOADER,  /* cannot load backends at all */
    HOOK_NOT_LINKED, /* a static program: it cannot load a library */
    HOOK_HIDES,      /* functions that the plug-in needs are not exported */
    HOOK_NO_SLOT,    /* its loader knows none of our names */
    HOOK_NOT_CALLED, /* nothing here calls its loader */
};

struct hook_ggml {
    char path[HOOK_PATH_SIZE];
    size_t dir; /* index of its folder */
    enum hook_ggml_kind kind;
    struct hook_ggml_file file;
    enum hook_verdict verdict;
    const char *missing; /* with HOOK_HIDES: the first of them, static */
    bool has_compiled;   /* a folder to search was compiled in … */
    size_t compiled;     /* … this one */
};

struct hook_target {
    size_t dir;
    const char *file; /* static, or the folder's own */
    bool over;        /* over the image's own file of this name */
};

struct hook_image {
    struct hook_dir dirs[HOOK_DIRS_MAX];
    size_t n;
    struct hook_ggml ggmls[HOOK_GGMLS_MAX];
    size_t n_ggmls;
    bool calls;     /* some program or library calls a loader that is elsewhere */
    bool truncated; /* more folders, files or bytes than are looked at */
    /* What the look cost. */
    unsigned files;
    uint64_t bytes, ms;

    /* Concluded: */
    bool vulkan;
    bool virtgpu;
    struct hook_target targets[HOOK_DIRS_MAX * 2];
    size_t n_targets;
};

void hook_image_init(struct hook_image *image);
void hook_image_fini(struct hook_image *image);
#define cleanup_image __attribute__((cleanup(hook_image_fini)))

/* Judges every ggml for a plug-in of this machine (EM_…) and sets the targets. */
void hook_image_conclude(struct hook_image *image, uint16_t machine);

/* How many of its ggmls will find the plug-in by themselves. */
size_t hook_image_fitting(const struct hook_image *image);

/* "shared library", …; static. */
const char *hook_ggml_kind_name(enum hook_ggml_kind kind);

/* One sentence on why not, without a full stop, into text. "" for HOOK_FITS. */
void hook_ggml_reason(const struct hook_ggml *ggml, uint16_t machine, char *text, size_t size);

#endif
