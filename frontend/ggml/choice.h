/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the host's devices this process is to have: a variable
 * APIR_DEVICE_<number>=<id> for each, set by the device's CDI spec. Each has a
 * name of its own, so that several devices add up. Where there is no such variable
 * (in an exec, say) it is what the container was given (given.h).
 */
#pragma once

#include <stdint.h>

#include "protocol/messages.h"

#define CHOICE_MAX 64u

struct choice {
    uint32_t number;
    const char *id; /* borrowed: from the environment, or struct given */
};

/* Puts c among the *n choices (room for CHOICE_MAX), by number; in a full house the highest goes.
 */
void choice_add(struct choice *choices, uint32_t *n, struct choice c);

/*
 * Fills choices (room for CHOICE_MAX) from a NULL-terminated environment, by
 * number, and returns how many; 0: nothing was chosen. A variable without a value
 * is none; of more than there is room for the lowest numbers stay.
 */
uint32_t choice_read(char *const *environment, struct choice *choices);

/* The device of infos that has this id, or -1. */
int choice_find(const struct choice *choice, const struct apir_reply_device_info *infos,
                uint32_t n_infos);
