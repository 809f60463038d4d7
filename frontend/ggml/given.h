/* SPDX-License-Identifier: Apache-2.0 */
/* What this container was given, as the mounts of its CDI spec tell it (common/given.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "frontend/ggml/choice.h"

#define GIVEN_MAX 256u /* devices; a name beyond them counts as none */

struct given {
    bool host; /* by the socket: host0, or devices of it */
    bool all;  /* host0 itself */
    uint32_t n_choices;
    struct choice choices[CHOICE_MAX];
    uint32_t n_ids;
    char ids[GIVEN_MAX][APIR_ID_SIZE]; /* what choices point at */
};

/*
 * Reads the names in `folder` that are the same file as `plugin`, by number. Whoever wrote the
 * image may have put anything there, in any number: what is another file, or no name of ours, is
 * passed over, and no more than 4096 names are looked at. No folder: nothing was given.
 */
void given_read(const char *folder, const char *plugin, struct given *ret);

/*
 * Which devices a process has whose variables name these (choice_read): of the socket alone, where
 * one of them is that one's, since there is one way to the host. Variables that name just what
 * was given are the spec's, and host0 is all devices then. Fills ret (room for CHOICE_MAX) and
 * returns how many; 0: whatever the host offers.
 */
uint32_t given_choose(const struct given *g, const struct choice *named, uint32_t n_named,
                      struct choice *ret);
