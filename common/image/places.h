/* SPDX-License-Identifier: Apache-2.0 */
/* Which folders of an image are looked into, and which of their sub-folders. */
#ifndef APIR_HOOK_PLACES_H
#define APIR_HOOK_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/image/image.h"

enum hook_place_kind {
    HOOK_PLACE_ROOT,     /* "/": only folders with a telling name */
    HOOK_PLACE_HOMES,    /* /home, /opt: each of its folders is an APP */
    HOOK_PLACE_APP,      /* a product: bin, lib, node_modules, a venv, … */
    HOOK_PLACE_BIN,      /* programs with a telling name, nothing below */
    HOOK_PLACE_LIB,      /* libraries; below: ggml's, node's and Python's folders */
    HOOK_PLACE_PACKAGES, /* node_modules, site-packages: those with a telling name */
    HOOK_PLACE_TREE,     /* one such package, all of it */
};

struct hook_place {
    char path[HOOK_PATH_SIZE];
    enum hook_place_kind kind;
    int depth;
};

struct hook_places;

/* free() it. NULL: no memory. */
struct hook_places *hook_places_create(char *const *also, size_t n_also);

/* The next folder to look into; false: there is none. */
bool hook_places_next(struct hook_places *places, int root, struct hook_place *ret);

/* A folder was found in the one being looked into. */
void hook_places_enter(struct hook_places *places, const struct hook_place *in, const char *name);

/* A link in that folder leads into this one, relative to it or absolute. */
void hook_places_add_link(struct hook_places *places, const struct hook_place *in,
                          const char *folder);

/* The beginning of an absolute path, or a whole one, that may be a folder. */
void hook_places_add_hint(struct hook_places *places, const char *path);

/* False if that folder has been here before. */
bool hook_places_first_time(struct hook_places *places, dev_t dev, ino_t ino);

/* Whether there were more than fit. */
bool hook_places_overflown(const struct hook_places *places);

/* Whether a name has "llama" or the like in it. */
bool hook_places_speaks_of_ggml(const char *name);

/* Whether programs of any name are opened here, not only those with a telling one. */
bool hook_places_any_program(const struct hook_place *place);

#endif
