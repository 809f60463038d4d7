/* SPDX-License-Identifier: Apache-2.0 */
/* Which folders of an image are looked into, and which of their sub-folders. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/image/image.h"

enum image_place_kind {
    IMAGE_PLACE_ROOT,     /* "/": only folders with a telling name */
    IMAGE_PLACE_HOMES,    /* /home, /opt: each of its folders is an APP */
    IMAGE_PLACE_APP,      /* a product: bin, lib, node_modules, a venv, … */
    IMAGE_PLACE_BIN,      /* programs with a telling name, nothing below */
    IMAGE_PLACE_LIB,      /* libraries; below: ggml's, node's and Python's folders */
    IMAGE_PLACE_PACKAGES, /* node_modules, a scope, site-packages: those with a telling name, and
                             the packages that others bring */
    IMAGE_PLACE_TREE,     /* one such package, all of it */
};

struct image_place {
    char path[IMAGE_PATH_SIZE];
    enum image_place_kind kind;
    int depth;
};

struct image_places;

/* also: absolute paths of further folders, looked into as IMAGE_PLACE_APP. free() it. NULL: no
 * memory. */
struct image_places *image_places_create(char *const *also, size_t n_also);

/* The next folder to look into; false: there is none. root: the image's, opened. */
bool image_places_next(struct image_places *places, int root, struct image_place *ret);

/* A folder was found in the one being looked into, which is open as `dir`. */
void image_places_enter(struct image_places *places, const struct image_place *in, int dir,
                        const char *name);

/* A link in that folder leads into this one, relative to it or absolute. */
void image_places_add_link(struct image_places *places, const struct image_place *in,
                           const char *folder);

/* The beginning of an absolute path, or a whole one, that may be a folder. */
void image_places_add_hint(struct image_places *places, const char *path);

/* False if that folder has been here before. */
bool image_places_first_time(struct image_places *places, dev_t dev, ino_t ino);

/* Whether there were more than fit. */
bool image_places_overflown(const struct image_places *places);

/* Whether a name has "llama" or the like in it. */
bool image_places_speaks_of_ggml(const char *name);

/* Whether programs of any name are opened here, not only those with a telling one. */
bool image_places_any_program(const struct image_place *place);
