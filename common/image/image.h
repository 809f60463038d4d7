/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of an image: folders, the ggml in it, and what follows from both:
 * into which folders the plug-in goes, under which names, and why some ggml
 * will not take it. common/image/find.h fills the first half, image_conclude the
 * second; nothing here touches a file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/ggml.h"

/*
 * What there is to be looked at is bounded by its number, so that a machine finds the same however
 * slow it is. Time is for what does not end otherwise: where it is over, nothing is concluded.
 */
#define IMAGE_FIND_BYTES   (256u << 20)
#define IMAGE_FIND_ENTRIES 1000000u /* of all folders */
#define IMAGE_FIND_MS      8000

#define IMAGE_DIRS_MAX  48
#define IMAGE_GGMLS_MAX 16
#define IMAGE_PATH_SIZE 256

struct image_dir {
    int fd;                     /* what is placed goes through this, never through the path again */
    char path[IMAGE_PATH_SIZE]; /* for the log */
    dev_t dev;
    ino_t ino;
    bool modules;       /* backends as files, made to be loaded */
    bool programs;      /* that use a ggml of another file */
    bool launchers;     /* programs with a telling name that use none, unless they open a library */
    bool interpreter;   /* node, python: what loads addons and wheels */
    bool vulkan;        /* libggml-vulkan* */
    char virtgpu[64];   /* libggml-virtgpu.so, or what it is a link to; "": the image has none */
    uint32_t taken;     /* a bit for each image_slot whose file is the image's own */
    uint32_t ours;      /* … is a plug-in of ours, which an earlier start has left */
    uint32_t functions; /* of its libggml-base */
};

enum image_ggml_kind { IMAGE_SHARED, IMAGE_IN_PROGRAM, IMAGE_IN_LIBRARY, IMAGE_IN_ADDON };

enum image_verdict {
    IMAGE_FITS,
    IMAGE_IF_CALLED,  /* fits; whether anything calls its loader cannot be told */
    IMAGE_FOREIGN,    /* another machine than the plug-in's */
    IMAGE_NO_LOADER,  /* cannot load backends at all */
    IMAGE_NOT_LINKED, /* a static program: it cannot load a library */
    IMAGE_HIDES,      /* functions that the plug-in needs are not exported */
    IMAGE_NO_SLOT,    /* its loader knows none of our names */
    IMAGE_NOT_CALLED, /* nothing here calls its loader */
};

struct image_ggml {
    char path[IMAGE_PATH_SIZE];
    size_t dir; /* index of its folder */
    enum image_ggml_kind kind;
    struct image_ggml_file file;
    enum image_verdict verdict;
    const char *missing; /* with IMAGE_HIDES: the first of them, static */
    bool has_compiled;   /* a folder to search was compiled in … */
    size_t compiled;     /* … this one */
};

struct image_target {
    size_t dir;
    const char *file; /* static, or the folder's own */
    bool over;        /* over the image's own file of this name */
};

struct image {
    struct image_dir dirs[IMAGE_DIRS_MAX];
    size_t n;
    struct image_ggml ggmls[IMAGE_GGMLS_MAX];
    size_t n_ggmls;
    bool launched;  /* some library is what a launcher opens: libllama-server-impl.so */
    bool calls;     /* some program or library calls a loader that is elsewhere */
    bool truncated; /* more folders, files or bytes than are looked at */
    /*
     * The look ended before all was seen that is to be seen: there are no targets, since what is
     * missing could lead to others.
     */
    bool early;
    uint64_t limit_ms, limit_entries; /* image_init sets them */
    /* What the look cost. */
    unsigned files;
    uint64_t bytes, ms;

    /* Concluded: */
    bool vulkan;
    bool virtgpu;
    struct image_target targets[IMAGE_DIRS_MAX * 2];
    size_t n_targets;
};

void image_init(struct image *image);
void image_fini(struct image *image);
#define cleanup_image __attribute__((cleanup(image_fini)))

/* Judges every ggml for a plug-in of this machine (EM_…) and sets the targets. */
void image_conclude(struct image *image, uint16_t machine);

/* Whether it finds the plug-in, once it looks for backends. */
bool image_ggml_fits(const struct image_ggml *ggml);

/* How many of its ggmls fit. */
size_t image_fitting(const struct image *image);

/* "shared library", …; static. */
const char *image_ggml_kind_name(enum image_ggml_kind kind);

/* One sentence on why not, or when, without a full stop, into text. "" for IMAGE_FITS. */
void image_ggml_reason(const struct image_ggml *ggml, uint16_t machine, char *text, size_t size);
