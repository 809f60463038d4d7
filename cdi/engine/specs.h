/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders in which the engines of this machine look for specs, and what becomes of a device
 * that several files there have: of two folders the later one wins, and of two files in one folder
 * neither is taken.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cdi/engine/engine.h"
#include "cdi/engine/toml.h"

/* The usual ones, of every engine. */
#define CDI_SPECS_DIR     "/etc/cdi"
#define CDI_SPECS_DIR_RUN "/var/run/cdi"
/* Adds them. Returns 0 or -errno. */
int cdi_specs_add_usual(struct cdi_strings *dirs);

/* Where this user's own is written: root's in /etc/cdi, a user's in ~/.config/cdi. Into path. */
void cdi_specs_own_path(char *path, size_t size);

/*
 * The folders of all engines, each once: of those of the machine, and of those of the user that
 * runs this, whether they are installed or not. Returns 0 or -errno.
 */
int cdi_specs_all_dirs(struct cdi_strings *ret);

struct cdi_specs_clash {
    const char *name;   /* "VENDOR/CLASS=DEVICE", the first of the two files */
    bool twice;         /* in one folder: engines refuse both; else `file` wins over `other` */
    const char *engine; /* of a user's own, which alone sees it so; NULL: no one's in particular */
    const char *file, *other;
};

/*
 * Calls fn for each two files of these folders that have a device of one name, until it returns
 * non-zero. dirs NULL: for the folders of each engine, a pair once; of a user's own services only
 * where they are installed. only: the pairs with this file alone, which is looked for in its own
 * folder where no engine reads that; NULL: all. Files that engines do not take are left out, and
 * those that are no JSON. Returns fn's last result, or -errno.
 */
int cdi_specs_check(const struct cdi_strings *dirs, const char *only,
                    int (*fn)(const struct cdi_specs_clash *clash, void *user), void *user);

/* What it means and what to do, as a sentence without a full stop, into text. */
void cdi_specs_say(const struct cdi_specs_clash *clash, char *text, size_t size);
/* The same on standard error, as a line of this command's (char *). Returns 0. */
int cdi_specs_print(const struct cdi_specs_clash *clash, void *command);

/* The file that counts where the folders of all engines have a device of our kind, into path; where
 * none has, the one of our name in /etc/cdi. */
void cdi_specs_find(char *path, size_t size);

/* Whether this engine, the machine's or this user's own, looks into the file's folder. */
bool cdi_specs_engine_reads(const char *engine, const char *file);
