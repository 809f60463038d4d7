/* SPDX-License-Identifier: Apache-2.0 */
/* The soak's driver: its phases, what it has counted, and the report of it. */
#ifndef APIR_SOAK_H
#define APIR_SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/hostile/faults/census.h"
#include "tests/hostile/soak/board.h"

enum soak_kind {
    SOAK_COMPUTE,
    SOAK_CHURN,
    SOAK_EVENTS,
    SOAK_BULK,
    SOAK_LLAMA,
    SOAK_GOOD, /* how many kinds behave */
    SOAK_MALFORMED = SOAK_GOOD,
    SOAK_KILLED,
    SOAK_STOPPED,
    SOAK_FLOOD,
    SOAK_DEAF,
    SOAK_GREEDY,
    SOAK_ALLOCATE,
    SOAK_HUGE,
    SOAK_KINDS,
};

extern const char *const soak_kind_names[SOAK_KINDS];

struct soak_totals {
    double minutes;
    uint32_t at_once;
    uint32_t most; /* that were open at the same time */
    uint32_t n_phases;
    long contexts;
    long of_kind[SOAK_KINDS];
    long wrong;
    long leaked;
    struct census before, after;
    struct census phases[BOARD_PHASES]; /* at the end of each, with clients open */
    long contexts_at[BOARD_PHASES];     /* opened by then */
};

/* Phases take turns: without clients that misbehave, then with them. */
static inline bool soak_phase_is_bad(uint32_t phase)
{
    return phase % 2;
}

/* Percentiles for people, to stderr, and all of it for machines. */
void soak_report(const struct soak_totals *totals, const struct board *board, FILE *json);

#endif
