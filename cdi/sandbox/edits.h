/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a CDI spec gives a container, in the order in which it stands there, for sandboxes and
 * engines that are told in their own words.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/oci/cdi_devices.h"

struct apir_error;
struct json_object;

#define SANDBOX_LIST_MAX 64

/* A file, folder or device node of this machine, and where it is inside. */
struct sandbox_place {
    const char *from, *to;
    bool read_only;
    dev_t rdev;  /* of a device node */
    mode_t mode; /* what it is, and who may open it */
    gid_t gid;
};

struct sandbox_edits {
    char path[4096];
    struct json_object *spec; /* which has all the texts below but `names` and `socket` */
    struct json_object *edits[CDI_DEVICES_EDITS_MAX];
    int n_edits;
    char *names[SANDBOX_LIST_MAX];
    size_t n_names;   /* "VENDOR/CLASS=DEVICE" */
    const char *name; /* of the container or the service, where the text has it; the caller's */
    const char *env[SANDBOX_LIST_MAX];
    size_t n_env; /* "NAME=VALUE" */
    struct sandbox_place nodes[SANDBOX_LIST_MAX], mounts[SANDBOX_LIST_MAX];
    size_t n_nodes, n_mounts;
    char *transport; /* the last of env, where sandbox_edits_pin has put it there */
    char *socket;    /* the host's, on this machine; NULL: none is asked for */
};

/*
 * Of the devices in `names`, with commas between them; NULL: the first that the spec has. path
 * NULL: the spec that engines take; for root it must be one that nobody else can change, since it
 * says what a program then loads. check: all that it names for them must be here, in characters
 * that every format takes; else places have no rdev, mode and gid. Returns 0 or -errno; *ret is to
 * be freed in both cases.
 */
int sandbox_edits_read(const char *path, const char *names, bool check, struct sandbox_edits *ret,
                       struct apir_error *err);

/*
 * Adds the variable that names the first node, as a container that has just this one needs none.
 * One of the spec's wins. Returns 0 or -errno.
 */
int sandbox_edits_pin(struct sandbox_edits *edits, struct apir_error *err);

/* Leaves out the mounts that say what a container was given (common/given.h). */
void sandbox_edits_forget_given(struct sandbox_edits *edits);

void sandbox_edits_fini(struct sandbox_edits *edits);
#define cleanup_edits __attribute__((cleanup(sandbox_edits_fini)))

/*
 * A variable's value as it is on this machine: a path in it that is below a mount's containerPath
 * is what the mount has there. Of these edits of a spec. Returns 1 where it has such a path, 0
 * where not, or -ENOMEM; *ret_text is the caller's.
 */
int sandbox_outside(struct json_object *const *edits, int n, const char *value, char **ret_text);
