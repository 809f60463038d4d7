/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of the host that do not compute, and are not offered (trial.h); and why. */
#pragma once

#include <stddef.h>

#include "backend/config/settings.h"
#include "protocol/shm.h"

#define SERVER_LEFT_OUT_WHY 160u

struct server_left_out {
    size_t n;
    struct {
        char name[APIR_ID_SIZE];       /* ggml's, printable */
        char why[SERVER_LEFT_OUT_WHY]; /* ggml's own words, or how its process ended; printable */
    } devices[APIR_CONFIG_DEVICES_MAX];
};

/* What a worker's command line takes at most. */
#define SERVER_LEFT_OUT_ARGS (2u * APIR_CONFIG_DEVICES_MAX)

/* Puts them to the end of a command line, as a worker takes them; returns how many words it is.
 * They are borrowed. */
size_t server_left_out_args(const struct server_left_out *left_out, const char **argv);

/* For a ring, for the log: "the host's device NAME cannot compute: WHY", and so on. "": none. */
void server_left_out_tell(const struct server_left_out *left_out, char *text, size_t size);
