/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak-client KIND SEED MILLISECONDS: one client of the soak, with a context of its own, for about
 * so long. Every value that it sends depends on the seed, so that another client's shows. Exit
 * status 0: all that was promised held. The driver knows which kinds end otherwise.
 */
#ifndef APIR_SOAK_CLIENT_H
#define APIR_SOAK_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

struct soak_client {
    uint32_t seed;
    uint32_t random; /* state */
    double ends;     /* seconds, as now_seconds counts */
};

/* Below `limit`. */
uint32_t soak_random(struct soak_client *c, uint32_t limit);
/* Pauses as a program does between its requests; false: the time is over. */
bool soak_goes_on(struct soak_client *c);

/* Ends: the host has said no, and whoever it said it to has printed why. */
_Noreturn void soak_refused(const char *what);

/* ---- soak_raw.c: contexts without a plug-in --------------------------------------- */

void raw_malformed(struct soak_client *c);
void raw_flood(struct soak_client *c);
void raw_deaf(struct soak_client *c);
void raw_greedy(struct soak_client *c);
void raw_grab(struct soak_client *c);

#endif
