/* SPDX-License-Identifier: Apache-2.0 */
/* What each sandbox and engine is told: one row for each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cdi/sandbox/edits.h"

struct apir_error;

/* Which users of the host those of a sandbox are, so who of them may open a file of the host. */
enum sandbox_users {
    SANDBOX_USERS_SAME,   /* the one who starts it, with all groups */
    SANDBOX_USERS_ROOT,   /* root, and what an image says: a group has to be given */
    SANDBOX_USERS_MAPPED, /* others, in none of the host's groups */
};

struct sandbox_format {
    const char *name;
    const char
        *engine; /* of cdi_engines: it reads the spec by itself, so it must know the folder */
    enum sandbox_users users;
    const char *where; /* where it goes, for a person */
    /* Characters that cannot be written there; NULL: all can. */
    const char *not_in_paths, *not_in_env;
    bool sees_all;     /* all nodes of the host are there, so it is told which one is meant */
    bool keeps_env;    /* all that runs in it has its environment, so nobody asks what was given */
    bool own_nodes;    /* it makes nodes of its own, of a mode of its own */
    bool device_allow; /* run as a service it wants a line in that unit, too */
    /* Returns 0 or -errno. */
    int (*write)(FILE *out, const struct sandbox_edits *edits, struct apir_error *err);
};

/* Ends with a row without a name. */
extern const struct sandbox_format sandbox_formats[];

/* For --help: a line for each. */
void sandbox_formats_print(void);

/* The text, of the caller, or a refusal where the format has no way to say it. 0 or -errno. */
int sandbox_format_text(const struct sandbox_format *format, const struct sandbox_edits *edits,
                        char **ret_text, struct apir_error *err);

/* The host's groups that may open what others may not, and that a container wants. Returns how
 * many.
 */
size_t sandbox_groups(const struct sandbox_edits *edits, gid_t groups[SANDBOX_LIST_MAX]);
